// Steps of training have the same bits on any number of threads.
#include <doctest/doctest.h>

#include <cstring>

#include "tensor/cpu/parallel.h"
#include "train/step/class_step.h"
#include "train/step/optimizer.h"
#include "train/store/model.h"

namespace {

using namespace hg;

nn::VitOptions tiny_vit(const std::string& attention) {
  nn::VitOptions o{.channels = 1,
                   .img_size = 16,
                   .patch_size = 4,
                   .width = 16,
                   .depth = 2,
                   .heads = 2,
                   .dim_head = 8,
                   .classes = 5,
                   .dropout = 0.1};
  o.attention.variant = attention;
  o.attention.redraw = 2;
  return o;
}

Batch random_images(const nn::VitOptions& o, std::int64_t images, std::int64_t lanes) {
  RandomStream stream(5, "images");
  Batch batch;
  batch.images = Tensor::empty({images, o.channels, o.img_size, o.img_size});
  fill_normal(batch.images, stream, 0, 1);
  batch.labels = Tensor::empty({images}, DType::i64);
  for (std::int64_t i = 0; i < images; ++i) batch.labels.data<std::int64_t>()[i] = i % o.classes;
  batch.lanes = lanes;
  return batch;
}

LossConfig every_term(const nn::VitOptions& o) {
  const nn::AttentionTraits traits = nn::attention_traits(o.attention);
  LossConfig loss;
  loss.label_smoothing = 0.1;
  if (traits.likelihood) loss.mle = 0.01;
  if (traits.spread) loss.sparsity = 0.1;
  if (o.attention.gate == nn::AttentionOptions::Gate::head) loss.gate_budget = 0.1;
  return loss;
}

// All that three steps leave behind.
struct Trained {
  std::vector<double> figures;
  NamedTensors tensors;
  std::vector<float> logits;
};

Trained train(const nn::VitOptions& o, Batch batch, int threads) {
  const cpu::ThreadLimit limit(threads);
  const nn::Vit model(o, 3);
  TrainConfig train;
  train.grad_clip = 0.05;
  Optimizer optimizer(model.parameters().all(), train);
  Trained trained;
  for (; batch.step < 3; ++batch.step) {
    const Batchwise done = learn_classes(
        {model, model.parameters().all(), batch, plan_groups(model, batch)}, {every_term(o)});
    CHECK(optimizer.step(done.gradients, 1e-2, done.ranges, done.loss));
    trained.figures.insert(trained.figures.end(), {done.loss, done.sparsity});
  }
  trained.tensors = weights_of(model);
  for (const auto& moment : optimizer.state()) trained.tensors.push_back(moment);
  trained.logits = evaluate_logits(model, batch).to_vector<float>();
  return trained;
}

void check_same(const Trained& a, const Trained& b) {
  CHECK(a.figures == b.figures);
  CHECK(a.logits == b.logits);
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    INFO(a.tensors[i].first);
    const Tensor &x = a.tensors[i].second, &y = b.tensors[i].second;
    CHECK(std::memcmp(x.raw(), y.raw(), x.bytes()) == 0);
  }
}

void check_threads(const nn::VitOptions& o, std::int64_t images = 13, std::int64_t lanes = 5) {
  const Batch batch = random_images(o, images, lanes);
  const Trained alone = train(o, batch, 1);
  for (const int threads : {2, 3, 7}) {
    INFO(o.attention.variant << " on " << threads << " threads");
    check_same(train(o, batch, threads), alone);
  }
}

}  // namespace

TEST_CASE("every attention learns the same on any number of threads") {
  for (const std::string& name : nn::attention_names()) check_threads(tiny_vit(name));
}

TEST_CASE("gates learn the same on any number of threads") {
  using Gate = nn::AttentionOptions::Gate;
  for (const auto& [gate, per_batch] :
       {std::pair{Gate::head, true}, {Gate::head, false}, {Gate::token, true}}) {
    nn::VitOptions o = tiny_vit("softmax");
    o.attention.gate = gate;
    o.attention.gate_per_batch = per_batch;
    o.attention.gate_keep = 0.5;
    check_threads(o);
  }
}

TEST_CASE("tokens merge the same on any number of threads") {
  using Method = nn::MergeOptions::Method;
  for (const Method method : {Method::tome, Method::pool}) {
    nn::VitOptions o = tiny_vit("softmax");
    o.merge = {method, 2, {}};
    check_threads(o);
  }
}

TEST_CASE("lanes of one image or of many groups learn the same on any number of threads") {
  const nn::VitOptions small = tiny_vit("softmax");
  for (const std::int64_t lanes : {1, 2, 8, 13, 100}) check_threads(small, 13, lanes);
  check_threads(small, 1, 8);
  nn::VitOptions long_sequences = small;
  long_sequences.img_size = 80;  // 401 tokens
  const Batch batch = random_images(long_sequences, 13, 2);
  CHECK(plan_groups(nn::Vit(long_sequences, 1), batch).groups == 8);
  check_threads(long_sequences, 13, 2);
}

TEST_CASE("a plan has lanes as asked for, none empty, and groups that fit them") {
  const nn::VitOptions o = tiny_vit("softmax");
  const nn::Vit model(o, 1);
  for (std::int64_t images = 1; images <= 40; ++images)
    for (const std::int64_t lanes : {1, 2, 3, 8, 16, 64})
      for (const std::int64_t tokens : {17, 197, 600, 5000}) {
        const GroupPlan plan = plan_groups(model, random_images(o, images, lanes), tokens);
        INFO(images << " images, " << lanes << " lanes, " << tokens << " tokens");
        CHECK(plan.lanes == std::min(images, lanes));
        for (std::int64_t g = 0; g < plan.groups; ++g) REQUIRE(plan.begin(g) < plan.end(g));
        for (std::int64_t l = 0; l <= plan.lanes; ++l)
          REQUIRE(plan.begin(plan.first_group(l)) == l * images / plan.lanes);
      }
}

TEST_CASE("without run.lanes a batch has as many as sizes suggest") {
  const auto lanes = [](std::int64_t images, std::int64_t tokens, std::int64_t width = 16) {
    nn::VitOptions o = tiny_vit("softmax");
    o.width = width;
    return plan_groups(nn::Vit(o, 1), random_images(o, images, 0), tokens).lanes;
  };
  CHECK(lanes(1, 197) == 1);
  CHECK(lanes(8, 197) == 2);
  CHECK(lanes(64, 65) == 8);
  CHECK(lanes(1000, 197) == 16);
  CHECK(lanes(3, 5000) == 3);
  // Gradients of a large model take more memory than a lane's images.
  CHECK(lanes(64, 65, 512) == 2);
  CHECK(lanes(1, 197, 512) == 1);
}
