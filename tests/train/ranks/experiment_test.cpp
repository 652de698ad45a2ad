// Experiments over ranks: runs dealt out to groups of them.
#include <signal.h>

#include "tests/train/ranks/mpirun.h"

namespace {

using namespace hg;
using namespace hg::testing;

// Two arms of as many runs, in four lanes each.
constexpr const char* kExperiment = R"([experiment]
question = "Does it work?"
base = "base.toml"
repeats = 2
[[arm]]
name = "a"
[[arm]]
name = "b"
set = ["train.learning_rate=0.002"]
)";
constexpr const char* kBase = R"([run]
lanes = 4
[data]
name = "shapes"
train_limit = 32
test_limit = 16
[model]
in_channels = 1
img_size = 16
patch_size = 4
emb_size = 16
depth = 1
heads = 2
num_classes = 3
[train]
batch_size = 16
)";

struct Experiments {
  explicit Experiments(int epochs) {
    put(folder / "mine.toml", kExperiment);
    put(folder / "base.toml", kBase + ("epochs = " + std::to_string(epochs)));
  }
  std::string at(const std::string& name) const { return folder / name; }
  Arguments run(const std::string& name, const Arguments& more = {}) const {
    return Arguments{"experiment", folder / "mine.toml", "--out", at(name), "--threads", "1"} +
           more;
  }

  const MpiRoot root;
  // The model's meter: each process has its own.
  const Environment powercap{"HG_POWERCAP_ROOT", "/nowhere"}, nvml{"HG_NVML_LIB", "/nowhere"};
  TempFolder folder;
};

const std::vector<std::string> kRuns{"a-1", "a-2", "b-1", "b-2"};

Arguments groups_of(int ranks) { return {"--ranks-per-run", std::to_string(ranks)}; }

void check_all(const std::string& folder, const std::string& alone, int ranks) {
  const Json results = Json::parse(contents_of(folder + "/results.json"));
  CHECK(results["status"] == "finished");
  CHECK(results["runs"].size() == kRuns.size());
  CHECK(files_in(folder + "/runs") == kRuns);
  for (const std::string& name : kRuns) {
    const std::string run = "/runs/" + name;
    INFO(run);
    CHECK(contents_of(folder + run + "/model.safetensors") ==
          contents_of(alone + run + "/model.safetensors"));
    CHECK(summary_of(folder + run)["ranks"] == ranks);
    CHECK(Json::parse(contents_of(folder + run + "/launches.json"))["launches"].size() == 1);
  }
}

}  // namespace

TEST_CASE("groups of ranks train each run of an experiment once, with the bits of one rank") {
  HG_NEEDS_MPIRUN();
  const Experiments experiments(2);
  REQUIRE(hgtrain(experiments.run("alone", {"--quiet"})).code == 0);
  for (const int ranks : {1, 2, 4}) {
    INFO("groups of " << ranks);
    const std::string name = "by" + std::to_string(ranks);
    const Outcome outcome =
        hgtrain(on_ranks(4, experiments.run(name, groups_of(ranks) + Arguments{"--quiet"})),
                under_mpirun());
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK(lines_with("Results: ", outcome.out) == 1);
    check_all(experiments.at(name), experiments.at("alone"), ranks);
  }
}

TEST_CASE("ranks that make no groups of this size are refused in one line") {
  HG_NEEDS_MPIRUN();
  const Experiments experiments(1);
  const Outcome three = hgtrain(on_ranks(3, experiments.run("out", groups_of(2))), under_mpirun());
  CHECK(three.code == 2);
  CHECK(lines_with("hgtrain: ", three.err) == 1);
  CHECK(three.err.find("--ranks-per-run: expected a divisor of 3") != std::string::npos);
  check_refused(hgtrain(experiments.run("out", groups_of(2))), 2, {"--ranks-per-run"});
  CHECK_FALSE(exists(experiments.at("out")));
}

TEST_CASE("arms that have too few lanes for a group are refused before the first run") {
  HG_NEEDS_MPIRUN();
  const Experiments experiments(1);
  const Outcome few =
      hgtrain(on_ranks(2, experiments.run("out", groups_of(2) + Arguments{"--set", "run.lanes=1"})),
              under_mpirun());
  CHECK(few.code == 2);
  CHECK(lines_with("hgtrain: ", few.err) == 1);
  CHECK(few.err.find("a: a batch of phase 0 has 1 lanes for 2 ranks") != std::string::npos);
  CHECK_FALSE(exists(experiments.at("out")));
}

TEST_CASE("a rank that is killed ends all groups, and the experiment goes on where it was") {
  HG_NEEDS_MPIRUN();
  const Experiments experiments(60);
  REQUIRE(hgtrain(experiments.run("alone", {"--quiet"})).code == 0);
  const Arguments pairs = experiments.run("pairs", groups_of(2));
  const Outcome killed = disturbed(4, pairs, SIGKILL);
  INFO(killed.err);
  CHECK(killed.code != 0);
  CHECK(lines_with("hgtrain: rank ", killed.err) <= 1);
  CHECK(lines_with("Killed", killed.err) + lines_with("has ended", killed.err) >= 1);
  const Outcome again = hgtrain(on_ranks(4, pairs + Arguments{"--quiet"}), under_mpirun());
  INFO(again.err);
  REQUIRE(again.code == 0);
  for (const std::string& name : kRuns)
    CHECK(contents_of(experiments.at("pairs/runs/" + name + "/model.safetensors")) ==
          contents_of(experiments.at("alone/runs/" + name + "/model.safetensors")));
}

TEST_CASE("a signal to one rank stops its group in order") {
  HG_NEEDS_MPIRUN();
  const Experiments experiments(200);
  const Outcome stopped = disturbed(4, experiments.run("pairs", groups_of(2)), SIGUSR1);
  INFO(stopped.err);
  CHECK(stopped.code != 0);
  CHECK(lines_with("hgtrain: ", stopped.err) == 0);
  const std::string first = experiments.at("pairs/runs/");
  int interrupted = 0;
  for (const std::string& name : files_in(first))
    interrupted += summary_of(first + name)["status"] == "interrupted";
  CHECK(interrupted == 1);
}
