// Every variant of attention in a training step on the CUDA device, real or emulated: loss and
// gradients are those of the CPU, and so is what layers learn without a gradient.
#include <doctest/doctest.h>

#include "tensor/random.h"
#include "tensor/transfer.h"
#include "tests/nn/attention_layer.h"
#include "train/step/class_step.h"
#include "train/store/model.h"

namespace hg {
namespace {

struct Step {
  double loss;
  NamedTensors gradients, weights;  // weights: after it
};

// Two images of nine patches, of which `keep` stay.
Step step_on(Device device, const nn::AttentionOptions& attention, const Tensor& keep) {
  nn::VitOptions o{.channels = 1,
                   .img_size = 12,
                   .patch_size = 4,
                   .width = 8,
                   .depth = 1,
                   .heads = 2,
                   .dim_head = 4,
                   .classes = 3};
  o.device = device;
  o.attention = attention;
  const nn::Vit model(o, 5);
  RandomStream stream(1, "images");
  const Tensor images = Tensor::empty({2, 1, 12, 12});
  fill_normal(images, stream, 0, 1);
  Batch input;
  input.images = to_device(images, device);
  input.labels = to_device(Tensor::of<std::int64_t>({2}, {0, 2}), device);
  input.keep = to_device(keep, device);
  cpu::set_threads(1);  // one group on either device
  const Batchwise done =
      learn_classes({model, model.parameters().all(), input, plan_groups(model, input)}, {});
  cpu::set_threads(0);
  Step step{done.loss, {}, weights_of(model)};
  REQUIRE(done.gradients.size() == 1);
  for (std::size_t i = 0; i < done.gradients[0].size(); ++i)
    if (const Tensor& g = done.gradients[0][i]; g.defined())
      step.gradients.emplace_back(model.parameters().all()[i].name, on_host(g));
  for (auto& [name, value] : step.weights) value = on_host(value);
  return step;
}

void check_same(const NamedTensors& cpu, const NamedTensors& cuda) {
  REQUIRE(cpu.size() == cuda.size());
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    INFO(cpu[i].first);
    REQUIRE(cpu[i].first == cuda[i].first);
    if (cpu[i].second.dtype() != DType::f32) continue;
    const auto a = cpu[i].second.to_vector<float>(), b = cuda[i].second.to_vector<float>();
    double largest = 1e-4, worst = 0;
    for (std::size_t k = 0; k < a.size(); ++k) {
      largest = std::max<double>(largest, std::abs(a[k]));
      worst = std::max<double>(worst, std::abs(a[k] - b[k]));
    }
    // layer norms take away what is alike in all features: this gradient is rounding alone
    const bool nothing = cpu[i].first.ends_with("tokens.fc2.bias");
    CHECK(worst < (nothing ? 1e-6 : 2e-4 * largest));
  }
}

void check_variant(const nn::AttentionOptions& attention, const Tensor& keep) {
  const Step cpu = step_on(Device::cpu, attention, keep),
             cuda = step_on(Device::cuda, attention, keep);
  CHECK(cuda.loss == doctest::Approx(cpu.loss).epsilon(1e-4));
  check_same(cpu.gradients, cuda.gradients);
  check_same(cpu.weights, cuda.weights);
}

TEST_CASE("every attention trains on the device as on the CPU, with patches dropped too") {
  const Tensor keep = Tensor::of<std::int64_t>({2, 5}, {0, 1, 3, 4, 8, 1, 2, 3, 6, 7});
  for (const nn::AttentionOptions& attention : testing::all_variants()) {
    CAPTURE(attention.variant);
    check_variant(attention, {});
    check_variant(attention, keep);
  }
}

TEST_CASE("gates choose heads and tokens on the device as on the CPU") {
  using Gate = nn::AttentionOptions::Gate;
  for (const Gate gate : {Gate::head, Gate::token}) {
    nn::AttentionOptions attention;
    attention.gate = gate;
    attention.gate_keep = 0.5;
    check_variant(attention, {});
  }
}

}  // namespace
}  // namespace hg
