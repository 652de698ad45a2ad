// hgtrain check-device on the CUDA device, real or emulated: it passes, and a kernel that is wrong
// fails it.
#include <doctest/doctest.h>

#include "tensor/observer.h"
#include "tensor/transfer.h"
#include "train/commands/check_ops.h"
#include "train/commands/commands.h"

namespace hg {
namespace {

CheckDeviceOptions small_options() {
  CheckDeviceOptions options;
  options.config = "shapes";
  options.settings = {"model.img_size=16", "model.patch_size=8", "model.emb_size=8",
                      "model.depth=1",     "model.heads=2",      "train.batch_size=2"};
  options.device = "cuda";
  options.json = true;
  return options;
}

// Changes an output of an op on the device, as a kernel that is wrong would.
class WrongOnDevice final : public Observer {
 public:
  void op_end(const OpCall& call) override {
    if (call.op.name() != "layer_norm" || call.out[0].device() != Device::cuda) return;
    edit_on_host(call.out[0], [](const Tensor& t) { *t.data<float>() += 0.1f; });
  }
};

TEST_CASE("check-device passes on the device") {
  CHECK(check_device_command(small_options()) == 0);
}

TEST_CASE("a kernel of the device that is wrong fails check-device") {
  const CheckDeviceOptions options = small_options();
  const Config config = options.load();
  WrongOnDevice wrong;
  const ObserverGuard guard(wrong);
  int failed = 0;
  for (const OpCase& call : calls_of_step(config)) {
    const Checked checked = check_calls({call}, Device::cuda, false).at(0);
    CHECK(checked.ok() == (checked.op != "layer_norm"));
    failed += !checked.ok();
    CHECK(checked.microseconds.has_value() == is_timed(Device::cuda));
  }
  CHECK(failed > 0);
}

}  // namespace
}  // namespace hg
