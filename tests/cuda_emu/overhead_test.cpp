// What profiling asks of the emulated device: events are recorded where something was launched, and
// in sampled runs in few steps alone, while every call and FLOP is in the books.
#include <doctest/doctest.h>

#include "energy/books/session.h"
#include "tests/cuda_emu/queue.h"
#include "tests/energy/meters/fake_meter.h"
#include "train/phases/measured_step.h"

namespace hg {
namespace {

// DeiT-Tiny's blocks on few tokens: what is launched does not depend on their number.
Config tiny_vit(const std::vector<std::string>& settings = {}) {
  return parse_config(R"(
[run]
device = "cuda"
[model]
img_size = 32
in_channels = 3
num_classes = 10
patch_size = 16
emb_size = 192
depth = 12
heads = 3
[train]
batch_size = 1
)",
                      "tiny.toml", settings);
}

struct Counts {
  std::uint64_t launches = 0, events = 0;
};

// Of one step under the session, until its energy is booked.
Counts counts_of(MeasuredStep& step, energy::Session& session) {
  const std::uint64_t launches = emu::launches(), events = emu::event_records();
  step();
  session.cut();
  return {emu::launches() - launches, emu::event_records() - events};
}

energy::SessionOptions rare_readings() {
  energy::SessionOptions options;
  options.workers = 2;
  options.period = {3600};
  return options;
}

std::uint64_t flops_of(const energy::Session& session) {
  return energy::sum_of(session.ledger().rows).flops;
}
std::uint64_t calls_of(const energy::Session& session) {
  return energy::sum_of(session.ledger().rows).calls;
}

// Of its depth: narrower, so that the emulator takes less time.
TEST_CASE("a step of ViT-Ti records at most one event a launch, and ten") {
  MeasuredStep step(tiny_vit({"model.emb_size=24", "model.dim_head=8"}));
  const std::uint64_t before = emu::event_records(), launches_before = emu::launches();
  step();
  const std::uint64_t bare = emu::event_records() - before;
  CHECK(emu::launches() - launches_before > 300);
  testing::SteadyMeter meter(50);
  energy::Session session(meter, rare_readings());
  counts_of(step, session);
  const Counts counts = counts_of(step, session);
  MESSAGE("a step of " << counts.launches << " launches: " << counts.events << " events, " << bare
                       << " without profiling");
  CHECK(counts.events <= counts.launches + 10);
  CHECK(counts.events > bare + 200);  // the calls were timed
  session.stop();
}

TEST_CASE("a step that is not timed records next to no events, and is in the books as any other") {
  MeasuredStep step(tiny_vit({"model.depth=1", "model.emb_size=8", "model.heads=2"}));
  step();
  testing::SteadyMeter meter(50);
  energy::SessionOptions options = rare_readings();
  options.sample_steps = true;
  energy::Session session(meter, options);
  counts_of(step, session);  // the session learns that there is a GPU
  std::uint64_t flops = flops_of(session), calls = calls_of(session);
  const std::uint64_t flops_of_step = flops, calls_of_step = calls;
  int timed = 0, plain = 0;
  for (int i = 0; i < 16; ++i) {
    session.begin_step(Phase::forward);
    const Counts counts = counts_of(step, session);
    const bool is_timed = counts.events > counts.launches / 2;
    (is_timed ? timed : plain) += 1;
    if (!is_timed) CHECK(counts.events <= 10);
    CHECK(flops_of(session) - flops == flops_of_step);
    CHECK(calls_of(session) - calls == calls_of_step);
    flops = flops_of(session);
    calls = calls_of(session);
  }
  CHECK(timed >= 7);
  CHECK(plain >= 4);
  const energy::Ledger books = session.stop();
  for (const energy::LedgerRow& row : books.rows)
    if (row.label.layer == "blocks.0.mlp" && row.label.op == "fc1") CHECK(row.seconds > 0);
  CHECK(books.covered_seconds() <= books.seconds * 1.001);
}

}  // namespace
}  // namespace hg
