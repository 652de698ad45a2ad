// Masked patches (nn/METHODS.md, section 5): what is hidden, predicted and compared.
#include "nn/masked_patches.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "autograd/tape.h"
#include "tensor/observer.h"
#include "tensor/ops/gather.h"
#include "tensor/ops/patchify.h"

namespace masked_patches_test {

using namespace hg;
using nn::MaskedPatches;
using nn::PatchMask;
using Mode = nn::MaskedPatchOptions::Mode;

constexpr std::int64_t kBatch = 2, kPatches = 9, kPixels = 2 * 4 * 4;

nn::Vit small_vit() {
  return nn::Vit({.channels = 2,
                  .img_size = 12,
                  .patch_size = 4,
                  .width = 12,
                  .depth = 2,
                  .heads = 2,
                  .dim_head = 6,
                  .classes = 3},
                 1);
}

Tensor images() {
  const Tensor t = Tensor::empty({kBatch, 2, 12, 12});
  RandomStream stream(7, "images");
  fill_normal(t, stream, 0, 1);
  return t;
}

// Patches 1, 4, 6 of the first image and 0, 4, 8 of the second are masked.
PatchMask mask() {
  return {Tensor::of<std::int64_t>({2, 3}, {1, 4, 6, 0, 4, 8}),
          Tensor::of<std::int64_t>({2, 6}, {0, 2, 3, 5, 7, 8, 1, 2, 3, 5, 6, 7})};
}

PatchMask everything() {
  const Tensor all = Tensor::empty({kBatch, kPatches}, DType::i64);
  for (std::int64_t i = 0; i < all.numel(); ++i) all.data<std::int64_t>()[i] = i % kPatches;
  return {all, Tensor::empty({kBatch, 0}, DType::i64)};
}

nn::MaskedPatchOptions options(Mode mode) { return {mode, 6, 1}; }

std::vector<float> predict(const MaskedPatches& task, const Tensor& images, const Tensor& keep,
                           const PatchMask& mask) {
  return task.decode(task.encode(images, keep, mask, {}), keep, mask, {}).to_vector<float>();
}

// Adds to the pixels of a patch of image 0.
void disturb(const Tensor& images, std::int64_t patch) {
  for (std::int64_t c = 0; c < 2; ++c)
    for (std::int64_t y = 0; y < 4; ++y)
      for (std::int64_t x = 0; x < 4; ++x)
        images.data<float>()[(c * 12 + patch / 3 * 4 + y) * 12 + patch % 3 * 4 + x] += 5;
}

class Products final : public Observer {
 public:
  void op_end(const OpCall& call) override {
    by_path[call.scope->path] += call.op.cost(call.in, call.out).total().flops_mm;
  }
  std::map<std::string, std::uint64_t> by_path;
};

TEST_CASE("pixels of masked patches never reach the encoder, others do") {
  for (const Mode mode : {Mode::token, Mode::drop}) {
    nn::Vit model = small_vit();
    const MaskedPatches task(model, options(mode));
    const auto encoded = [&](const Tensor& x) {
      return task.encode(x, {}, mask(), {}).to_vector<float>();
    };
    const auto before = encoded(images());
    CHECK(before.size() == (mode == Mode::token ? kBatch * 10 : kBatch * 7) * 12);
    const Tensor masked = images(), visible = images();
    disturb(masked, 4);
    CHECK(encoded(masked) == before);
    disturb(visible, 5);
    CHECK(encoded(visible) != before);
  }
}

TEST_CASE("a masked patch is the mask token at its own position") {
  nn::Vit model = small_vit();
  const MaskedPatches task(model, options(Mode::token));
  // All masked: the encoder sees the token everywhere, whatever the images.
  Tensor token = Tensor::empty({kBatch, kPatches, 12});
  for (std::int64_t i = 0; i < token.numel(); ++i)
    token.data<float>()[i] = model.parameters().find("mask_token")->value.data<float>()[i % 12];
  const Tensor expected = model.encode(model.sequence(token, {}), {}, {}, 0, 2);
  CHECK(task.encode(images(), {}, everything(), {}).to_vector<float>() ==
        expected.to_vector<float>());
}

TEST_CASE("the decoder reads masked positions alone, and so does the gradient") {
  nn::Vit model = small_vit();
  const MaskedPatches task(model, options(Mode::token));
  const Tensor encoded = task.encode(images(), {}, mask(), {});
  Products products;
  Tape tape;
  tape.watch(encoded);
  Tensor predicted;
  {
    const ObserverGuard guard(products);
    predicted = task.decode(encoded, {}, mask(), {});
  }
  CHECK(predicted.shape() == Shape{kBatch, 3, kPixels});
  CHECK(products.by_path.at("decoder") == kBatch * 2 * 3 * 12 * kPixels);
  const Tensor target = nn::masked_pixels(images(), {}, mask(), 4, true);
  const Gradients grads = tape.backward(nn::pixel_loss(predicted, target, false, 1));
  const auto g = grads[encoded].to_vector<float>();
  for (std::int64_t b = 0; b < kBatch; ++b)
    for (std::int64_t t = 0; t < 10; ++t) {
      double size = 0;
      for (std::int64_t i = 0; i < 12; ++i)
        size += std::abs(g[static_cast<std::size_t>((b * 10 + t) * 12 + i)]);
      bool masked = false;
      for (std::int64_t i = 0; i < 3; ++i)
        masked = masked || mask().masked.data<std::int64_t>()[b * 3 + i] + 1 == t;
      CHECK((size > 0) == masked);
    }
}

TEST_CASE("with everything masked the loss is the mean squared error of all patches") {
  nn::Vit model = small_vit();
  const MaskedPatches task(model, options(Mode::token));
  const Tensor keep{}, predicted = task.decode(task.encode(images(), keep, everything(), {}), keep,
                                               everything(), {});
  const Tensor target = nn::masked_pixels(images(), keep, everything(), 4, false);
  const auto pixels = patchify(images(), 4).to_vector<float>();
  CHECK(target.to_vector<float>() == pixels);
  double sum = 0, absolute = 0;
  const auto p = predicted.to_vector<float>();
  for (std::size_t i = 0; i < p.size(); ++i) {
    sum += (p[i] - pixels[i]) * (p[i] - pixels[i]);
    absolute += std::abs(p[i] - pixels[i]);
  }
  const auto n = static_cast<double>(p.size());
  CHECK(nn::pixel_loss(predicted, target, false, 1).item<float>() ==
        doctest::Approx(sum / n).epsilon(1e-5));
  CHECK(nn::pixel_loss(predicted, target, true, 0.5).item<float>() ==
        doctest::Approx(absolute / n / 2).epsilon(1e-5));
  CHECK(nn::pixel_loss(target, target, false, 1).item<float>() == 0);
}

TEST_CASE("targets are normalised per patch, and a constant patch is 0") {
  const Tensor x = images();
  for (std::int64_t i = 0; i < x.numel(); ++i)  // patch 0 of image 1: constant
    if (i >= x.numel() / 2 && i % 12 < 4 && i / 12 % 12 < 4) x.data<float>()[i] = 3.25f;
  const auto t = nn::masked_pixels(x, {}, mask(), 4, true).to_vector<float>();
  const auto pixels = gather_rows(patchify(x, 4), mask().masked).to_vector<float>();
  double squares = 0;
  for (std::size_t row = 0; row < 6; ++row) {
    double mean = 0, var = 0;
    const auto at = [&](std::size_t i) { return pixels[row * kPixels + i]; };
    for (std::size_t i = 0; i < kPixels; ++i) mean += at(i) / kPixels;
    for (std::size_t i = 0; i < kPixels; ++i) var += (at(i) - mean) * (at(i) - mean);
    var /= kPixels - 1;
    for (std::size_t i = 0; i < kPixels; ++i) {
      const double want = (at(i) - mean) / std::sqrt(var + 1e-6);
      CHECK(t[row * kPixels + i] == doctest::Approx(want).epsilon(1e-4).scale(1e-2));
      if (row != 3) squares += t[row * kPixels + i] * t[row * kPixels + i];
      if (row == 3) CHECK(t[row * kPixels + i] == 0);
    }
  }
  // what predicting 0 costs: (C p p - 1) / (C p p)
  CHECK(squares / (5 * kPixels) == doctest::Approx((kPixels - 1.0) / kPixels).epsilon(1e-4));
}

TEST_CASE("kept patches that came without their images give what the images give") {
  const Tensor keep = Tensor::of<std::int64_t>({2, 5}, {0, 2, 3, 7, 8, 1, 4, 5, 6, 7});
  const PatchMask hidden{Tensor::of<std::int64_t>({2, 2}, {1, 4, 0, 2}),
                         Tensor::of<std::int64_t>({2, 3}, {0, 2, 3, 1, 3, 4})};
  const Tensor patches = patchify(images(), 4, keep);
  CHECK(nn::masked_pixels(patches, keep, hidden, 4, false).to_vector<float>() ==
        nn::masked_pixels(images(), keep, hidden, 4, false).to_vector<float>());
  for (const Mode mode : {Mode::token, Mode::drop}) {
    nn::Vit model = small_vit();
    const MaskedPatches task(model, options(mode));
    const auto whole = predict(task, images(), keep, hidden);
    CHECK(predict(task, patches, keep, hidden) == whole);
    // patches that are not kept have no part in it
    const Tensor other = images();
    disturb(other, 4);
    CHECK(predict(task, other, keep, hidden) == whole);
  }
}

TEST_CASE("dropped patches are predicted by position, and every tensor of the decoder learns") {
  nn::Vit model = small_vit();
  const MaskedPatches task(model, options(Mode::drop));
  const auto shape = [&](const char* name) {
    const nn::Parameter* p = model.parameters().find(name);
    REQUIRE_MESSAGE(p != nullptr, name);
    return p->value.shape();
  };
  CHECK(shape("mask_token") == Shape{1, 1, 6});
  CHECK(shape("decoder.embed.weight") == Shape{6, 12});
  CHECK(shape("decoder.pos_embed") == Shape{1, 10, 6});
  CHECK(shape("decoder.blocks.0.attn.qkv.weight") == Shape{18, 6});
  CHECK(shape("decoder.weight") == Shape{kPixels, 6});
  CHECK(!model.parameters().find("mask_token")->decay);
  Tape tape;
  for (const nn::Parameter& p : model.parameters().all()) tape.watch(p.value);
  const Tensor predicted = task.decode(task.encode(images(), {}, mask(), {}), {}, mask(), {});
  const auto p = predicted.to_vector<float>();
  CHECK(std::vector(p.begin(), p.begin() + kPixels) !=
        std::vector(p.begin() + kPixels, p.begin() + 2 * kPixels));
  const Gradients grads = tape.backward(
      nn::pixel_loss(predicted, nn::masked_pixels(images(), {}, mask(), 4, true), false, 1));
  for (const nn::Parameter& q : model.parameters().all()) {
    INFO(q.name);
    CHECK(grads.has(q.value) == !q.name.starts_with("head."));
  }
}

}  // namespace masked_patches_test
