// Ways to mix and to merge tokens against PyTorch: values of tests/golden/mixing.safetensors, made
// by tools/make_golden_mixing.py. On the CPU and, in programs that have one, on the CUDA device,
// real or emulated.
#include <doctest/doctest.h>

#include <cmath>

#include "autograd/tape.h"
#include "tensor/cuda_device.h"
#include "tensor/ops/cross_entropy.h"
#include "tensor/transfer.h"
#include "train/store/model.h"

namespace golden_mixing_test {

using namespace hg;

// The cases of tools/make_golden_mixing.py, with its options.
const char* const kCases[] = {"window", "axial", "hash", "fnet", "mixer", "tome", "pool"};

nn::VitOptions options_of(const std::string& name, Device device) {
  nn::VitOptions o{.channels = 2,
                   .img_size = 20,
                   .patch_size = 4,
                   .width = 12,
                   .depth = 2,
                   .heads = 3,
                   .dim_head = 4,
                   .mlp_ratio = 2,
                   .classes = 4,
                   .device = device};
  using Method = nn::MergeOptions::Method;
  if (name == "tome")
    o.merge = {Method::tome, 0, {13, 7}};
  else if (name == "pool")
    o.merge = {Method::pool, 0, {8, 3}};
  else
    o.attention.variant = name;
  o.attention.window = 2;
  o.attention.buckets = 4;
  o.attention.tokens_hidden = 7;
  return o;
}

nn::Vit model_of(const std::string& name, Device device, const Safetensors& file) {
  nn::Vit model(options_of(name, device), 1);
  Safetensors weights;
  const auto take = [&](const std::string& parameter) {
    weights.tensors.emplace(parameter, file.tensors.at("model." + parameter));
  };
  for (const nn::Parameter& p : model.parameters().all()) take(p.name);
  for (const nn::Buffer& b : model.parameters().buffers()) take(b.name);
  load_weights(model, weights, "golden");
  return model;
}

double distance(const Tensor& actual, const Tensor& expected) {
  REQUIRE(actual.shape() == expected.shape());
  const auto a = on_host(actual).to_vector<float>(), e = expected.to_vector<float>();
  double scale = 1e-3, worst = 0;
  for (const float v : e) scale = std::max<double>(scale, std::abs(v));
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max<double>(worst, std::isnan(a[i]) ? INFINITY : std::abs(a[i] - e[i]) / scale);
  return worst;
}

void check_case(const std::string& name, Device device, const Safetensors& file, bool some) {
  const nn::Vit model = model_of(name, device, file);
  const auto input = [&](const char* tensor) { return to_device(file.tensors.at(tensor), device); };
  const std::string start = name + (some ? ".some." : ".all.");
  Tape tape;
  for (const nn::Parameter& p : model.parameters().all()) tape.watch(p.value);
  const Tensor logits = model.logits(input("images"), {}, some ? input("keep") : Tensor());
  CHECK(distance(logits, file.tensors.at(start + "logits")) < 1e-4);
  const Gradients grads = tape.backward(cross_entropy(logits, input("labels")));
  for (const nn::Parameter& p : model.parameters().all()) {
    CAPTURE(p.name);
    REQUIRE(grads.has(p.value));
    CHECK(distance(grads[p.value], file.tensors.at(start + "grad." + p.name)) < 5e-4);
  }
}

TEST_CASE("logits and gradients of every way to mix and merge tokens equal PyTorch's") {
  const Safetensors file = read_safetensors(HG_SOURCE_DIR "/tests/golden/mixing.safetensors");
  for (const std::string name : kCases)
    for (const bool some : {false, true}) {
      CAPTURE(name);
      CAPTURE(some);
      check_case(name, Device::cpu, file, some);
      if (cuda::unavailable().empty()) check_case(name, Device::cuda, file, some);
    }
}

}  // namespace golden_mixing_test
