// Experiments over ranks: runs dealt out to groups of them.
#pragma once

#include "tests/train/ranks/mpirun.h"

namespace hg::testing {

// Two arms of as many runs, in four lanes each.
inline constexpr const char* kExperiment = R"([experiment]
question = "Does it work?"
base = "base.toml"
repeats = 2
[[arm]]
name = "a"
[[arm]]
name = "b"
set = ["train.learning_rate=0.002"]
)";
inline constexpr const char* kBase = R"([run]
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
  explicit Experiments(int epochs, const std::string& program = hgtrain_path()) : program(program) {
    put(folder / "mine.toml", kExperiment);
    put(folder / "base.toml", kBase + ("epochs = " + std::to_string(epochs)));
  }
  std::string at(const std::string& name) const { return folder / name; }
  Arguments run(const std::string& name, const Arguments& more = {}) const {
    return Arguments{"experiment", folder / "mine.toml", "--out", at(name), "--threads", "1"} +
           more;
  }
  void train_alone(const Arguments& more = {}) const;
  void check_on_ranks(int size, int ranks, const Arguments& more = {}) const;

  const std::string program;
  const MpiRoot root;
  // The model's meter: each process has its own.
  const Environment powercap{"HG_POWERCAP_ROOT", "/nowhere"}, nvml{"HG_NVML_LIB", "/nowhere"};
  TempFolder folder;
};

inline const std::vector<std::string> kRuns{"a-1", "a-2", "b-1", "b-2"};

inline Arguments groups_of(int ranks) { return {"--ranks-per-run", std::to_string(ranks)}; }

inline void Experiments::train_alone(const Arguments& more) const {
  ChildOptions options;
  options.program = program;
  const Outcome outcome = hgtrain(run("alone", more + Arguments{"--quiet"}), options);
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
}

// Trains all runs in groups, which come to the bits of train_alone().
inline void Experiments::check_on_ranks(int size, int ranks, const Arguments& more) const {
  INFO("groups of " << ranks);
  const std::string folder = at("by" + std::to_string(ranks));
  const Arguments grouped = more + groups_of(ranks) + Arguments{"--quiet"};
  const Outcome outcome =
      hgtrain(on_ranks(size, run("by" + std::to_string(ranks), grouped), program), under_mpirun());
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(lines_with("Results: ", outcome.out) == 1);
  const Json results = Json::parse(contents_of(folder + "/results.json"));
  CHECK(results["status"] == "finished");
  CHECK(results["runs"].size() == kRuns.size());
  CHECK(files_in(folder + "/runs") == kRuns);
  for (const std::string& name : kRuns) {
    const std::string run = "/runs/" + name;
    INFO(run);
    CHECK(contents_of(folder + run + "/model.safetensors") ==
          contents_of(at("alone") + run + "/model.safetensors"));
    CHECK(summary_of(folder + run)["ranks"] == ranks);
    CHECK(Json::parse(contents_of(folder + run + "/launches.json"))["launches"].size() == 1);
  }
}

}  // namespace hg::testing
