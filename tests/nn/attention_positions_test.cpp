// Tokens left out of the sequence: parameters bound to positions are picked by ids, for all images
// alike or for each its own.
#include "tensor/ops/reduce.h"
#include "tests/nn/attention_layer.h"

namespace attention_positions_test {

using namespace hg;
using namespace hg::testing;
using O = AttentionOptions;

constexpr std::int64_t kTokens = 8, kHeads = 2, kWidth = 3, kBatch = 2;
const std::vector<std::int64_t> kIds{0, 2, 3, 6}, kOthers{0, 1, 5, 7};

// The variants with parameters (or angles) by position.
std::vector<O> positional() {
  std::vector<O> all;
  for (const O& o : all_variants()) {
    const bool mixture = o.variant == "mgk" || o.variant == "mlk";
    const bool bound = o.variant == "gmm" || o.variant == "fiak" || o.variant == "kerformer" ||
                       o.variant == "cosformer" || o.variant == "linformer" ||
                       o.variant == "mixer" || (mixture && o.pi_shape == O::PiShape::head_pos);
    if (bound) all.push_back(o);
  }
  return all;
}

Tensor as_tensor(const Shape& shape, const std::vector<std::int64_t>& ids) {
  return Tensor::of<std::int64_t>(shape, ids);
}

// The parameter `name` of a model of `ids.size()` tokens that has the full one's values at ids.
Values sliced(const std::string& name, const Tensor& full, const std::vector<std::int64_t>& ids,
              std::int64_t tokens) {
  std::vector<std::vector<std::int64_t>> picks;
  for (int axis = 0; axis < full.rank(); ++axis) {
    picks.emplace_back();
    if (full.dim(axis) == tokens) {
      picks.back() = ids;
    } else {
      for (std::int64_t i = 0; i < full.dim(axis); ++i) picks.back().push_back(i);
    }
  }
  INFO(name);
  Values values;
  const Values all = full.to(DType::f64).to_vector<double>();
  const Shape strides = full.shape().contiguous_strides();
  const std::function<void(int, std::int64_t)> walk = [&](int axis, std::int64_t at) {
    if (axis == full.rank()) return values.push_back(all[static_cast<std::size_t>(at)]);
    for (const std::int64_t i : picks[static_cast<std::size_t>(axis)])
      walk(axis + 1, at + i * strides[axis]);
  };
  walk(0, 0);
  return values;
}

Tensors inputs(const O& o, std::int64_t batch = kBatch) {
  Tensors parts;
  for (std::int64_t i = 0; i < 2 + keys_of(o); ++i)
    parts.push_back(random({batch, static_cast<std::int64_t>(kIds.size()), kHeads * kWidth},
                           static_cast<std::uint64_t>(i)));
  return parts;
}

// A layer of the few tokens alone, with the full one's parameters at ids.
std::unique_ptr<Layer> cut_by_hand(const Layer& full, O o, const std::vector<std::int64_t>& ids) {
  // its own N would give SE-K another hidden width
  o.reduction = o.variant == "kerformer" ? 1 : o.reduction;
  auto cut =
      std::make_unique<Layer>(o, static_cast<std::int64_t>(ids.size()), kHeads, kWidth, keys_of(o));
  for (const nn::Parameter& p : cut->parameters.all()) {
    const std::string name = p.name.substr(5);
    if (name.starts_with("qkv") || name.starts_with("proj.") || name.starts_with("k2")) continue;
    cut->set(name, sliced(name, full.value(name), ids, kTokens));
  }
  return cut;
}

TEST_CASE("a subset of tokens uses the entries of its positions") {
  const std::vector<O> variants = positional();
  CHECK(variants.size() >= 8);
  for (O o : variants) {
    if (o.variant == "cosformer") continue;  // below: its angles are of the full period
    INFO(o.variant);
    o.reduction = 2;
    Layer full(o, kTokens, kHeads, kWidth, keys_of(o));
    full.randomize(3, 0.1, 0.9);
    const auto cut = cut_by_hand(full, o, kIds);
    const Tensors parts = inputs(o);
    const Tensor ids = as_tensor({4}, kIds);
    const Tensor out = full(parts, ids);
    CHECK(difference(out, (*cut)(parts)) < 2e-6);
    CHECK(difference(out, full(parts)) > 1e-4);  // 0, 1, 2, 3 are other positions

    // each image its own
    const auto other = cut_by_hand(full, o, kOthers);
    std::vector<std::int64_t> both = kIds;
    both.insert(both.end(), kOthers.begin(), kOthers.end());
    const Tensor mixed = full(parts, as_tensor({2, 4}, both));
    CHECK(difference(split(mixed, {1, 1}, 0)[0], split((*cut)(parts), {1, 1}, 0)[0]) < 2e-6);
    CHECK(difference(split(mixed, {1, 1}, 0)[1], split((*other)(parts), {1, 1}, 0)[1]) < 2e-6);
  }
}

TEST_CASE("cosformer's angles are those of the full sequence") {
  O o;
  o.variant = "cosformer";
  Layer layer(o, kTokens, kHeads, kWidth);
  const Tensors parts = inputs(o);
  // In a full sequence whose other keys have no features, only those at kIds count.
  Tensors whole;
  for (const Tensor& p : parts) {
    const Tensor wide = Tensor::full({kBatch, kTokens, kHeads * kWidth}, -1);
    for (std::int64_t b = 0; b < kBatch; ++b)
      for (std::size_t i = 0; i < kIds.size(); ++i)
        std::copy_n(p.data<float>() + (b * 4 + static_cast<std::int64_t>(i)) * kHeads * kWidth,
                    kHeads * kWidth,
                    wide.data<float>() + (b * kTokens + kIds[i]) * kHeads * kWidth);
    whole.push_back(wide);
  }
  const Tensor expected = layer(whole), out = layer(parts, as_tensor({4}, kIds));
  for (std::int64_t b = 0; b < kBatch; ++b)
    for (std::size_t i = 0; i < kIds.size(); ++i)
      for (std::int64_t c = 0; c < kHeads * kWidth; ++c)
        CHECK(out.data<float>()[(b * 4 + static_cast<std::int64_t>(i)) * kHeads * kWidth + c] ==
              doctest::Approx(expected.data<float>()[(b * kTokens + kIds[i]) * kHeads * kWidth + c])
                  .epsilon(1e-4));
  CHECK(difference(out, layer(parts)) > 1e-3);
  CHECK_THROWS_WITH(layer(parts, as_tensor({4}, {0, 1, 2, kTokens})), doctest::Contains("id 8"));
}

TEST_CASE("entries of absent positions get no gradient") {
  for (O o : positional()) {
    INFO(o.variant);
    Layer layer(o, kTokens, kHeads, kWidth, keys_of(o));
    layer.randomize(3, 0.1, 0.9);
    for (const bool per_image : {false, true}) {
      Tape tape;
      for (const nn::Parameter& p : layer.parameters.all()) tape.watch(p.value);
      const Tensor ids = per_image ? as_tensor({1, 4}, kIds) : as_tensor({4}, kIds);
      const Tensors parts = inputs(o, 1);
      const Tensor out = layer(parts, ids), seed = random(out.shape(), 9);
      const Gradients grads = tape.backward(In(&out, 1), In(&seed, 1));
      for (const nn::Parameter& p : layer.parameters.all()) {
        INFO(p.name);
        if (!grads.has(p.value)) continue;
        const Shape strides = p.value.shape().contiguous_strides();
        double present = 0;
        for (std::int64_t i = 0; i < p.value.numel(); ++i) {
          const float g = grads[p.value].data<float>()[i];
          bool absent = false;
          for (int axis = 0; axis < p.value.rank(); ++axis) {
            const std::int64_t at = i / strides[axis] % p.value.dim(axis);
            absent |= p.value.dim(axis) == kTokens &&
                      std::find(kIds.begin(), kIds.end(), at) == kIds.end();
          }
          if (absent) CHECK(g == 0);
          present += std::abs(g);
        }
        CHECK(present > 0);
      }
    }
  }
}

TEST_CASE("all positions in order are the sequence without ids to the last bit") {
  std::vector<std::int64_t> every;
  for (std::int64_t i = 0; i < kTokens; ++i) every.push_back(i);
  for (const O& o : all_variants()) {
    INFO(o.variant);
    Layer layer(o, kTokens, kHeads, kWidth, keys_of(o));
    layer.randomize(3, 0.1, 0.9);
    Tensors parts;
    for (std::int64_t i = 0; i < 2 + keys_of(o); ++i)
      parts.push_back(random({kBatch, kTokens, kHeads * kWidth}, static_cast<std::uint64_t>(i)));
    const double bound = o.variant == "kerformer" ? 1e-6 : 0;  // bias before or after the product
    CHECK(difference(layer(parts, as_tensor({kTokens}, every)), layer(parts)) <= bound);
  }
}

TEST_CASE("soft_e learns from tokens at their positions and leaves others alone") {
  O o;
  o.variant = "mgk";
  o.mode = O::Mode::soft_e;
  o.pi_shape = O::PiShape::head_pos;
  Layer layer(o, kTokens, kHeads, kWidth, 2);
  const Tensors parts = inputs(o);
  for (const bool per_image : {false, true}) {
    std::vector<std::int64_t> twice = kIds;
    twice.insert(twice.end(), kIds.begin(), kIds.end());
    layer.set("pi", Values(static_cast<std::size_t>(kHeads * kTokens * 2), 0.5));
    nn::PassRecord record;
    layer(parts, per_image ? as_tensor({2, 4}, twice) : as_tensor({4}, kIds), {nullptr, &record});
    layer.attention->learn({record.statistics[0].values});
    const float* const pi = layer.value("pi").data<float>();
    for (std::int64_t i = 0; i < kHeads * kTokens; ++i) {
      CHECK(pi[2 * i] + pi[2 * i + 1] == doctest::Approx(1).epsilon(1e-5));
      const bool present = std::find(kIds.begin(), kIds.end(), i % kTokens) != kIds.end();
      CHECK((pi[2 * i] != 0.5f) == present);
    }
  }
}

}  // namespace attention_positions_test
