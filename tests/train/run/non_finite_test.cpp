// A loss that is not finite ends a run, says where it came from, and leaves the last checkpoint.
#include <doctest/doctest.h>

#include <limits>

#include "nn/vit.h"
#include "tests/support/program.h"
#include "train/step/optimizer.h"
#include "train/store/safetensors.h"

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

// A finished run taken back to the given batch of its second epoch; its weights are as good as any.
void train_partly(const std::string& run, int batch, const Arguments& more = {}) {
  REQUIRE(hgtrain(tiny_train(run, more)).code == 0);
  const std::string path = run + "/state.safetensors";
  const Safetensors state = read_safetensors(path);
  auto metadata = state.metadata;
  metadata["epoch"] = metadata["rows"] = "1";
  metadata["batch"] = std::to_string(batch);
  metadata["optimizer_steps"] = std::to_string(4 + batch);
  write_safetensors(path, {state.tensors.begin(), state.tensors.end()}, metadata);
}

// Resumed, the run fails with these parts in its message and leaves the state as it is.
void check_stops(const std::string& run, const std::vector<std::string>& parts,
                 const Arguments& more = {}) {
  const std::string before = contents_of(run + "/state.safetensors");
  check_refused(hgtrain(tiny_train(run, more) + Arguments{"--quiet", "--resume"}), 1, parts);
  CHECK(contents_of(run + "/state.safetensors") == before);
  CHECK(hgtrain({"eval", run}).code == 0);  // so is the model
}

}  // namespace

TEST_CASE("a diverging run names op and layer and writes no checkpoint of it") {
  const TempFolder folder;
  const std::string run = folder / "run";
  check_refused(hgtrain(diverging(run)), 1, {"not finite", "layer blocks.0"});
  CHECK(files_in(run) == kEarlyFiles);
}

TEST_CASE("weights that overflow in the forward pass name op and layer") {
  const TempFolder folder;
  train_partly(folder / "run", 0);
  poison(folder / "run", "model.head.weight", 3e38f);
  check_stops(folder / "run", {"not finite", "linear", "layer head"});
}

TEST_CASE("a gradient that overflows under a finite loss names op and layer") {
  const TempFolder folder;
  const Arguments clip{"--set", "train.grad_clip=1.0"};
  train_partly(folder / "run", 0, clip);
  poison(folder / "run", "model.blocks.0.mlp.fc1.weight", 3e38f);
  check_stops(folder / "run", {"not finite", "linear_gelu", "layer blocks.0.mlp.fc1"}, clip);
}

TEST_CASE("an update that overflows at the end of an epoch is not saved") {
  const TempFolder folder;
  train_partly(folder / "run", 3);
  poison(folder / "run", "adamw.m.blocks.0.attn.qkv.weight", 3e38f);
  check_stops(folder / "run", {"not finite", "blocks.0.attn.qkv.weight", "optimizer"});
}

TEST_CASE("a gradient whose norm is not finite changes nothing") {
  const nn::Vit model({.img_size = 16, .width = 8, .depth = 1, .heads = 1, .classes = 2}, 1);
  TrainConfig train;
  train.grad_clip = 1;
  Optimizer optimizer(model.parameters().all(), train);
  Tensors gradients;
  for (const nn::Parameter& p : model.parameters().all())
    gradients.push_back(Tensor::full(p.value.shape(), 1));
  const auto weights = [&] { return model.parameters().all()[0].value.to_vector<float>(); };
  const auto before = weights();
  float& last = gradients.back().data<float>()[0];
  last = std::numeric_limits<float>::infinity();
  CHECK(!optimizer.step({gradients}, 0.1));
  CHECK(optimizer.steps() == 0);
  CHECK(weights() == before);
  last = 1;
  CHECK(optimizer.step({gradients}, 0.1));
  CHECK(optimizer.steps() == 1);
  CHECK(weights() != before);
}
