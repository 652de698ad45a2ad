// The powers of 50 us ops, known to the simulation, are recovered from a counter that moves once a
// millisecond.
#include <doctest/doctest.h>

#include "tests/energy/books/simulation.h"
#include "tests/support/sanitized.h"

using namespace hg::testing;

namespace {

double relative(double found, double truth) { return std::abs(found - truth) / truth; }

}  // namespace

TEST_CASE("powers of 50 us ops are recovered from a 1 ms counter") {
  double sum = 0, worst = 0, by_time = 0;
  int count = 0;
  std::vector<double> mean_error(kOpTypes.size());
  constexpr int kReplays = 40;
  for (int seed = 0; seed < kReplays; ++seed) {
    const Replay r = Simulation({}, static_cast<std::uint64_t>(seed)).run(50);
    for (std::size_t i = 0; i < kOpTypes.size(); ++i) {
      const double error = relative(r.found_uj[i], r.truth_uj[i]);
      sum += error;
      worst = std::max(worst, error);
      by_time += relative(r.by_time_uj[i], r.truth_uj[i]);
      ++count;
    }
  }
  INFO("mean error " << 100 * sum / count << " %, worst " << 100 * worst << " %, by time "
                     << 100 * by_time / count << " %");
  CHECK(sum / count <= 0.03);
  CHECK(worst <= 0.08);
  CHECK(by_time / count >= 5 * sum / count);
}

TEST_CASE("nominal 95 % intervals hold in 93 to 97 % of 1000 replays" * doctest::skip(kSanitized)) {
  int burst = 1;
  SUBCASE("ops in random order") { burst = 1; }
  SUBCASE("ops in bursts longer than the counter's period") { burst = 60; }
  std::vector<int> held(kOpTypes.size());
  int all = 0;
  constexpr int kReplays = 1000;
  for (int seed = 0; seed < kReplays; ++seed) {
    const Replay r = Simulation({}, 1000 + static_cast<std::uint64_t>(seed)).run(25, burst);
    for (std::size_t i = 0; i < kOpTypes.size(); ++i)
      if (r.low_uj[i] <= r.truth_uj[i] && r.truth_uj[i] <= r.high_uj[i]) ++held[i], ++all;
  }
  for (std::size_t i = 0; i < kOpTypes.size(); ++i) {
    INFO("op " << i);
    CHECK(held[i] >= 930);
    CHECK(held[i] <= 970);
  }
  const double share = all / (1.0 * kReplays * static_cast<double>(kOpTypes.size()));
  CHECK(share >= 0.93);
  CHECK(share <= 0.97);
}
