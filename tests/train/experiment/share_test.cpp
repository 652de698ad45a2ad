// Experiments dealt out to several processes.
#include "train/experiment/share.h"

#include <doctest/doctest.h>

#include "tensor/base/usage_error.h"
#include "tests/support/environment.h"
#include "tests/support/program.h"

namespace {

using namespace hg;
using namespace hg::experiment;
using namespace hg::testing;

constexpr const char* kExperiment = R"([experiment]
question = "Does it work?"
base = "base.toml"
repeats = 3
[[arm]]
name = "a"
[[arm]]
name = "b"
set = ["train.learning_rate=0.002"]
)";

std::string fault_of(const std::string& share) {
  try {
    share_from(share);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

Json results_in(const std::string& folder) {
  return Json::parse(contents_of(folder + "/results.json"));
}

}  // namespace

TEST_CASE("a share has every N-th seed with all arms, and shares make the whole") {
  Plan plan;
  plan.repeats = 7;
  plan.first_seed = 3;
  plan.arms = {{"a", "", {}}, {"b", "", {}}};
  const std::vector<PlannedRun> all = schedule(plan);
  std::vector<std::string> names;
  for (std::int64_t i = 1; i <= 3; ++i) {
    const std::vector<PlannedRun> own = RunShare{i, 3}.of(all, plan);
    REQUIRE(own.size() % 2 == 0);
    for (std::size_t r = 0; r < own.size(); r += 2) {
      CHECK(own[r].seed == own[r + 1].seed);
      CHECK(own[r].arm != own[r + 1].arm);
    }
    for (const PlannedRun& run : own) names.push_back(run.name());
  }
  std::vector<std::string> expected;
  for (const PlannedRun& run : all) expected.push_back(run.name());
  std::sort(names.begin(), names.end());
  std::sort(expected.begin(), expected.end());
  CHECK(names == expected);
}

TEST_CASE("a share's parts are the share") {
  CHECK(RunShare{}.part(0, 1).whole());
  CHECK(RunShare{2, 3}.part(0, 2).text() == "share 3 of 6");
  CHECK(RunShare{2, 3}.part(1, 2).text() == "share 4 of 6");
}

TEST_CASE("a share is I/N, or the place in a job array") {
  CHECK(share_from("").whole());
  CHECK(share_from("2/5").index == 2);
  CHECK(share_from("2/5").count == 5);
  for (const char* bad : {"0/2", "3/2", "2", "/2", "1/", "1/2/3", "a/b", "1/-2"})
    CHECK(fault_of(bad).find("expected I/N") != std::string::npos);
  const Environment id("SLURM_ARRAY_TASK_ID", "12"), first("SLURM_ARRAY_TASK_MIN", "10"),
      last("SLURM_ARRAY_TASK_MAX", "13"), count("SLURM_ARRAY_TASK_COUNT", "4");
  CHECK(share_from("").index == 3);
  CHECK(share_from("").count == 4);
  const Environment gap("SLURM_ARRAY_TASK_COUNT", "3");
  CHECK(fault_of("").find("without gaps") != std::string::npos);
}

TEST_CASE("shares at work together train each run once, and the last leaves all results") {
  const TempFolder folder;
  put(folder / "mine.toml", kExperiment);
  put(folder / "base.toml",
      "[data]\nname = 'shapes'\ntrain_limit = 32\ntest_limit = 16\n[model]\nin_channels = 1\n"
      "img_size = 16\npatch_size = 4\nemb_size = 16\ndepth = 1\nheads = 2\nnum_classes = 3\n"
      "[train]\nbatch_size = 16\nepochs = 1\n");
  const auto share = [&](const std::string& which) {
    return Arguments{
        "experiment", folder / "mine.toml", "--out", folder / "out", "--quiet", "--share", which};
  };
  const Environment root("HG_POWERCAP_ROOT", "/nowhere"), nvml("HG_NVML_LIB", "/nowhere");
  Child first(share("1/2")), second(share("2/2"));
  const Outcome one = first.wait(), two = second.wait();
  INFO(one.err << two.err);
  REQUIRE(one.code == 0);
  REQUIRE(two.code == 0);
  CHECK(results_in(folder / "out")["status"] == "finished");
  CHECK(results_in(folder / "out")["runs"].size() == 6);
  CHECK(files_in(folder / "out/runs") ==
        std::vector<std::string>{"a-1", "a-2", "a-3", "b-1", "b-2", "b-3"});
  CHECK((one.out + two.out).find("Results: ") != std::string::npos);
}
