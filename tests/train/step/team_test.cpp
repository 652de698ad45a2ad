// Steps and ops on teams of threads: dropout, layers that draw and learn, loops that are shared
// out. Runs under the thread sanitizer as well.
#include <doctest/doctest.h>

#include <atomic>

#include "tensor/cpu/parallel.h"
#include "tensor/ops/cross_entropy.h"
#include "tensor/ops/softmax.h"
#include "train/step/groups.h"

namespace {

using namespace hg;

constexpr std::int64_t kTeamBatch = 7, kTeamClasses = 5;
constexpr int kTeamThreads = 3;

// Set for the length of a test.
struct TeamThreads {
  explicit TeamThreads(int count) { cpu::set_threads(count); }
  ~TeamThreads() { cpu::set_threads(0); }
};

nn::Vit team_vit(const std::string& variant) {
  nn::VitOptions options{.channels = 1,
                         .img_size = 8,
                         .patch_size = 4,
                         .width = 8,
                         .depth = 2,
                         .heads = 2,
                         .dim_head = 4,
                         .classes = kTeamClasses,
                         .dropout = 0.2};
  options.attention.variant = variant;
  options.attention.rows = 3;
  options.attention.reduction = 2;
  return nn::Vit(options, 3);
}

Batch team_batch() {
  RandomStream stream(5, "images");
  Batch batch;
  batch.images = Tensor::empty({kTeamBatch, 1, 8, 8});
  fill_normal(batch.images, stream, 0, 1);
  batch.labels = Tensor::empty({kTeamBatch}, DType::i64);
  for (std::int64_t i = 0; i < kTeamBatch; ++i)
    batch.labels.data<std::int64_t>()[i] = i % kTeamClasses;
  batch.seed = 9;
  batch.lanes = 4;
  return batch;
}

// Of two steps: losses, then all gradients.
std::vector<float> two_steps(const std::string& variant) {
  const nn::Vit model = team_vit(variant);
  Batch batch = team_batch();
  std::vector<float> bits;
  for (batch.step = 0; batch.step < 2; ++batch.step) {
    const GroupStep step{model, model.parameters().all(), batch, plan_groups(model, batch)};
    const Batchwise result =
        forward_backward(step, [&](const Batch& part, const nn::Context& context) {
          return cross_entropy(model.logits(part.images, context), part.labels);
        });
    bits.push_back(static_cast<float>(result.loss));
    for (const Tensors& worker : result.gradients)
      for (const Tensor& gradient : worker)
        if (gradient.defined())
          for (const float v : gradient.to_vector<float>()) bits.push_back(v);
  }
  for (const float v : evaluate_logits(model, batch).to_vector<float>()) bits.push_back(v);
  return bits;
}

}  // namespace

TEST_CASE("a step with dropout has the same bits on any team of the same size") {
  const TeamThreads threads(kTeamThreads);
  for (const std::string& variant : nn::attention_names()) {
    INFO(variant);
    const std::vector<float> first = two_steps(variant);
    CHECK(first.size() > 1000);
    CHECK(two_steps(variant) == first);
  }
}

TEST_CASE("an op shared out to a team has the bits of one thread") {
  const Tensor x = Tensor::empty({500, 64});
  RandomStream stream(5, "rows");
  fill_normal(x, stream, 0, 1);
  const auto bits = [&](int count) {
    const TeamThreads threads(count);
    return softmax(x, 1).to_vector<float>();
  };
  CHECK(bits(kTeamThreads) == bits(1));
}

TEST_CASE("a team ends before its failure reaches the caller, and ops in it are of one thread") {
  std::atomic<int> ended{0}, wide{0};
  const auto work = [&](int number) {
    if (cpu::threads() != 1) ++wide;
    ++ended;
    require(number != 1, "team", "a member fails");
  };
  CHECK_THROWS_WITH_AS(cpu::in_team(kTeamThreads, work), "team: a member fails", Error);
  CHECK(ended == kTeamThreads);
  CHECK(wide == 0);
}
