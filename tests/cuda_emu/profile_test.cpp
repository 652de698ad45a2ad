// A profile of a training step on the CUDA device, real or emulated: its rows have the times at
// which the device ran them.
#include <doctest/doctest.h>

#include "energy/books/session.h"
#include "tests/energy/meters/fake_meter.h"
#include "train/phases/measured_step.h"

namespace hg {
namespace {

using energy::Ledger;
using energy::LedgerRow;

Config tiny() {
  return parse_config(R"(
[run]
device = "cuda"
[model]
img_size = 8
in_channels = 1
num_classes = 3
patch_size = 4
emb_size = 8
depth = 1
heads = 2
[train]
batch_size = 2
)",
                      "tiny.toml");
}

class CallCounter final : public Observer {
 public:
  void op_end(const OpCall& call) override { calls += call.out[0].device() == Device::cuda; }
  std::uint64_t calls = 0;
};

TEST_CASE("every call on the device is in the books, with the device's time") {
  MeasuredStep step(tiny());
  step();
  testing::SteadyMeter meter(50);
  energy::SessionOptions options;
  options.workers = 2;
  options.period = {0.001};
  energy::Session session(meter, options);
  CallCounter counter;
  {
    const ObserverGuard guard(counter);
    for (int i = 0; i < 3; ++i) {
      step();
      session.cut();
    }
  }
  const Ledger books = session.stop();
  double covered = 0;
  std::uint64_t attention_calls = 0;
  for (const LedgerRow& row : books.rows) {
    if (!row.is_op()) continue;
    INFO(row.label.phase << " " << row.label.layer << " " << row.label.op);
    CHECK(row.seconds >= 0);
    covered += row.seconds;
    if (row.label.layer == "blocks.0.attn" && row.label.op == "qk") attention_calls += row.calls;
    if (row.label.layer == "blocks.0.mlp" && row.label.op == "fc1") CHECK(row.seconds > 0);
  }
  CHECK(attention_calls == 2 * 3);  // forward and backward
  CHECK(session.profiler().calls() >= counter.calls);
  CHECK(covered > 0.1 * books.seconds);
  CHECK(covered <= books.seconds * 1.001);
}

}  // namespace
}  // namespace hg
