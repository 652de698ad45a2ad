// Frozen parts of a model: where they end, what a step on the rest computes and keeps.
#include "train/step/frozen.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "tensor/allocator.h"
#include "tensor/base/usage_error.h"
#include "tensor/cpu/parallel.h"
#include "tensor/observer.h"
#include "train/step/class_step.h"
#include "train/step/optimizer.h"
#include "train/store/model.h"

namespace {

using namespace hg;
using Names = std::vector<std::string>;

nn::Vit vit(std::int64_t depth, const std::string& attention = "softmax") {
  nn::VitOptions o{.channels = 1,
                   .img_size = 16,
                   .patch_size = 4,
                   .width = 16,
                   .depth = depth,
                   .heads = 2,
                   .dim_head = 8,
                   .classes = 3,
                   .dropout = 0.1};
  o.attention.variant = attention;
  o.attention.redraw = 2;
  o.attention.mode = nn::AttentionOptions::Mode::soft_e;
  return nn::Vit(o, 1);
}

const Names kUpToBlock1{"cls_token", "pos_embed", "patch_embed", "blocks.0", "blocks.1"};

Batch input(std::int64_t batch) {
  RandomStream stream(2, "images");
  Batch in;
  in.images = Tensor::empty({batch, 1, 16, 16});
  fill_normal(in.images, stream, 0, 1);
  in.labels = Tensor::zeros({batch}, DType::i64);
  return in;
}

class Costs final : public Observer {
 public:
  void op_end(const OpCall& call) override {
    const auto cost = call.op.cost(call.in, call.out).total();
    (call.phase == Phase::backward ? backward : forward)[call.scope->path] += cost.flops_mm;
    forward_products += call.phase == Phase::backward ? 0 : cost.flops_mm;
  }
  std::map<std::string, std::uint64_t> forward, backward;  // products
  std::uint64_t forward_products = 0;
};

Costs costs_of_step(const nn::Vit& model, const std::vector<nn::Parameter>& trained,
                    const FrozenParts* frozen) {
  const Batch in = input(4);
  Costs costs;
  const ObserverGuard guard(costs);
  learn_classes({model, trained, in, plan_groups(model, in), {}, frozen}, {});
  return costs;
}

// Most bytes in use after an op, above those before the first.
class PeakMemory final : public Observer {
 public:
  void op_end(const OpCall&) override {
    most_ = std::max(most_, allocator::stats().bytes_in_use - before_);
  }
  std::uint64_t most() const { return most_; }

 private:
  std::uint64_t before_ = allocator::stats().bytes_in_use, most_ = 0;
};

}  // namespace

TEST_CASE("the frozen front reaches to the first part that is trained") {
  const nn::Vit model = vit(3);
  const auto parts = [&](const Names& freeze) {
    return frozen_parts(model, trained_parameters(model.parameters(), freeze, "freeze"));
  };
  CHECK(!parts({}).front);
  CHECK(!parts({"blocks"}).front);
  CHECK(parts({"blocks"}).blocks == std::vector<char>{1, 1, 1});
  CHECK(!parts({"cls_token", "patch_embed", "blocks"}).front);
  CHECK(parts({"cls_token", "pos_embed", "patch_embed"}).front == 0);
  CHECK(parts(kUpToBlock1).front == 2);
  Names gap = kUpToBlock1;
  gap[3] = "blocks.2";
  CHECK(parts(gap).front == 0);
  CHECK(parts(gap).blocks == std::vector<char>{0, 1, 1});
}

TEST_CASE("a step walks back through the trained part alone") {
  cpu::set_threads(1);
  const nn::Vit model = vit(3);
  const auto trained = trained_parameters(model.parameters(), kUpToBlock1, "freeze");
  const FrozenParts frozen = frozen_parts(model, trained);
  const Costs whole = costs_of_step(model, model.parameters().all(), nullptr);
  const Costs part = costs_of_step(model, trained, &frozen);
  CHECK(part.forward_products == whole.forward_products);
  CHECK(part.forward.at("blocks.0.attn.qkv") == whole.forward.at("blocks.0.attn.qkv"));
  std::uint64_t in_front = 0;
  for (const auto& [path, flops] : whole.backward) {
    INFO(path);
    const bool front = path.starts_with("patch_embed") || path.starts_with("blocks.0") ||
                       path.starts_with("blocks.1");
    if (front) {
      CHECK(!part.backward.contains(path));
      in_front += flops;
    } else if (flops > 0) {
      CHECK(part.backward.at(path) == flops);
    }
  }
  CHECK(in_front > 0);
  cpu::set_threads(0);
}

TEST_CASE("the frozen front keeps one layer's memory, whatever its depth") {
  cpu::set_threads(1);
  const Tensor images = input(4).images;
  const auto peak = [&](std::int64_t depth) {
    const nn::Vit model = vit(depth);
    PeakMemory memory;
    const ObserverGuard guard(memory);
    front_output(model, depth, images, {});
    return memory.most();
  };
  peak(1);
  CHECK(peak(2) > 0);
  CHECK(peak(12) == peak(2));
  cpu::set_threads(0);
}

TEST_CASE("ten steps with weight decay leave what is frozen as it was, buffers and priors too") {
  for (const std::string variant : {"softmax", "favor", "mgk"}) {
    const nn::Vit model = vit(3, variant);
    Names freeze = kUpToBlock1;
    const auto trained = trained_parameters(model.parameters(), freeze, "freeze");
    const FrozenParts frozen = frozen_parts(model, trained);
    std::map<std::string, std::vector<float>> before;
    for (const auto& [name, value] : weights_of(model)) before[name] = value.to_vector<float>();
    TrainConfig train;
    train.weight_decay = 0.5;
    Optimizer optimizer(trained, train);
    Batch in = input(4);
    for (; in.step < 10; ++in.step)
      optimizer.step(
          learn_classes({model, trained, in, plan_groups(model, in), {}, &frozen}, {}).gradients,
          1e-2);
    for (const auto& [name, value] : weights_of(model)) {
      INFO(variant, " ", name);
      const bool front = std::any_of(freeze.begin(), freeze.end(), [&, n = name](auto& start) {
        return begins_with_parts(n, start);
      });
      CHECK((value.to_vector<float>() == before[name]) == front);
    }
    CHECK(optimizer.state().size() == 2 * trained.size());
  }
}

TEST_CASE("features are made once an image") {
  FeatureCache cache(5, 2, 3, "key");
  int made = 0;
  const auto of = [&](std::vector<std::int64_t> images, float value) {
    return cache
        .of(images,
            [&] {
              ++made;
              return Tensor::full({static_cast<std::int64_t>(images.size()), 2, 3}, value);
            })
        .to_vector<float>();
  };
  CHECK(of({3, 1}, 1) == std::vector<float>(12, 1));
  CHECK(of({1, 3}, 9) == std::vector<float>(12, 1));
  CHECK(made == 1);
  CHECK(of({4}, 2) == std::vector<float>(6, 2));
  const auto both = of({4, 1}, 9);
  CHECK(both == std::vector<float>{2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1});
  CHECK(made == 2);
  CHECK_THROWS_WITH_AS(FeatureCache(1'000'000'000, 1000, 1000, "phase.1.cache_features"),
                       doctest::Contains("phase.1.cache_features: features of 1000000000 images"),
                       UsageError);
}
