// A tiny ViT against PyTorch: values of tests/golden/vit.safetensors, made by tools/make_golden.py.
// On the CPU and, in programs that have one, on the CUDA device, real or emulated.
#include <doctest/doctest.h>

#include <cmath>

#include "autograd/tape.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cuda_device.h"
#include "tensor/ops/cross_entropy.h"
#include "tensor/transfer.h"
#include "train/step/class_step.h"
#include "train/step/optimizer.h"
#include "train/store/model.h"

namespace {

using namespace hg;

constexpr double kSmoothing = 0.1;

Safetensors golden() { return read_safetensors(HG_SOURCE_DIR "/tests/golden/vit.safetensors"); }

std::vector<Device> devices() {
  if (!cuda::unavailable().empty()) return {Device::cpu};
  return {Device::cpu, Device::cuda};
}

nn::Vit golden_model(const Safetensors& file, Device device) {
  nn::Vit model({.channels = 2,
                 .img_size = 12,
                 .patch_size = 4,
                 .width = 16,
                 .depth = 2,
                 .heads = 3,
                 .dim_head = 5,
                 .classes = 4,
                 .device = device},
                1);
  Safetensors weights;
  for (const auto& [name, tensor] : file.tensors)
    if (name.starts_with("model.")) weights.tensors.emplace(name.substr(6), tensor);
  load_weights(model, weights, "golden");
  return model;
}

void check_close(const Tensor& actual, const Tensor& expected, double on_cpu) {
  REQUIRE(actual.shape() == expected.shape());
  const double tolerance = actual.device() == Device::cpu ? on_cpu : 1e-4;
  const auto a = on_host(actual).to_vector<float>(), e = expected.to_vector<float>();
  double scale = 1e-3, worst = 0;
  for (const float v : e) scale = std::max<double>(scale, std::abs(v));
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max<double>(worst, std::isnan(a[i]) ? INFINITY : std::abs(a[i] - e[i]) / scale);
  CHECK(worst < tolerance);
}

}  // namespace

TEST_CASE("logits, loss and every gradient equal PyTorch's") {
  const Safetensors file = golden();
  for (const Device device : devices()) {
    const nn::Vit model = golden_model(file, device);
    Tape tape;
    for (const nn::Parameter& p : model.parameters().all()) tape.watch(p.value);
    const Tensor logits = model.logits(to_device(file.tensors.at("images"), device), {});
    check_close(logits, file.tensors.at("logits"), 1e-5);
    const Tensor loss =
        cross_entropy(logits, to_device(file.tensors.at("labels"), device), kSmoothing);
    check_close(loss, file.tensors.at("loss"), 1e-5);
    const Gradients grads = tape.backward(loss);
    for (const nn::Parameter& p : model.parameters().all()) {
      INFO(p.name);
      check_close(grads[p.value], file.tensors.at("grad." + p.name), 2e-5);
    }
  }
}

namespace {

void follow_losses(const Safetensors& file, Device device) {
  const nn::Vit model = golden_model(file, device);
  TrainConfig train;
  train.weight_decay = 0.05;
  train.grad_clip = 0;
  LossConfig loss;
  loss.label_smoothing = kSmoothing;
  Optimizer optimizer(model.parameters().all(), train);
  Batch batch;
  batch.images = to_device(file.tensors.at("images"), device);
  batch.labels = to_device(file.tensors.at("labels"), device);
  batch.seed = 1;
  batch.lanes = 4;
  for (const float want : file.tensors.at("losses").to_vector<float>()) {
    batch.step = optimizer.steps();
    const Batchwise step =
        learn_classes({model, model.parameters().all(), batch, plan_groups(model, batch)}, {loss});
    CHECK(step.loss == doctest::Approx(want).epsilon(device == Device::cpu ? 2e-5 : 1e-4));
    optimizer.step(step.gradients, 1e-2);
  }
}

}  // namespace

TEST_CASE("ten steps of AdamW follow PyTorch's losses, in groups on one and two threads") {
  const Safetensors file = golden();
  for (const int threads : {1, 2}) {
    cpu::set_threads(threads);
    follow_losses(file, Device::cpu);
  }
  cpu::set_threads(0);
  for (const Device device : devices())
    if (device != Device::cpu) follow_losses(file, device);
}
