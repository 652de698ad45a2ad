// Books of a simulated machine: how near they come to what ops drew, and how often their intervals
// hold it. What these tests print stands in energy/README.md.
#include "tests/energy/books/machine.h"

#include <doctest/doctest.h>

#include "tests/support/sanitized.h"

namespace machine_test {

using namespace hg::testing;

constexpr double kSeconds = 60;

struct Tally {
  double error = 0, width = 0;
  int held = 0, count = 0;

  void add(const std::vector<Outcome>& outcomes) {
    for (const Outcome& o : outcomes) {
      error += o.error();
      width += (o.high_uj - o.low_uj) / 2 / o.truth_uj;
      held += o.holds();
      ++count;
    }
  }
  double mean_error() const { return 100 * error / count; }
  double mean_width() const { return 100 * width / count; }
  double held_share() const { return 100.0 * held / count; }
  std::string text() const {
    return fmt::format("mean error {:.2f} %, half of an interval {:.1f} %, held in {:.1f} %",
                       mean_error(), mean_width(), held_share());
  }
};

struct Tallies {
  Tally cpu, gpu;
};

// makes(machine) -> the followers of one replay
template <class Makes>
std::vector<Tallies> replay(int replays, Makes makes) {
  std::vector<Tallies> tallies;
  for (int seed = 0; seed < replays; ++seed) {
    SimulatedMachine machine(static_cast<std::uint64_t>(seed) + 1);
    const std::vector<Follower> followers = makes(machine);
    const std::vector<Followed> found = machine.run(kSeconds, followers);
    tallies.resize(found.size());
    for (std::size_t f = 0; f < found.size(); ++f) {
      if (!followers[f].slow_gpu) tallies[f].cpu.add(found[f].cpu);
      tallies[f].gpu.add(found[f].gpu);
    }
  }
  return tallies;
}

// Each coefficient 30 % too large or too small; `told`: and the profile says that it may be.
Profile wrong(Profile profile, std::mt19937_64& random, bool told) {
  for (DomainModel& model : profile) {
    model.covariance = {};
    for (std::size_t i = 0; i < kCoefficients; ++i) {
      double& c = model.coefficients[i];
      if (told) model.covariance[i][i] = 0.3 * c * 0.3 * c;
      c *= random() % 2 == 0 ? 1.3 : 0.7;
    }
  }
  return profile;
}

Profile by_time() {
  Profile profile;
  profile.fill({{1, 0, 0, 0}, {}, 0, 1000});
  return profile;
}

Profile widened(Profile profile, double factor) {
  for (DomainModel& model : profile) {
    model.misfit *= factor;
    for (auto& row : model.covariance)
      for (double& x : row) x *= factor * factor;
  }
  return profile;
}

TEST_CASE("the joules of ops are right, and 95 % intervals hold in 93 to 97 % of 200 replays" *
          doctest::skip(kSanitized)) {
  const std::vector<Tallies> found = replay(200, [](SimulatedMachine& machine) {
    const Profile profile = machine.calibrated();
    return std::vector<Follower>{{profile}, {profile, true}};
  });
  const Tally &cpu = found[0].cpu, &gpu = found[0].gpu, &slow = found[1].gpu;
  MESSAGE("CPU:           " << cpu.text());
  MESSAGE("GPU at 20 ms:  " << gpu.text());
  MESSAGE("GPU at 100 ms: " << slow.text());
  CHECK(cpu.mean_error() <= 3);
  CHECK(gpu.mean_error() <= 5);
  CHECK(slow.mean_error() <= 5);
  for (const Tally* tally : {&cpu, &gpu, &slow}) {
    CHECK(tally->held_share() >= 93);
    CHECK(tally->held_share() <= 97);
  }
}

TEST_CASE("a profile that is 30 % wrong and says so, or the default one, has intervals that hold" *
          doctest::skip(kSanitized)) {
  std::mt19937_64 random(9);
  const std::vector<Tallies> found = replay(200, [&](SimulatedMachine& machine) {
    const Profile profile = machine.calibrated();
    const Profile told = wrong(profile, random, true);
    const Profile common{*default_calibration().domains[0], *default_calibration().domains[1],
                         *default_calibration().domains[2]};
    return std::vector<Follower>{{told}, {told, true}, {common}, {common, true}};
  });
  const Tally &cpu = found[0].cpu, &gpu = found[0].gpu, &slow = found[1].gpu;
  MESSAGE("CPU:           " << cpu.text());
  MESSAGE("GPU at 20 ms:  " << gpu.text());
  MESSAGE("GPU at 100 ms: " << slow.text());
  for (const Tally* tally : {&cpu, &gpu, &slow}) {
    CHECK(tally->held_share() >= 93);
    CHECK(tally->mean_width() <= 20);  // not by saying nothing
  }
  const Tally &cpu_default = found[2].cpu, &gpu_default = found[2].gpu,
              &slow_default = found[3].gpu;
  MESSAGE("default, CPU:           " << cpu_default.text());
  MESSAGE("default, GPU at 20 ms:  " << gpu_default.text());
  MESSAGE("default, GPU at 100 ms: " << slow_default.text());
  for (const Tally* tally : {&cpu_default, &gpu_default, &slow_default})
    CHECK(tally->held_share() >= 93);
}

TEST_CASE("what these replays are to find is found" * doctest::skip(kSanitized)) {
  std::mt19937_64 random(9);
  const std::vector<Tallies> found = replay(25, [&](SimulatedMachine& machine) {
    const Profile profile = machine.calibrated();
    return std::vector<Follower>{
        {by_time()}, {widened(profile, 2)}, {profile, true, true}, {wrong(profile, random, false)}};
  });
  const auto &time = found[0], &wide = found[1], &lumps = found[2], &wrongs = found[3];
  MESSAGE("shared by time: CPU " << time.cpu.text() << "; GPU " << time.gpu.text());
  MESSAGE("intervals twice too wide: CPU " << wide.cpu.text() << "; GPU " << wide.gpu.text());
  MESSAGE("lumps of 100 ms on what ran last: " << lumps.gpu.text());
  MESSAGE("30 % wrong and silent: CPU " << wrongs.cpu.text() << "; GPU " << wrongs.gpu.text());
  CHECK(time.cpu.mean_error() > 3);
  CHECK(time.gpu.mean_error() > 5);
  CHECK(wide.cpu.held_share() > 97);
  CHECK(wide.gpu.held_share() > 97);
  CHECK(lumps.gpu.mean_error() > 5);
  CHECK(wrongs.cpu.held_share() < 93);
  CHECK(wrongs.gpu.held_share() < 93);
}

}  // namespace machine_test
