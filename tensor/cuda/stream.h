// The stream of work on the device, and what its launches share.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "tensor/base/no_copy.h"

namespace hg {

class CudaStream : NoCopy {
 public:
  CudaStream();
  ~CudaStream();

  cudaStream_t handle() const { return handle_; }
  cublasHandle_t blas();  // made at first use; its work goes to this stream
  void use_tf32(bool on);
  bool tf32() const { return tf32_; }
  // Kernels, products, copies and fills so far, counted by the thread that starts them.
  void count_work() { ++work_; }
  std::uint64_t work() const { return work_; }

 private:
  cudaStream_t handle_ = nullptr;
  cublasHandle_t blas_ = nullptr;
  bool tf32_ = false;
  std::uint64_t work_ = 0;
};

}  // namespace hg
