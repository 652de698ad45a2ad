// Phase pretrain: how patches are masked, that it learns, and that labels have no part in it.
#include "train/phases/pretrain.h"

#include <doctest/doctest.h>

#include <map>

#include "data/open.h"
#include "train/phases/registry.h"
#include "train/step/groups.h"
#include "train/step/optimizer.h"

namespace {

using namespace hg;

// The same images, each with the next label.
class Relabelled final : public Dataset {
 public:
  explicit Relabelled(std::unique_ptr<Dataset> base)
      : Dataset(base->info()), base_(std::move(base)) {}
  std::int64_t size() const override { return base_->size(); }
  void get(std::int64_t i, Image& image) const override { base_->get(i, image); }
  std::int64_t label(std::int64_t i) const override { return (base_->label(i) + 1) % classes(); }

 private:
  std::unique_ptr<Dataset> base_;
};

Config config() {
  return parse_config(R"(
[data]
name = "shapes"
train_limit = 32
test_limit = 16
[model]
img_size = 16
patch_size = 4
emb_size = 16
depth = 1
heads = 2
num_classes = 4
[train]
batch_size = 8
epochs = 2
[[phase]]
kind = "pretrain"
)",
                      "test");
}

struct Learnt {
  NamedTensors weights;
  double test_loss;
};

Learnt after_an_epoch(bool relabel) {
  const Config c = config();
  RunData data{open_data(c, c.data, Split::train), open_data(c, c.data, Split::test)};
  if (relabel)
    data = {std::make_unique<Relabelled>(std::move(data.train)),
            std::make_unique<Relabelled>(std::move(data.test))};
  const auto phase =
      make_phase({c, 0, data, [](Split, std::int64_t, std::int64_t) {}}, nullptr, false);
  phase->start_epoch(0, 0);
  while (phase->step()) {
  }
  const auto report = phase->finish_epoch([] { return false; });
  return {phase->weights().tensors, report->test_loss.value()};
}

}  // namespace

TEST_CASE("the count of masked patches is rounded half up, and at least one") {
  PhaseConfig phase;
  for (const auto& [patches, masked] : std::map<std::int64_t, std::int64_t>{
           {196, 29}, {64, 10}, {256, 38}, {10, 2}, {1, 1}, {3, 1}})
    CHECK(phase.masked_of(patches) == masked);
  phase.mask_ratio = 1;
  CHECK(phase.masked_of(49) == 49);
}

TEST_CASE("masks are drawn uniformly without replacement, by image and key alone") {
  std::vector<std::int64_t> images(3000);
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<std::int64_t>(i);
  const nn::PatchMask mask = draw_masks(42, images, 16, 4);
  std::vector<int> hits(16, 0);
  for (std::int64_t b = 0; b < 3000; ++b) {
    std::vector<int> seen(16, 0);
    for (std::int64_t i = 0; i < 4; ++i)
      ++seen[static_cast<std::size_t>(mask.masked.data<std::int64_t>()[b * 4 + i])];
    for (std::size_t p = 0; p < 16; ++p) hits[p] += seen[p];
    for (std::int64_t i = 0; i < 12; ++i)
      ++seen[static_cast<std::size_t>(mask.visible.data<std::int64_t>()[b * 12 + i])];
    CHECK(seen == std::vector<int>(16, 1));
  }
  double chi2 = 0;
  for (const int n : hits) chi2 += (n - 750.0) * (n - 750.0) / (750.0 * 0.75);
  CHECK(chi2 < 40);  // 15 degrees of freedom: below 1e-3
  const nn::PatchMask one = draw_masks(42, std::span(images).subspan(5, 1), 16, 4);
  const nn::PatchMask other = draw_masks(43, std::span(images).subspan(5, 1), 16, 4);
  const auto all = mask.masked.to_vector<std::int64_t>();
  CHECK(one.masked.to_vector<std::int64_t>() == std::vector(all.begin() + 20, all.begin() + 24));
  CHECK(one.masked.to_vector<std::int64_t>() != other.masked.to_vector<std::int64_t>());
}

TEST_CASE("labels have no part in pretraining") {
  const Learnt a = after_an_epoch(false), b = after_an_epoch(true);
  CHECK(a.test_loss == b.test_loss);
  REQUIRE(a.weights.size() == b.weights.size());
  for (std::size_t i = 0; i < a.weights.size(); ++i)
    CHECK(a.weights[i].second.to_vector<float>() == b.weights[i].second.to_vector<float>());
}

TEST_CASE("eight images under fixed masks are learnt by heart") {
  using Mode = nn::MaskedPatchOptions::Mode;
  for (const Mode mode : {Mode::token, Mode::drop}) {
    nn::Vit model({.channels = 1,
                   .img_size = 16,
                   .patch_size = 4,
                   .width = 32,
                   .depth = 2,
                   .heads = 2,
                   .dim_head = 16,
                   .classes = 2},
                  1);
    const nn::MaskedPatches task(model, {mode, 16, 1});
    Batch batch;
    batch.images = Tensor::empty({8, 1, 16, 16});
    batch.indices = {0, 1, 2, 3, 4, 5, 6, 7};
    RandomStream stream(3, "images");
    fill_normal(batch.images, stream, 0, 1);
    TrainConfig train;
    train.weight_decay = 0;
    const auto& all = model.parameters().all();
    Optimizer optimizer(all, train);
    double loss = 1;
    for (int i = 0; i < 400 && loss >= 0.05; ++i) {
      const GroupStep step{model, all, batch, plan_groups(model, batch)};
      const Batchwise done =
          forward_backward(step, [&](const Batch& part, const nn::Context& context) {
            const nn::PatchMask mask = draw_masks(1, part.indices, 16, 2);
            const Tensor& x = part.images;
            const Tensor predicted =
                task.decode(task.encode(x, {}, mask, context), {}, mask, context);
            return nn::pixel_loss(predicted, nn::masked_pixels(x, {}, mask, 4, true), false,
                                  static_cast<double>(x.dim(0)) / 8);
          });
      loss = done.loss;
      optimizer.step(done.gradients, 3e-3);
    }
    CHECK(loss < 0.05);
  }
}
