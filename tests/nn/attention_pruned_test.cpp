// fiak_pruned: on a support it is dense attention with nothing at the other pairs, in values,
// gradients and cost, and it never looks at what was dropped.
#include <limits>

#include "nn/attention/prune.h"
#include "tensor/observer.h"
#include "tensor/ops/kept_projection.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/sparse_attention.h"
#include "tensor/ops/view.h"
#include "tensor/run.h"
#include "tests/nn/attention_layer.h"

namespace attention_pruned_test {

using namespace hg;
using namespace hg::testing;
using O = AttentionOptions;

std::shared_ptr<const PairSupport> random_support(std::int64_t heads, std::int64_t n, double share,
                                                  std::uint64_t seed = 3) {
  RandomStream stream(seed, "support");
  return std::make_shared<const PairSupport>(
      heads, n, [&](std::int64_t, std::int64_t i, PairSupport::Row& keys) {
        for (std::int64_t j = 0; j < n; ++j)
          if (stream.uniform() < share || j == i % (n / 2 + 1))
            keys.push_back(static_cast<std::uint16_t>(j));
      });
}

O pruned_options(std::shared_ptr<const PairSupport> support, bool rbf = false) {
  O o;
  o.variant = "fiak_pruned";
  o.rbf_score = rbf;
  o.support = std::move(support);
  return o;
}

// fiak with priors of 1 on the support and 0 beside it: masked dense attention.
void set_priors(Layer& layer, const PairSupport& support) {
  const std::int64_t n = support.tokens();
  Values pi;
  for (std::int64_t p = 0; p < support.heads() * n * n; ++p)
    pi.push_back(support.has(p / (n * n), p / n % n, p % n) ? 1 : 0);
  layer.set("pi", pi);
}

struct Passed {
  Tensor out;
  Tensors grads;  // of the parts
};
Passed pass(Layer& layer, const Tensors& parts, const Tensor& seed, const Tensor& ids = {}) {
  Tape tape;
  for (const Tensor& t : parts) tape.watch(t);
  Passed result{layer(parts, ids), {}};
  const Gradients grads = tape.backward(In(&result.out, 1), In(&seed, 1));
  for (const Tensor& t : parts) result.grads.push_back(grads[t]);
  return result;
}

void check_equal(const Passed& a, const Passed& b, double tolerance) {
  CHECK(difference(a.out, b.out) < tolerance);
  for (std::size_t i = 0; i < a.grads.size(); ++i)
    CHECK(difference(a.grads[i], b.grads[i]) < tolerance);
}

Tensors random_parts(const Shape& shape, DType dtype) {
  return {random(shape, 1, -2, 2, dtype), random(shape, 2, -2, 2, dtype),
          random(shape, 3, -2, 2, dtype)};
}

class CoreCounter final : public Observer {
 public:
  void op_end(const OpCall& call) override {
    const Cost cost = call.op.cost(call.in, call.out).total();
    const bool backward = call.phase == Phase::backward;
    if (call.scope->op == "qkv")
      (backward ? qkv_backward : qkv) += cost.flops_mm;
    else if (call.scope->op != "proj" && call.op.name().starts_with("sparse_attention"))
      (backward ? core_backward : core) += cost.flops_mm, weights += backward ? 0 : cost.flops_ew;
  }
  std::uint64_t qkv = 0, qkv_backward = 0, core = 0, core_backward = 0, weights = 0;
};

CoreCounter count(const O& o, std::int64_t n, std::int64_t heads, std::int64_t d, std::int64_t e) {
  nn::Parameters parameters(1, true);
  O sized = o;
  sized.width = e, sized.heads = heads, sized.dim_head = d, sized.tokens = n;
  const auto layer = nn::make_attention(nn::Builder(parameters), sized);
  CoreCounter counter;
  const ObserverGuard guard(counter);
  const DryRun dry;
  Tape tape;
  const Tensor x = Tensor::hollow_of({DType::f32, {1, n, e}});
  tape.watch(x);
  for (const nn::Parameter& p : parameters.all()) tape.watch(p.value);
  tape.backward(sum_all((*layer)(x, {})));
  return counter;
}

TEST_CASE("appendix B on a support") {
  const auto support = std::make_shared<const PairSupport>(
      1, 3, [](std::int64_t, std::int64_t i, PairSupport::Row& keys) {
        if (i == 0) keys = {0, 2};
        if (i == 1) keys = {0, 1};
        if (i == 2) keys = {2};
      });
  Layer layer(pruned_options(support), 3, 1, 2);
  const Tensor out = layer({tokens(3, {1, 0, 0, 1, 1, 1}), tokens(3, {1, 2, 0, -1, .5, .5}),
                            tokens(3, {1, -1, 0, 2, 3, .5})});
  CHECK(difference(out, {1.825042, -.381219, .892958, -.678875, 3, .5}) < 2e-6);
}

TEST_CASE("pruned attention is dense attention with nothing at the pruned pairs") {
  for (const bool rbf : {false, true})
    for (const std::int64_t n : {2, 17, 130})
      for (const DType dtype : {DType::f32, DType::f64}) {
        INFO("rbf " << rbf << " N " << n << " " << std::string(to_string(dtype)));
        const std::int64_t heads = 2, d = 5;
        const auto support = random_support(heads, n, 0.3);
        O fiak;
        fiak.variant = "fiak";
        fiak.rbf_score = rbf;
        Layer dense(fiak, n, heads, d, 1, dtype);
        Layer sparse(pruned_options(support, rbf), n, heads, d, 1, dtype);
        set_priors(dense, *support);
        const Shape shape{3, n, heads * d};
        const Tensors parts = random_parts(shape, dtype);
        const Tensor seed = random(shape, 4, -1, 1, dtype);
        check_equal(pass(sparse, parts, seed), pass(dense, parts, seed),
                    dtype == DType::f32 ? 1e-5 : 1e-12);
      }
}

TEST_CASE("nothing pruned is softmax") {
  const std::int64_t n = 23, heads = 3, d = 8;
  O softmax;
  Layer dense(softmax, n, heads, d, 1, DType::f64);
  for (const auto& support : {std::shared_ptr<const PairSupport>(), PairSupport::whole(heads, n)}) {
    Layer sparse(pruned_options(support), n, heads, d, 1, DType::f64);
    const Shape shape{2, n, heads * d};
    const Tensors parts = random_parts(shape, DType::f64);
    const Tensor seed = random(shape, 4, -1, 1, DType::f64);
    check_equal(pass(sparse, parts, seed), pass(dense, parts, seed), 1e-12);
  }
}

TEST_CASE("pruned attention on a part of the tokens takes the pairs among them") {
  const std::int64_t n = 12, heads = 2, d = 4;
  const auto support = random_support(heads, n, 0.5);
  O fiak;
  fiak.variant = "fiak";
  Layer dense(fiak, n, heads, d, 1, DType::f64);
  set_priors(dense, *support);
  Layer sparse(pruned_options(support), n, heads, d, 1, DType::f64);
  const Tensor shared = Tensor::of<std::int64_t>({5}, {0, 3, 4, 9, 11});
  const Tensor own = Tensor::of<std::int64_t>({2, 5}, {0, 1, 2, 3, 4, 0, 2, 7, 8, 10});
  for (const Tensor& ids : {shared, own}) {
    const Shape shape{2, 5, heads * d};
    const Tensors parts = random_parts(shape, DType::f64);
    const Tensor seed = random(shape, 4, -1, 1, DType::f64);
    check_equal(pass(sparse, parts, seed, ids), pass(dense, parts, seed, ids), 1e-12);
  }
}

TEST_CASE("a query without a pair gives zero and no gradient") {
  const std::int64_t n = 4, d = 3;
  const auto support = std::make_shared<const PairSupport>(
      1, n, [](std::int64_t, std::int64_t i, PairSupport::Row& keys) {
        if (i != 1) keys = {0, 3};
      });
  Layer layer(pruned_options(support), n, 1, d);
  const Tensors parts = random_parts({1, n, d}, DType::f32);
  const Passed passed = pass(layer, parts, random({1, n, d}, 9));
  for (std::int64_t c = d; c < 2 * d; ++c) {
    CHECK(passed.out.data<float>()[c] == 0);
    CHECK(passed.grads[0].data<float>()[c] == 0);
  }
}

TEST_CASE("keys and values of a dropped key are never read") {
  const std::int64_t n = 9, heads = 2, e = 6, d = 4;
  // Head 0 drops tokens 2 and 5, head 1 drops token 7.
  const auto support = std::make_shared<const PairSupport>(
      heads, n, [&](std::int64_t h, std::int64_t i, PairSupport::Row& keys) {
        for (std::int64_t j = 0; j < n; ++j)
          if ((h == 0 ? j != 2 && j != 5 : j != 7) && (i + j) % 2 == 0)
            keys.push_back(static_cast<std::uint16_t>(j));
      });
  CHECK(support->kept() == 7 + 8);
  // Poison what would be the rows of dropped keys: there is no place for them.
  const Tensor x = random({2, n, e}, 1), w = random({3 * heads * d, e}, 2);
  const Tensors qkv = kept_projection({support}, x, w, {});
  CHECK(qkv[1].shape() == Shape{2 * 15, d});
  // A token that no head keeps may be anything as a key; here its query alone is poisoned by it.
  const auto without_2 = std::make_shared<const PairSupport>(
      heads, n, [&](std::int64_t, std::int64_t, PairSupport::Row& keys) {
        for (std::int64_t j = 0; j < n; ++j)
          if (j != 2) keys.push_back(static_cast<std::uint16_t>(j));
      });
  const Tensor poisoned = x.clone();
  for (std::int64_t c = 0; c < e; ++c)
    poisoned.data<float>()[2 * e + c] = std::numeric_limits<float>::quiet_NaN();
  const Tensors parts = kept_projection({without_2}, poisoned, w, {});
  const Tensor out = sparse_attention({{without_2}}, parts[0], parts[1], parts[2]);
  const std::int64_t width = heads * d;
  for (std::int64_t i = 0; i < out.numel(); ++i)
    CHECK(std::isnan(out.data<float>()[i]) == (i / width == 2));
  for (const int which : {1, 2})
    for (std::int64_t i = 0; i < parts[static_cast<std::size_t>(which)].numel(); ++i)
      CHECK(std::isfinite(parts[static_cast<std::size_t>(which)].data<float>()[i]));
}

TEST_CASE("weights of keys and values that a head has no use for are never read") {
  const std::int64_t n = 5, heads = 2, e = 3, d = 2;
  const auto support = std::make_shared<const PairSupport>(
      heads, n, [](std::int64_t h, std::int64_t, PairSupport::Row& keys) {
        if (h == 0) keys = {0, 1};
      });
  const Tensor x = random({1, n, e}, 1), w = random({3 * heads * d, e}, 2);
  for (std::int64_t row = heads * d; row < 3 * heads * d; ++row)
    if (row % (heads * d) >= d)
      for (std::int64_t c = 0; c < e; ++c)
        w.data<float>()[row * e + c] = std::numeric_limits<float>::quiet_NaN();
  const Tensors qkv = kept_projection({support}, x, w, {});
  const Tensor out = sparse_attention({{support}}, qkv[0], qkv[1], qkv[2]);
  for (std::int64_t i = 0; i < out.numel(); ++i) CHECK(std::isfinite(out.data<float>()[i]));
}

TEST_CASE("core products are exactly the share of pairs left and keys dropped are not projected") {
  for (const auto& [n, heads, d] :
       {std::tuple{1, 2, 8}, std::tuple{17, 4, 48}, std::tuple{197, 3, 64}}) {
    const std::int64_t e = 24, pairs = heads * n * n;
    const Tensor pi = random({heads, n, n}, 5);
    nn::PruneOptions scores{.fraction = 0.7, .min_per_row = 0};
    const nn::Pruned pruned = nn::prune({pi}, scores);
    const CoreCounter some = count(pruned_options(pruned.supports[0]), n, heads, d, e);
    const auto kept = static_cast<std::uint64_t>(
        pairs - static_cast<std::int64_t>(std::floor(0.7 * static_cast<double>(pairs) + 0.5)));
    const auto width = static_cast<std::uint64_t>(d);
    CHECK(some.core == 4 * kept * width);
    CHECK(some.core_backward == 8 * kept * width);
    CHECK(some.weights == 6 * kept);

    nn::PruneOptions mixed{.method = nn::PruneOptions::Method::mixed,
                           .fraction = 0.7,
                           .key_fraction = 0.2,
                           .min_per_row = 0};
    const auto support = nn::prune({pi}, mixed).supports[0];
    const CoreCounter fewer = count(pruned_options(support), n, heads, d, e);
    CHECK(fewer.core == 4 * static_cast<std::uint64_t>(support->pairs()) * width);
    const auto projected = static_cast<std::uint64_t>(2 * n * e * heads * d) +
                           4 * static_cast<std::uint64_t>(support->kept() * e * d);
    CHECK(fewer.qkv == projected);
    CHECK(fewer.qkv_backward == 2 * projected);
  }
}

TEST_CASE("weights are dropped at random in training alone") {
  const std::int64_t n = 30, d = 8;
  const auto support = random_support(1, n, 0.5);
  O o = pruned_options(support);
  o.weight_dropout = 0.4;
  Layer layer(o, n, 1, d);
  const Tensors parts = random_parts({2, n, d}, DType::f32);
  RandomStream stream(1, "dropout"), again(1, "dropout");
  const Tensor calm = layer(parts), wild = layer(parts, {}, {&stream, nullptr}),
               same = layer(parts, {}, {&again, nullptr});
  CHECK(difference(wild, same) == 0);
  CHECK(difference(wild, calm) > 0.05);
}

}  // namespace attention_pruned_test
