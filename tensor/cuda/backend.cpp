// Device memory, copies and clock by the CUDA runtime.
#include "tensor/backend.h"

#include "tensor/cuda/check.h"
#include "tensor/cuda/device.h"
#include "tensor/cuda/memory.h"
#include "tensor/cuda/stream.h"

namespace hg {

CudaStream::CudaStream() {
  cuda::check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "cudaStreamCreate");
}

CudaStream::~CudaStream() {
  if (blas_) static_cast<void>(cublasDestroy(blas_));
  static_cast<void>(cudaStreamDestroy(handle_));
}

cublasHandle_t CudaStream::blas() {
  if (!blas_) {
    cuda::check(cublasCreate(&blas_), "cublasCreate");
    cuda::check(cublasSetStream(blas_, handle_), "cublasSetStream");
  }
  return blas_;
}

namespace cuda {
namespace {

#ifdef HG_CUDA_NO_CACHE
constexpr bool kCached = false;  // so that every block has guards of its own
#else
constexpr bool kCached = true;
#endif

class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&handle_, cudaEventDefault), "cudaEventCreate"); }
  ~Event() { static_cast<void>(cudaEventDestroy(handle_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(CudaStream& stream) { check(cudaEventRecord(handle_, stream.handle()), "event"); }
  void wait() { check(cudaEventSynchronize(handle_), "event"); }
  double ns_since(const Event& start) const {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start.handle_, handle_), "event");
    return static_cast<double>(ms) * 1e6;
  }

 private:
  cudaEvent_t handle_ = nullptr;
};

class CudaBackend final : public Backend {
 public:
  CudaBackend() { start_.record(stream_); }

  void* alloc(std::size_t bytes) override { return memory_.allocate(bytes); }
  void free(void* p) noexcept override { memory_.deallocate(p); }
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0)
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_.handle()), "cudaMemcpy");
  }
  void fill_zero(void* p, std::size_t bytes) override {
    if (bytes > 0) check(cudaMemsetAsync(p, 0, bytes, stream_.handle()), "cudaMemset");
  }
  void synchronize() override { check(cudaStreamSynchronize(stream_.handle()), "synchronize"); }
  // When the work queued so far was done; waits for it.
  std::int64_t timestamp_ns() override {
    Event now;
    now.record(stream_);
    now.wait();
    return static_cast<std::int64_t>(now.ns_since(start_));
  }
  CudaStream& stream() { return stream_; }

 private:
  CudaStream stream_;
  DeviceMemory memory_{kCached};
  Event start_;
};

// Without a driver cudaGetDeviceCount fails and leaves the count as it was.
std::string find_device() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver)
    return "no NVIDIA driver, or one too old for this build of CUDA";
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) return "no NVIDIA GPU";
  if (error != cudaSuccess) return fmt::format("CUDA cannot start: {}", cudaGetErrorString(error));
  return {};
}

CudaBackend& the_backend() {
  const std::string reason = unavailable();
  require(reason.empty(), "cuda", "{}", reason);
  static CudaBackend& instance = *new CudaBackend;  // never destroyed: tensors may outlive main
  return instance;
}

}  // namespace

std::string unavailable() {
  static const std::string& reason = *new std::string(find_device());
  return reason;
}
Backend& backend() { return the_backend(); }
CudaStream& stream() { return the_backend().stream(); }

}  // namespace cuda
}  // namespace hg
