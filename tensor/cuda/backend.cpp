// Device memory, copies and clock by the CUDA runtime.
#include "tensor/backend.h"

#include <cstring>
#include <utility>

#include "tensor/cuda/device.h"
#include "tensor/cuda/event.h"
#include "tensor/cuda/memory.h"
#include "tensor/cuda/pinned.h"
#include "tensor/cuda/stream.h"
#include "tensor/cuda_device.h"

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

void CudaStream::use_tf32(bool on) {
  cuda::check(cublasSetMathMode(blas(), on ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH),
              "cublasSetMathMode");
  tf32_ = on;
}

namespace cuda {
namespace {

#ifdef HG_CUDA_NO_CACHE
constexpr bool kCached = false;  // so that every block has guards of its own
#else
constexpr bool kCached = true;
#endif

class CudaBackend final : public Backend {
 public:
  CudaBackend() { start_.record(stream_.handle()); }

  void* alloc(std::size_t bytes) override { return memory_.allocate(bytes); }
  void free(void* p) noexcept override { memory_.deallocate(p); }
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return;
    stream_.count_work();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_.handle()), "cudaMemcpy");
  }
  void fill_zero(void* p, std::size_t bytes) override {
    if (bytes == 0) return;
    stream_.count_work();
    check(cudaMemsetAsync(p, 0, bytes, stream_.handle()), "cudaMemset");
  }
  void synchronize() override { check(cudaStreamSynchronize(stream_.handle()), "synchronize"); }
  // When the work queued so far was done; waits for it.
  std::int64_t timestamp_ns() override {
    Event now(cudaEventDefault);
    now.record(stream_.handle());
    now.wait();
    return static_cast<std::int64_t>(now.ns_since(start_));
  }
  CudaStream& stream() { return stream_; }
  CudaStream& copies() { return copies_; }
  PinnedMemory& pinned() { return pinned_; }

  // By way of pinned memory, so that nobody waits.
  void upload(void* to, const void* from, std::size_t bytes, CudaStream& stream) {
    void* const staging = pinned_.allocate(bytes);
    std::memcpy(staging, from, bytes);
    check(cudaMemcpyAsync(to, staging, bytes, cudaMemcpyHostToDevice, stream.handle()), "upload");
    pinned_.deallocate(staging, stream.handle());
  }

 private:
  CudaStream stream_, copies_;
  DeviceMemory memory_{kCached};
  PinnedMemory pinned_;
  Event start_{cudaEventDefault};
};

class PinnedDownload final : public Download {
 public:
  PinnedDownload(CudaBackend& device, const void* from, std::size_t bytes)
      : device_(device), data_(device.pinned().allocate(bytes)) {
    device_.copy(data_, from, bytes);
    there_.record(device_.stream().handle());
  }
  ~PinnedDownload() override {
    try {
      device_.pinned().deallocate(data_, device_.stream().handle());
    } catch (const Error&) {  // the device is lost, and whoever uses it next will say so
    }
  }
  const void* wait() override {
    there_.wait();
    return data_;
  }

 private:
  CudaBackend& device_;
  void* const data_;
  Event there_;
};

// The memory written to may have been someone else's a moment ago, whose work is still queued.
class CopiesAhead final : public UploadAhead {
 public:
  explicit CopiesAhead(CudaBackend& device) : device_(device) {}
  ~CopiesAhead() override {
    try {
      arrive();
    } catch (const Error&) {  // the device is lost, and whoever uses it next will say so
    }
  }
  void send(void* to, const void* from, std::size_t bytes) override {
    enter_device();
    freed_.record(device_.stream().handle());
    freed_.hold(device_.copies().handle());
    device_.upload(to, from, bytes, device_.copies());
    sent_ = true;
  }
  void arrive() override {
    if (!std::exchange(sent_, false)) return;
    arrived_.record(device_.copies().handle());
    arrived_.hold(device_.stream().handle());
  }

 private:
  CudaBackend& device_;
  Event freed_, arrived_;
  bool sent_ = false;
};

CudaBackend& the_backend() {
  const std::string reason = unavailable();
  require(reason.empty(), "cuda", "{}", reason);
  enter_device();
  static CudaBackend& instance = *new CudaBackend;  // never destroyed: tensors may outlive main
  return instance;
}

}  // namespace

Backend& backend() { return the_backend(); }
CudaStream& stream() { return the_backend().stream(); }
std::uint64_t work_started() { return stream().work(); }
std::string pci_bus_id() {
  enter_device();
  int device = 0;
  char id[32] = {};
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetPCIBusId(id, sizeof id, device), "cudaDeviceGetPCIBusId");
  return id;
}
void use_tf32(bool on) { stream().use_tf32(on); }

void upload(void* to, const void* from, std::size_t bytes) {
  the_backend().upload(to, from, bytes, stream());
}
std::unique_ptr<UploadAhead> upload_ahead() { return std::make_unique<CopiesAhead>(the_backend()); }

std::unique_ptr<Download> download(const void* from, std::size_t bytes) {
  return std::make_unique<PinnedDownload>(the_backend(), from, bytes);
}

}  // namespace cuda
}  // namespace hg
