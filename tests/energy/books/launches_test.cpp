// Times of calls on a GPU: from marks after each, or from one mark after many.
#include "energy/books/launches.h"

#include <doctest/doctest.h>

#include "energy/books/step_sampler.h"

namespace launches_test {

using namespace hg;
using namespace hg::energy;

// Marks are reached at the times that the test gives.
struct Marks final : cuda::MarkTimer {
  explicit Marks(std::deque<std::int64_t>& at) : at_ns(at) {}
  void mark() override { ++made; }
  std::optional<std::int64_t> next(bool) override {
    if (at_ns.empty() || made == taken) return std::nullopt;
    ++taken;
    const std::int64_t ns = at_ns.front();
    at_ns.pop_front();
    return ns;
  }
  std::deque<std::int64_t>& at_ns;
  int made = 0, taken = 0;
};

GpuCall call(RowId row, std::int64_t launch_ns) {
  Site site;
  site.rows[0] = row;
  return {site, Cost{.flops_ew = 100}, launch_ns, 0};
}

struct Bench {
  std::deque<std::int64_t> at_ns;
  Launches launches{std::make_unique<Marks>(at_ns), PartTimes{10, 80, 40}};
  // "start-end" of each call
  std::string collected(bool wait = false) {
    std::string text;
    launches.collect(wait, [&](const GpuCall& c) {
      text += fmt::format("{}{}-{}", text.empty() ? "" : " ", c.start_ns, c.end_ns);
    });
    return text;
  }
};

TEST_CASE("a call lasts from the mark before it to its own, but begins after its launch") {
  Bench b;
  b.launches.add(call(2, 100));
  CHECK(b.launches.earliest() == 100);
  CHECK(b.collected() == "");  // still running
  b.at_ns = {500};
  CHECK(b.collected() == "100-500");
  CHECK(b.launches.earliest() == 0);
  b.launches.add(call(3, 300));
  b.launches.add(call(4, 1000));  // launched when the device was idle again
  b.at_ns = {700, 1200};
  CHECK(b.collected() == "500-700 1000-1200");
}

TEST_CASE("calls of a step that is not timed take what they took before, within the step") {
  Bench b;
  b.launches.add(call(2, 0));
  b.launches.add(call(3, 0));
  b.at_ns = {100, 400};
  CHECK(b.collected() == "0-100 100-400");  // 100 ns and 300 ns
  b.launches.begin_step(false);
  b.launches.add(call(2, 500));
  b.launches.add(call(3, 510));
  b.launches.add(call(2, 2000));
  CHECK(b.collected() == "");  // no mark yet
  b.launches.begin_step(false);
  b.at_ns = {2200};
  CHECK(b.collected() == "500-600 600-900 2000-2100");
  b.launches.add(call(2, 2200));
  b.launches.add(call(3, 2200));
  b.at_ns = {2400};  // in half of the time
  CHECK(b.collected(true) == "2200-2250 2250-2400");
}

TEST_CASE("a call that was never timed is guessed by its cost") {
  Bench b;
  b.launches.add(call(2, 0));
  b.at_ns = {100};
  b.collected();
  b.launches.begin_step(false);
  b.launches.add(call(7, 200));
  b.launches.add(call(8, 200));
  b.at_ns = {1000};
  CHECK(b.collected(true) == "200-300 300-400");
}

// Steps of 10 ms, those that are timed longer by so much.
int every_of(std::int64_t more_ns) {
  StepSampler sampler;
  std::int64_t now = 1;
  for (int i = 0; i < 20; ++i)
    now += 10'000'000 + (sampler.begin(Phase::forward, now) ? more_ns : 0);
  return sampler.every();
}

TEST_CASE("the more timing a step costs, the fewer are timed") {
  CHECK(every_of(0) == 1);
  CHECK(every_of(40'000) == 1);
  CHECK(every_of(500'000) == 10);  // 5 %: of every tenth step half a percent
  CHECK(every_of(10'000'000'000) == StepSampler::kMostEvery);
}

TEST_CASE("each phase is timed from its first step on, one in N") {
  StepSampler sampler;
  std::int64_t now = 1;
  while (sampler.every() == 0)
    now += 10'000'000 + (sampler.begin(Phase::forward, now) ? 200'000 : 0);
  REQUIRE(sampler.every() == 4);
  CHECK(sampler.cost() == doctest::Approx(0.02));
  std::string timed;
  for (int i = 0; i < 9; ++i) timed += sampler.begin(Phase::eval, now) ? "T" : ".";
  CHECK(timed == "T...T...T");
}

}  // namespace launches_test
