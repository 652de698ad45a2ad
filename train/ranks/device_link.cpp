#include "train/ranks/device_link.h"

#include "train/ranks/module.h"
#include "train/ranks/ranks.h"

namespace hg {
namespace {

constexpr Module kNccl{"libhg_nccl.so", kMakeDeviceLink, "HG_NCCL", "NCCL (libnccl.so.2)"};

}  // namespace

void link_gpus(Ranks& ranks) {
  if (ranks.alone() || ranks.devices()) return;
  const auto make = reinterpret_cast<MakeDeviceLink>(function_of(kNccl, "ranks on GPUs"));
  std::unique_ptr<DeviceLink> link(make());
  link->connect(ranks.broadcast(ranks.first() ? link->id() : ""), ranks.rank(), ranks.size());
  ranks.await_devices([&] { return link->settled() ? 0 : 1; });
  ranks.link_devices(std::move(link));
}

}  // namespace hg
