// What stands where CUDA would be in builds without it. Weak: the kernels of an emulated device
// take the place of these (tests/cuda_emu).
#include "tensor/base/error.h"
#include "tensor/cuda_device.h"
#include "tensor/cuda_peers.h"
#include "tensor/ops/op_headers.inc"  // written by CMake: each stem's header

namespace hg {
namespace cuda {

[[gnu::weak]] bool compiled() { return false; }
[[gnu::weak]] std::string unavailable() { return "this build has no CUDA device"; }
[[gnu::weak]] Backend& backend() { fail("cuda", "{}", unavailable()); }
[[gnu::weak]] CudaStream& stream() { fail("cuda", "{}", unavailable()); }
[[gnu::weak]] std::uint64_t work_started() { return 0; }
[[gnu::weak]] std::string pci_bus_id() { fail("cuda", "{}", unavailable()); }
[[gnu::weak]] DeviceFacts device_facts() { fail("cuda", "{}", unavailable()); }
[[gnu::weak]] void use_tf32(bool) {}
[[gnu::weak]] void upload(void*, const void*, std::size_t) { fail("cuda", "{}", unavailable()); }
[[gnu::weak]] std::unique_ptr<Download> download(const void*, std::size_t) {
  fail("cuda", "{}", unavailable());
}
[[gnu::weak]] std::unique_ptr<MarkTimer> mark_timer() { fail("cuda", "{}", unavailable()); }
[[gnu::weak]] std::unique_ptr<UploadAhead> upload_ahead() { fail("cuda", "{}", unavailable()); }

[[gnu::weak]] void choose_gpu(int) {}
[[gnu::weak]] GpuInUse gpu_in_use() { fail("cuda", "{}", unavailable()); }
[[gnu::weak]] std::unique_ptr<SideStream> side_stream() { fail("cuda", "{}", unavailable()); }

}  // namespace cuda

namespace ops {

#define HG_CUDA_OP(class_name) \
  [[gnu::weak]] void class_name::cuda(In in, Out out, CudaStream& s) const { Op::cuda(in, out, s); }
#include "tensor/ops/cuda_ops.inc"  // written by CMake: the classes of each stem with a .cu
#undef HG_CUDA_OP

}  // namespace ops
}  // namespace hg
