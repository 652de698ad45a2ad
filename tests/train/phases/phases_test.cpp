// Runs of several phases: weights pass on, each phase has its own epochs and settings, and a run
// resumes bit for bit wherever it was killed.
#include <doctest/doctest.h>

#include "tests/support/resume.h"
#include "train/store/safetensors.h"

namespace {

using namespace hg;
using namespace hg::testing;

const char* const kTwoPhases = R"(
[data]
name = "shapes"
train_limit = 64
test_limit = 32
[model]
img_size = 16
patch_size = 4
emb_size = 16
depth = 1
heads = 2
num_classes = 5
dropout = 0.1
[train]
batch_size = 16
epochs = 3
warmup_epochs = 0
grad_clip = 1.0
[[phase]]
kind = "supervised"
[[phase]]
kind = "supervised"
[phase.data]
train_limit = 48
[phase.train]
epochs = 2
optimizer = "sgd"
learning_rate = 0.01
)";

Arguments train(const std::string& config, const std::string& out, const Arguments& more = {}) {
  return Arguments{"train", config, "--out", out, "--threads", "1", "--quiet"} + more;
}

std::string write_config(const TempFolder& folder, const std::string& text) {
  put(folder / "config.toml", text);
  return folder / "config.toml";
}

void check_phases_survive_stops(const std::string& text) {
  const TempFolder folder;
  const std::string config = write_config(folder, text);
  check_survives_stops(
      [&](const std::string& run, const Arguments& more) { return train(config, run, more); });
}

}  // namespace

TEST_CASE("phases run one after the other, each with its own settings") {
  const TempFolder folder;
  const std::string config = write_config(folder, kTwoPhases), run = folder / "run";
  const Outcome outcome = hgtrain(train(config, run));
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  const auto metrics = lines_of(contents_of(run + "/metrics.csv"));
  REQUIRE(metrics.size() == 6);
  CHECK(metrics[3].starts_with("supervised,3,12,"));
  CHECK(metrics[4].starts_with("supervised,1,3,"));
  CHECK(metrics[5].starts_with("supervised,2,6,"));
  CHECK(summary_of(run)["images"] == 3 * 64 + 2 * 48);
  const Safetensors state = read_safetensors(run + "/state.safetensors");
  CHECK(state.metadata.at("phase") == "1");
  CHECK(state.tensors.contains("sgd.momentum.head.bias"));
  CHECK(!state.tensors.contains("adamw.m.head.bias"));
  REQUIRE(hgtrain({"train", run + "/config.toml", "--out", folder / "again", "--quiet"}).code == 0);
  CHECK(contents_of(run + "/model.safetensors") == contents_of(folder / "again/model.safetensors"));
}

TEST_CASE("a phase that learns nothing hands on the weights of the one before") {
  const TempFolder folder;
  const std::string config = write_config(folder, kTwoPhases);
  const Arguments still{"--set", "phase.1.train.learning_rate=0.0"};
  REQUIRE(hgtrain(train(config, folder / "two", still)).code == 0);
  std::string one = kTwoPhases;
  one.resize(one.find("[[phase]]"));
  put(folder / "one.toml", one);
  REQUIRE(hgtrain(train(folder / "one.toml", folder / "one")).code == 0);
  CHECK(contents_of(folder / "two/model.safetensors") ==
        contents_of(folder / "one/model.safetensors"));
}

TEST_CASE("stopped at random moments a run of phases ends with the same bits") {
  check_phases_survive_stops(kTwoPhases);
}

TEST_CASE("so does one that pretrains, fine-tunes and freezes") {
  std::string text = kTwoPhases;
  text.resize(text.find("[[phase]]"));
  check_phases_survive_stops(text + R"(
[select]
heuristic = "contrast"
[[phase]]
kind = "pretrain"
[[phase]]
kind = "pretrain"
mask_mode = "drop"
[[phase]]
kind = "finetune"
[[phase]]
kind = "supervised"
freeze = ["blocks.0.mlp", "patch_embed"]
)");
}

TEST_CASE("a kind of phase that is not there is named") {
  const TempFolder folder;
  const std::string config = write_config(folder, kTwoPhases);
  check_refused(hgtrain(train(config, folder / "run", {"--set", "phase.1.kind=\"distil\""})), 2,
                {"phase.1.kind", "distil"});
}
