// Steps in groups: a loss taken in two passes, frozen parameters, heads beside the model.
#include "train/step/groups.h"

#include <doctest/doctest.h>

#include "tensor/base/usage_error.h"
#include "tensor/cpu/parallel.h"
#include "tensor/ops/cross_entropy.h"
#include "train/step/class_step.h"
#include "train/store/model.h"

namespace {

using namespace hg;

constexpr std::int64_t kBatch = 7, kLogits = 5;

nn::Vit small_vit() {
  return nn::Vit({.channels = 1,
                  .img_size = 8,
                  .patch_size = 4,
                  .width = 8,
                  .depth = 2,
                  .heads = 2,
                  .dim_head = 4,
                  .classes = kLogits,
                  .dropout = 0.2},
                 3);
}

Batch random_input() {
  RandomStream stream(5, "images");
  Batch input;
  input.images = Tensor::empty({kBatch, 1, 8, 8});
  fill_normal(input.images, stream, 0, 1);
  input.labels = Tensor::empty({kBatch}, DType::i64);
  for (std::int64_t i = 0; i < kBatch; ++i) input.labels.data<std::int64_t>()[i] = i % kLogits;
  input.lanes = 4;
  input.seed = 9;
  input.step = 4;
  return input;
}

std::vector<std::string> names_of(const std::vector<nn::Parameter>& parameters) {
  std::vector<std::string> names;
  for (const nn::Parameter& p : parameters) names.push_back(p.name);
  return names;
}

}  // namespace

TEST_CASE("a loss over the whole batch, in two passes, has the gradients of one in groups") {
  cpu::set_threads(2);
  const nn::Vit model = small_vit();
  const Batch input = random_input();
  const auto& all = model.parameters().all();
  const GroupStep step{model, all, input, plan_groups(model, input)};
  const Batchwise direct = learn_classes(step, {});

  const Batchwise twice = forward_backward(
      step,
      [&](const Batch& part, const nn::Context& context) {
        return model.logits(part.images, context);
      },
      [&](const Tensor& logits) {
        REQUIRE(logits.shape() == Shape{kBatch, kLogits});
        return cross_entropy(logits, input.labels);
      });
  CHECK(twice.loss == doctest::Approx(direct.loss).epsilon(1e-6));
  const std::vector<Tensors>& gradients = twice.gradients;

  REQUIRE(gradients.size() == direct.gradients.size());
  for (std::size_t half = 0; half < gradients.size(); ++half)
    for (std::size_t i = 0; i < all.size(); ++i) {
      INFO(all[i].name);
      const auto a = gradients[half][i].to_vector<float>();
      const auto b = direct.gradients[half][i].to_vector<float>();
      REQUIRE(a.size() == b.size());
      for (std::size_t j = 0; j < a.size(); ++j)
        CHECK(a[j] == doctest::Approx(b[j]).epsilon(1e-4).scale(1e-3));
    }
  cpu::set_threads(0);
}

TEST_CASE("a head that a phase adds is saved with the model, and passed over by one without it") {
  nn::Vit with = small_vit();
  const nn::Linear projector(with.heads().child("projector"), "0", 8, 3);
  const NamedTensors saved = weights_of(with);
  CHECK(saved.back().first == "projector.0.bias");
  const Safetensors file{{saved.begin(), saved.end()}, {}};
  load_weights(with, file, "file");
  const nn::Vit without = small_vit();
  load_weights(without, file, "file");
  CHECK(weights_of(without).size() + 2 == saved.size());

  Safetensors other = file;
  other.tensors.emplace("extra.weight", Tensor::zeros({1}));
  CHECK_THROWS_WITH_AS(load_weights(without, other, "file"),
                       doctest::Contains("extra.weight f32[1] is no parameter"), UsageError);
  other = file;
  other.tensors.erase("projector.0.bias");
  CHECK_THROWS_WITH_AS(load_weights(with, other, "file"),
                       doctest::Contains("projector.0.bias is missing"), UsageError);
}

TEST_CASE("what is frozen is named by the parts of names") {
  nn::Parameters parameters(1);
  for (const char* name : {"cls_token", "blocks.1.w", "blocks.10.w", "norm.w"})
    parameters.make(name, {1}, nn::Init::constant(0));
  using Names = std::vector<std::string>;
  const auto left = [&](const Names& freeze) {
    return names_of(trained_parameters(parameters, freeze, "phase.0.freeze"));
  };
  CHECK(left({}).size() == 4);
  CHECK(left({"blocks.1"}) == Names{"cls_token", "blocks.10.w", "norm.w"});
  CHECK(left({"blocks.1.", "cls_token"}) == Names{"blocks.10.w", "norm.w"});
  CHECK(left({"blocks"}) == Names{"cls_token", "norm.w"});
  for (const Names& wrong : {Names{"block"}, Names{""}, Names{"norm.w."}})
    CHECK_THROWS_WITH_AS(left(wrong), doctest::Contains("phase.0.freeze"), UsageError);
  CHECK_THROWS_WITH_AS(left({"blocks", "cls_token", "norm"}),
                       doctest::Contains("nothing is left to train"), UsageError);
}
