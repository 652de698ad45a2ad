// Errors of the CUDA runtime and of cuBLAS become hg::Error.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include "tensor/base/error.h"

namespace hg::cuda {

inline void check(cudaError_t error, std::string_view who) {
  require(error == cudaSuccess, who, "{}: {}", cudaGetErrorName(error), cudaGetErrorString(error));
}

inline void check(cublasStatus_t status, std::string_view who) {
  require(status == CUBLAS_STATUS_SUCCESS, who, "cuBLAS status {}", static_cast<int>(status));
}

}  // namespace hg::cuda
