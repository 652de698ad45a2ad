// A ViT on some of the patches: they are gone before the embedding, and those kept are where they
// were.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "autograd/tape.h"
#include "nn/vit.h"
#include "tensor/ops/cross_entropy.h"
#include "tensor/ops/patchify.h"
#include "tensor/ops/view.h"

namespace select_test {

using namespace hg;
using nn::Parameter;
using nn::Vit;
using nn::VitOptions;

constexpr std::int64_t kPatches = 16, kBatch = 3;

VitOptions small(const std::string& variant = "softmax") {
  VitOptions o{.channels = 2,
               .img_size = 16,
               .patch_size = 4,
               .width = 24,
               .depth = 2,
               .heads = 2,
               .dim_head = 20,
               .mlp_ratio = 2,
               .classes = 7};
  o.attention.variant = variant;
  o.attention.rows = 5;
  return o;
}

Tensor images() {
  const Tensor t = Tensor::empty({kBatch, 2, 16, 16});
  RandomStream stream(5, "images");
  fill_normal(t, stream, 0, 1);
  return t;
}

const Tensor kLabels = Tensor::of<std::int64_t>({kBatch}, {0, 5, 2});

// Each image keeps others.
Tensor some() {
  return Tensor::of<std::int64_t>({kBatch, 5}, {0, 3, 4, 9, 15, 1, 2, 4, 11, 12, 0, 5, 6, 7, 8});
}

Tensor everything() {
  const Tensor keep = Tensor::empty({kBatch, kPatches}, DType::i64);
  for (std::int64_t b = 0; b < kBatch; ++b)
    std::iota(keep.data<std::int64_t>() + b * kPatches,
              keep.data<std::int64_t>() + (b + 1) * kPatches, 0);
  return keep;
}

// Priors and gates start alike for all positions; make them differ.
void stir(const Vit& model) {
  RandomStream stream(9, "stir");
  for (const Parameter& p : model.parameters().all())
    for (std::int64_t i = 0; i < p.value.numel(); ++i)
      p.value.data<float>()[i] += 0.05f * (stream.uniform() - 0.5f);
}

struct Pass {
  std::vector<float> logits;
  std::map<std::string, std::vector<float>> grads;
};

Pass pass(const Vit& model, const Tensor& input, const Tensor& keep) {
  Tape tape;
  for (const Parameter& p : model.parameters().all()) tape.watch(p.value);
  const Tensor logits = model.logits(input, {}, keep);
  const Gradients grads = tape.backward(cross_entropy(logits, kLabels));
  Pass result{logits.to_vector<float>(), {}};
  for (const Parameter& p : model.parameters().all())
    if (grads.has(p.value)) result.grads[p.name] = grads[p.value].to_vector<float>();
  return result;
}

std::vector<std::string> variants() {
  std::vector<std::string> names = nn::attention_names();
  std::erase(names, "fiak_pruned");
  return names;
}
const std::vector<std::string> kVariants = variants();

// Ops that gave something of the length of the whole sequence for each image.
class WholeSequences final : public Observer {
 public:
  void op_end(const OpCall& call) override {
    for (const Tensor& t : call.out)
      if (t.rank() > 0 && t.dim(0) == kBatch &&
          std::find(t.shape().begin(), t.shape().end(), kPatches + 1) != t.shape().end())
        ops += fmt::format("{} {}; ", call.op.name(), t);
  }
  std::string ops;
};

TEST_CASE("with every patch kept logits and gradients are bit for bit those without a filter") {
  for (const std::string& variant : kVariants) {
    INFO(variant);
    const Vit model(small(variant), 1);
    stir(model);
    const Pass plain = pass(model, images(), {}), kept = pass(model, images(), everything());
    const Pass cut = pass(model, patchify(images(), 4), everything());
    CHECK(kept.logits == plain.logits);
    CHECK(kept.grads == plain.grads);
    CHECK(cut.logits == plain.logits);
    CHECK(cut.grads == plain.grads);
  }
}

TEST_CASE("kept patches and the image they are from give the same bits") {
  const Vit model(small(), 1);
  const Pass from_image = pass(model, images(), some());
  const Pass from_patches = pass(model, patchify(images(), 4, some()), some());
  CHECK(from_patches.logits == from_image.logits);
  CHECK(from_patches.grads == from_image.grads);
}

TEST_CASE("positions go with the kept patches: an image alone gives what it gives in a batch") {
  for (const std::string& variant : kVariants) {
    INFO(variant);
    const Vit model(small(variant), 1);
    stir(model);
    const Tensor all = model.logits(images(), {}, some());
    for (std::int64_t b = 0; b < kBatch; ++b) {
      const Tensor one =
          model.logits(slice(images(), b, b + 1), {}, slice(some(), b, b + 1).clone());
      for (std::int64_t c = 0; c < 7; ++c)
        CHECK(one.data<float>()[c] ==
              doctest::Approx(all.data<float>()[b * 7 + c]).epsilon(1e-4).scale(0.1));
    }
  }
}

TEST_CASE("pixels of patches that are not kept change nothing") {
  const Vit model(small(), 1);
  const Tensor keep = some(), changed = images();
  const Pass before = pass(model, changed, keep);
  for (std::int64_t b = 0; b < kBatch; ++b)
    for (std::int64_t i = 0; i < kPatches; ++i) {
      const std::int64_t* row = keep.data<std::int64_t>() + b * 5;
      if (std::find(row, row + 5, i) != row + 5) continue;
      float* corner = changed.data<float>() + b * 512 + i / 4 * 4 * 16 + i % 4 * 4;
      std::swap(corner[0], corner[17]);
      corner[256 + 3] += 100;
    }
  const Pass after = pass(model, changed, keep);
  CHECK(after.logits == before.logits);
  CHECK(after.grads == before.grads);
  CHECK(model.logits(changed, {}).to_vector<float>() !=
        model.logits(images(), {}).to_vector<float>());
}

TEST_CASE("dropping is not zeroing") {
  const Vit model(small(), 1);
  const Tensor all = patchify(images(), 4), keep = some(), patches = Tensor::zeros(all.shape());
  for (std::int64_t i = 0; i < keep.numel(); ++i) {
    const std::int64_t row = i / 5 * kPatches + keep.data<std::int64_t>()[i];
    std::copy_n(all.data<float>() + row * 32, 32, patches.data<float>() + row * 32);
  }
  const Tensor blanked = unpatchify(patches, 4, 2, 16, 16);
  const auto dropped = model.logits(images(), {}, keep).to_vector<float>();
  const auto zero = model.logits(blanked, {}).to_vector<float>();
  double difference = 0;
  for (std::size_t i = 0; i < zero.size(); ++i)
    difference = std::max(difference, std::abs(double(dropped[i]) - zero[i]));
  CHECK(difference > 1e-4);
}

TEST_CASE("positions that no image kept get a gradient of 0") {
  const Vit model(small(), 1);
  const std::vector<float> grad = pass(model, images(), some()).grads.at("pos_embed");
  const Tensor keep = some();
  std::vector<bool> used(kPatches + 1, false);
  used[0] = true;
  for (const std::int64_t i : keep.to_vector<std::int64_t>())
    used[static_cast<std::size_t>(i) + 1] = true;
  CHECK(std::count(used.begin(), used.end(), false) == 3);  // patches 10, 13, 14
  for (std::size_t p = 0; p < used.size(); ++p) {
    const auto row = grad.begin() + static_cast<std::ptrdiff_t>(p) * 24;
    const bool zero = std::all_of(row, row + 24, [](float g) { return g == 0; });
    CHECK(zero != used[p]);
  }
}

TEST_CASE("no op of a dropped batch makes anything as long as the whole sequence") {
  for (const std::string& variant : kVariants) {
    INFO(variant);
    const Vit model(small(variant), 1);
    WholeSequences dropped, whole;
    {
      const ObserverGuard guard(dropped);
      pass(model, images(), some());
    }
    {
      const ObserverGuard guard(whole);
      pass(model, images(), {});
    }
    CHECK(dropped.ops == "");
    CHECK(whole.ops != "");
  }
}

TEST_CASE("choices that do not fit are refused with their shapes") {
  const Vit model(small(), 1);
  CHECK_THROWS_WITH(model.logits(images(), {}, Tensor::zeros({kBatch, 17}, DType::i64)),
                    doctest::Contains("expected keep i64[3,1..16], got i64[3,17]"));
  CHECK_THROWS_WITH(model.logits(images(), {}, Tensor::zeros({kBatch, 0}, DType::i64)),
                    doctest::Contains("expected keep"));
  CHECK_THROWS_WITH(model.logits(images(), {}, Tensor::zeros({2, 4}, DType::i64)),
                    doctest::Contains("expected keep"));
  CHECK_THROWS_WITH(model.logits(Tensor::zeros({kBatch, 4, 32}), {}, some()),
                    doctest::Contains("expected kept patches [3,5,32]"));
  CHECK_THROWS_WITH(model.logits(Tensor::zeros({kBatch, 5, 32}), {}),
                    doctest::Contains("expected images"));
  CHECK_THROWS_WITH(model.logits(images(), {}, Tensor::full({kBatch, 2}, 16, DType::i64)),
                    doctest::Contains("id 16"));
}

}  // namespace select_test
