// A mark in the order of a stream's work: whether the device has come as far, and when.
#pragma once

#include "tensor/base/no_copy.h"
#include "tensor/cuda/check.h"

namespace hg::cuda {

class Event : NoCopy {
 public:
  // Who waits for one sleeps meanwhile.
  explicit Event(unsigned flags = cudaEventDisableTiming) {
    check(cudaEventCreateWithFlags(&handle_, flags | cudaEventBlockingSync), "cudaEventCreate");
  }
  ~Event() { static_cast<void>(cudaEventDestroy(handle_)); }

  void record(cudaStream_t stream) { check(cudaEventRecord(handle_, stream), "cudaEventRecord"); }
  // Work queued on the stream from now on waits for it.
  void hold(cudaStream_t stream) const {
    check(cudaStreamWaitEvent(stream, handle_, 0), "cudaStreamWaitEvent");
  }
  void wait() const { check(cudaEventSynchronize(handle_), "cudaEventSynchronize"); }
  bool reached() const {
    const cudaError_t error = cudaEventQuery(handle_);
    if (error != cudaErrorNotReady) check(error, "cudaEventQuery");
    return error == cudaSuccess;
  }
  // Of two with flags cudaEventDefault, both reached.
  double ns_since(const Event& start) const {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start.handle_, handle_), "cudaEventElapsedTime");
    return static_cast<double>(ms) * 1e6;
  }
  cudaEvent_t handle() const { return handle_; }

 private:
  cudaEvent_t handle_ = nullptr;
};

}  // namespace hg::cuda
