// Training on the CUDA device, real or emulated, by the trainer's own code: the same course as on
// the CPU, a run folder of the same kind, and a stop and resume that change nothing.
#include <doctest/doctest.h>

#include <cmath>
#include <csignal>

#include "tensor/observer.h"
#include "tests/support/temp_folder.h"
#include "train/commands/commands.h"
#include "train/run/run.h"

namespace hg {
namespace {

using testing::contents_of;
using testing::TempFolder;

// 20 steps: 5 epochs of 4, each with an evaluation.
constexpr const char* kTiny = R"(
[run]
seed = 3
[data]
name = "shapes"
train_limit = 32
test_limit = 8
[model]
img_size = 16
in_channels = 3
num_classes = 3
patch_size = 8
emb_size = 8
depth = 1
heads = 2
mlp_ratio = 2
[train]
batch_size = 8
learning_rate = 0.01
epochs = 5
warmup_epochs = 1
grad_clip = 1.0
)";

Config tiny(const std::string& device, std::vector<std::string> settings = {}) {
  settings.push_back("run.device=" + device);
  return parse_config(kTiny, "tiny.toml", settings);
}

RunEnding train(const Config& config, const std::string& folder, bool resume = false) {
  std::filesystem::create_directories(folder);
  return train_run(config, open_run(config), {folder, resume, false, ProgressMode::quiet});
}

std::vector<EpochRow> epochs_of(const std::string& folder) {
  return read_metrics(folder + "/metrics.csv");
}

// The largest difference of two tensors, in parts of the largest element.
double difference(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<float>(), y = b.to_vector<float>();
  double largest = 1e-3, worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    largest = std::max<double>(largest, std::abs(x[i]));
    worst = std::max<double>(worst, std::abs(x[i] - y[i]));
  }
  return worst / largest;
}

void check_same_course(const std::string& cpu, const std::string& cuda) {
  const std::vector<EpochRow> a = epochs_of(cpu), b = epochs_of(cuda);
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    INFO("epoch " << i + 1);
    CHECK(b[i].train_loss.value() == doctest::Approx(a[i].train_loss.value()).epsilon(1e-3));
    CHECK(b[i].test_loss.value() == doctest::Approx(a[i].test_loss.value()).epsilon(1e-3));
    CHECK(b[i].flops == a[i].flops);
  }
}

TEST_CASE("a run of 20 steps takes the course that it takes on the CPU") {
  const TempFolder folder;
  const RunEnding cpu = train(tiny("cpu"), folder / "cpu"),
                  cuda = train(tiny("cuda"), folder / "cuda");
  CHECK(cuda.steps == 20);
  CHECK(cuda.summary.flops == cpu.summary.flops);
  check_same_course(folder / "cpu", folder / "cuda");
  const std::vector<EpochRow> epochs = epochs_of(folder / "cuda");
  CHECK(epochs.back().train_loss < epochs.front().train_loss);
  const Safetensors a = read_safetensors(folder / "cpu/model.safetensors"),
                    b = read_safetensors(folder / "cuda/model.safetensors");
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (const auto& [name, tensor] : a.tensors) {
    INFO(name);
    // The bias of keys moves no softmax: its gradient is rounding, of which AdamW makes steps.
    const double allowed = name.ends_with("qkv.bias") ? 0.05 : 5e-3;
    CHECK(difference(tensor, b.tensors.at(name)) < allowed);
  }
}

// Asks the run to stop in the middle of an epoch.
class StopAfter final : public Observer {
 public:
  explicit StopAfter(int steps) : left_(steps) {}
  void op_end(const OpCall& call) override {
    if (call.op.name() == "adamw_all" && --left_ == 0) std::raise(SIGINT);
  }

 private:
  int left_;
};

TEST_CASE("a run that is stopped and resumed on the device ends with the same bits") {
  const TempFolder folder;
  const Config config = tiny("cuda", {"train.epochs=2", "model.dropout=0.1"});
  train(config, folder / "whole");
  {
    StopAfter stop(2);
    const ObserverGuard guard(stop);
    const RunEnding part = train(config, folder / "parts");
    REQUIRE(part.end == RunEnd::interrupted);
    REQUIRE(part.steps % 4 != 0);
  }
  const RunEnding rest = train(config, folder / "parts", true);
  CHECK(rest.end == RunEnd::finished);
  CHECK(contents_of(folder / "parts/model.safetensors") ==
        contents_of(folder / "whole/model.safetensors"));
}

TEST_CASE("patches are dropped on the device as on the CPU") {
  const TempFolder folder;
  for (const char* device : {"cpu", "cuda"})
    train(tiny(device, {"train.epochs=1", "select.heuristic=contrast", "select.top_k=3"}),
          folder / device);
  check_same_course(folder / "cpu", folder / "cuda");
}

TEST_CASE("forward writes the same logits, loss and gradients from the device") {
  const TempFolder folder;
  testing::put(folder / "tiny.toml", kTiny);
  train(tiny("cpu", {"train.epochs=1"}), folder / "run");
  const Tensor images = Tensor::full({3, 3, 16, 16}, 0.25);
  for (std::int64_t i = 0; i < images.numel(); i += 7) images.data<float>()[i] = -0.5;
  write_safetensors(folder / "in",
                    {{"images", images},
                     {"labels", Tensor::of<std::int64_t>({3}, {0, 2, 1})},
                     {"keep", Tensor::of<std::int64_t>({3, 2}, {0, 1, 1, 3, 0, 2})}});
  for (const char* device : {"cpu", "cuda"}) {
    ForwardOptions options;
    options.config = folder / "tiny.toml";
    options.device = device;
    options.weights = folder / "run/model.safetensors";
    options.input = folder / "in";
    options.output = folder / device;
    REQUIRE(forward_command(options) == 0);
  }
  const Safetensors cpu = read_safetensors(folder / "cpu"),
                    cuda = read_safetensors(folder / "cuda");
  REQUIRE(cpu.tensors.size() == cuda.tensors.size());
  for (const auto& [name, tensor] : cpu.tensors) {
    INFO(name);
    CHECK(difference(tensor, cuda.tensors.at(name)) < 1e-4);
  }
}

}  // namespace
}  // namespace hg
