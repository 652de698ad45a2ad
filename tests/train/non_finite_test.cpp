// A loss that is not finite ends a run, says where it came from, and leaves the last checkpoint.
#include <doctest/doctest.h>

#include <limits>

#include "tests/train/program.h"
#include "train/safetensors.h"

namespace {

using namespace hg;
using namespace hg::testing;

// Diverges in its first epoch.
Arguments diverging(const std::string& run) {
  return tiny_train(run, {"--set", "train.optimizer=sgd", "--set", "train.learning_rate=1000",
                          "--set", "train.warmup_epochs=0", "--quiet"});
}

// The state of `run` with every element of a tensor set to `value`.
void poison(const std::string& run, const std::string& name, float value) {
  const std::string path = run + "/state.safetensors";
  const Safetensors state = read_safetensors(path);
  const Tensor& t = state.tensors.at(name);
  std::fill_n(t.data<float>(), t.numel(), value);
  write_safetensors(path, {state.tensors.begin(), state.tensors.end()}, state.metadata);
}

// A run of four epochs, put back to where it stood after the second.
struct HalfRun {
  explicit HalfRun(const std::string& run) {
    for (int attempt = 0; attempt < 20 && !exists(run + "/state.safetensors"); ++attempt) {
      Child child(tiny_train(run, {"--quiet"}));
      while (child.running() && !exists(run + "/state.safetensors")) {
      }
      child.signal(9);
      child.wait();
      const Safetensors state = read_safetensors(run + "/state.safetensors");
      if (state.metadata.at("epoch") == "4") std::filesystem::remove_all(run);
    }
    REQUIRE(exists(run + "/state.safetensors"));
  }
};

}  // namespace

TEST_CASE("a diverging run names op and layer and writes no checkpoint of it") {
  const TempFolder folder;
  const std::string run = folder / "run";
  check_refused(hgtrain(diverging(run)), 1, {"not finite", "layer blocks.0"});
  CHECK(files_in(run) == std::vector<std::string>{"config.toml", "metrics.csv"});
}

TEST_CASE("a run that diverges at the end of an epoch keeps its last checkpoint") {
  const TempFolder folder;
  const std::string run = folder / "run";
  // One step an epoch: the first loss is fine, and the weights after it are not.
  const Arguments one_step = diverging(run) + Arguments{"--set", "train.batch_size=64"};
  check_refused(hgtrain(one_step), 1, {"not finite"});
  if (exists(run + "/state.safetensors")) {
    const Outcome again = hgtrain(one_step + Arguments{"--resume"});
    check_refused(again, 1, {"not finite"});
  }
}

TEST_CASE("weights that overflow name the layer, and the checkpoint before stays") {
  const TempFolder folder;
  const std::string run = folder / "run";
  const HalfRun half(run);
  poison(run, "model.blocks.0.mlp.fc2.weight", 3e38f);
  const std::string before = contents_of(run + "/state.safetensors");
  check_refused(hgtrain(tiny_train(run, {"--quiet", "--resume"})), 1,
                {"not finite", "layer blocks.0.mlp"});
  CHECK(contents_of(run + "/state.safetensors") == before);
  CHECK(Json::parse(hgtrain({"eval", run, "--json"}).out).contains("accuracy"));
}

TEST_CASE("moments that overflow are noticed before they are saved") {
  const TempFolder folder;
  const std::string run = folder / "run";
  const HalfRun half(run);
  poison(run, "adamw.m.head.bias", std::numeric_limits<float>::infinity());
  const std::string before = contents_of(run + "/state.safetensors");
  const Outcome outcome = hgtrain(tiny_train(run, {"--quiet", "--resume"}));
  INFO(outcome.err);
  CHECK(outcome.code != 0);
  CHECK(outcome.err.find("head.bias") != std::string::npos);
  CHECK(contents_of(run + "/state.safetensors") == before);
}
