// Sparsity terms and gates of nn/METHODS.md, section 3, on one layer.
#include <limits>
#include <map>

#include "tensor/observer.h"
#include "tensor/ops/reduce.h"
#include "tensor/run.h"
#include "tests/nn/attention_layer.h"

namespace attention_gate_test {

using namespace hg;
using namespace hg::testing;
using O = AttentionOptions;
using Gate = O::Gate;
using nn::Sparsity;

constexpr std::int64_t kTokens = 9, kHeads = 4, kWidth = 3;

double term(Layer& layer, const Tensors& parts, Sparsity kind) {
  nn::PassRecord record;
  record.wants_sparsity = kind;
  layer(parts, {}, {nullptr, &record});
  REQUIRE(record.sparsity.size() == 1);
  return static_cast<double>(record.sparsity[0].item<float>());
}

// q, k and v, and further keys, of kTokens tokens.
Tensors random_parts(const O& o, std::int64_t tokens = kTokens, std::int64_t batch = 2) {
  Tensors parts;
  for (std::int64_t i = 0; i < 2 + keys_of(o); ++i)
    parts.push_back(random({batch, tokens, kHeads * kWidth}, 10 + static_cast<std::uint64_t>(i)));
  return parts;
}

Layer make(const O& o) {
  Layer layer(o, kTokens, kHeads, kWidth, keys_of(o));
  layer.randomize(3, 0.1, 0.9);
  return layer;
}

// Copies the parameters that both layers have.
void take(Layer& to, const Layer& from) {
  for (const nn::Parameter& p : to.parameters.all())
    if (const nn::Parameter* other = from.parameters.find(p.name))
      std::copy_n(other->value.data<float>(), p.value.numel(), p.value.data<float>());
}

void fill(Layer& layer, const std::string& name, double value) {
  layer.set(name, Values(static_cast<std::size_t>(layer.value(name).numel()), value));
}

// alpha = 1 to the last bit.
void force_open(Layer& layer) {
  fill(layer, "gate.weight", 0);
  fill(layer, "gate.bias", 60);
}

// Sets head h's slices of the projections.
void fill_head(Layer& layer, std::int64_t h, float value, bool inputs_too) {
  const bool two = layer.options.variant == "hash";  // queries are keys, too
  const Tensor &qkv = layer.value(two ? "qv.weight" : "qkv.weight"),
               &proj = layer.value("proj.weight");
  const std::int64_t inner = kHeads * kWidth;
  for (std::int64_t i = h * kWidth; i < (h + 1) * kWidth; ++i) {
    for (int part = 0; part < (two ? 2 : 3) && inputs_too; ++part)
      std::fill_n(qkv.data<float>() + (part * inner + i) * qkv.dim(1), qkv.dim(1), value);
    for (std::int64_t e = 0; e < proj.dim(0); ++e) proj.data<float>()[e * inner + i] = value;
  }
}

class Products final : public Observer {
 public:
  void op_end(const OpCall& call) override {
    auto& sums = call.phase == Phase::backward ? backward : forward;
    const std::string& op = call.scope->op;
    sums[op == "qv"                                    ? "qkv"
         : op == "qkv" || op == "proj" || op == "gate" ? op
                                                       : "core"] +=
        static_cast<std::int64_t>(call.op.cost(call.in, call.out).total().flops_mm);
  }
  std::map<std::string, std::int64_t> forward, backward;
};

Products count(O o, std::int64_t tokens, std::int64_t heads, std::int64_t dim_head) {
  nn::Parameters parameters(1, true);
  o.width = 24, o.heads = heads, o.dim_head = dim_head, o.tokens = tokens;
  const auto layer = nn::make_attention(nn::Builder(parameters), o);
  Products products;
  const ObserverGuard guard(products);
  const DryRun dry;
  Tape tape;
  const Tensor x = Tensor::hollow_of({DType::f32, {1, tokens, o.width}});
  tape.watch(x);
  for (const nn::Parameter& p : parameters.all()) tape.watch(p.value);
  tape.backward(sum_all((*layer)(x, {})));
  return products;
}

TEST_CASE("entropy is 1 for uniform rows and 0 for one-hot ones, gini 1 - 1/N and 0") {
  constexpr std::int64_t kN = 5;
  const Tensor zero = Tensor::zeros({2, kN, kN}), values = random({2, kN, kN}, 1);
  const Tensor unit = Tensor::zeros({2, kN, kN});
  for (std::int64_t i = 0; i < 2 * kN; ++i) unit.data<float>()[i * kN + i % kN] = 30;
  for (const char* name : {"softmax", "rbf", "prob", "gmm", "fiak", "entmax15", "sparsemax"}) {
    INFO(name);
    Layer layer(variant(name), kN, 1, kN);
    CHECK(term(layer, {zero, zero, values}, Sparsity::entropy) == doctest::Approx(1));
    CHECK(term(layer, {zero, zero, values}, Sparsity::gini) == doctest::Approx(1 - 1.0 / kN));
    CHECK(term(layer, {unit, unit, values}, Sparsity::entropy) == doctest::Approx(0));
    CHECK(term(layer, {unit, unit, values}, Sparsity::gini) == doctest::Approx(0));
  }
  O causal = variant("softmax");
  causal.causal = true;  // its first row sees one key and is no part of the mean
  Layer layer(causal, kN, 1, kN);
  CHECK(term(layer, {zero, zero, values}, Sparsity::entropy) == doctest::Approx(1));
}

TEST_CASE("a sequence of one token has no entropy to speak of") {
  Layer layer(variant("softmax"), 1, 1, 2);
  nn::PassRecord record;
  record.wants_sparsity = Sparsity::entropy;
  const Tensor one = Tensor::full({1, 1, 2}, 1);
  layer({one, one, one}, {}, {nullptr, &record});
  CHECK(record.sparsity.empty());
}

TEST_CASE("hoyer is 1 for equal priors and 0 for single ones; l1_pi is their mean size") {
  for (const char* name : {"gmm", "fiak"}) {
    INFO(name);
    Layer layer(variant(name), 4, 1, 2);
    const Tensor x = random({1, 4, 2}, 1);
    const auto size = static_cast<std::size_t>(layer.value("pi").numel());
    CHECK(term(layer, {x, x, x}, Sparsity::hoyer) == doctest::Approx(1));
    Values single(size, 0.0);
    for (std::size_t i = 0; i < size; i += 4) single[i + i / 4 % 4] = -0.3;
    layer.set("pi", single);
    CHECK(term(layer, {x, x, x}, Sparsity::hoyer) == doctest::Approx(0));
    CHECK(term(layer, {x, x, x}, Sparsity::l1_pi) == doctest::Approx(0.3 / 4));
    layer.set("pi", Values(size, 0.0));  // nothing left: no NaN
    CHECK(term(layer, {x, x, x}, Sparsity::hoyer) == doctest::Approx(0));
  }
  O kerformer = variant("kerformer");
  Layer layer(kerformer, 4, 1, 2);
  const Tensor x = random({1, 4, 2}, 1);
  fill(layer, "se.fc2.weight", 0);
  CHECK(term(layer, {x, x, x}, Sparsity::gate_l1) == doctest::Approx(0.5));
}

TEST_CASE("asking for a term leaves the output as it is") {
  for (const O& o : all_variants()) {
    if (!nn::attention_traits(o).spread) continue;
    INFO(o.variant);
    Layer layer = make(o);
    nn::PassRecord record;
    record.wants_sparsity = Sparsity::entropy;
    const Tensor plain = layer(random_parts(o)),
                 asked = layer(random_parts(o), {}, {nullptr, &record});
    CHECK(difference(plain, asked) < 1e-6);
  }
}

TEST_CASE("all heads with alpha = 1 are the ungated layer") {
  for (const O& o : all_variants()) {
    if (!nn::attention_traits(o).some_heads) continue;
    INFO(o.variant);
    Layer plain = make(o);
    O gated = o;
    gated.gate = Gate::head;
    Layer open = make(gated);
    take(open, plain);
    force_open(open);
    CHECK(difference(open(random_parts(o)), plain(random_parts(o))) == 0);
    gated.gate = Gate::token;
    Layer asking = make(gated);
    take(asking, plain);
    if (nn::attention_traits(o).some_queries)
      CHECK(difference(asking(random_parts(o)), plain(random_parts(o))) == 0);
  }
}

TEST_CASE("heads that do not work add nothing, and nobody reads their weights") {
  const Tensor ids = Tensor::of<std::int64_t>({2, 4}, {0, 2, 3, 7, 0, 1, 5, 8});
  for (const O& o : all_variants()) {
    if (!nn::attention_traits(o).some_heads) continue;
    INFO(o.variant);
    O half = o;
    half.gate = Gate::head;
    half.gate_keep = 0.5;
    Layer plain = make(o), gated = make(half);
    take(gated, plain);
    force_open(gated);
    gated.set("gate.mean", {0.1, 0.8, 0.1, 0.7});
    for (const std::int64_t h : {0, 2}) {
      fill_head(plain, h, 0, o.variant == "ref_gmm");
      fill_head(gated, h, std::numeric_limits<float>::quiet_NaN(), true);
    }
    for (const auto& [parts, positions] :
         {std::pair{random_parts(o), Tensor()}, {random_parts(o, 4), ids}}) {
      const Tensor out = gated(parts, positions);
      if (o.variant == "ref_gmm")  // its density is that of the heads at work
        for (const float v : out.to_vector<float>()) CHECK(std::isfinite(v));
      else
        CHECK(difference(out, plain(parts, positions)) < 1e-6);
    }
  }
}

TEST_CASE("the running mean of alpha chooses the heads; without one the images' own do") {
  O o = variant("softmax");
  o.gate = Gate::head;
  o.gate_keep = 0.3;  // 2 of 4
  Layer layer = make(o);
  const nn::HeadGate& gate = *layer.attention->gate();
  CHECK(!gate.settled());
  const Tensor alpha = Tensor::of<float>({2, 4}, {.2f, .9f, .6f, .1f, .4f, .3f, .6f, .1f});
  const Tensor marks = Tensor::of<float>({4}, {0, 1, 2, 3});
  CHECK(gate.heads(alpha).of(marks).to_vector<float>() == std::vector<float>{1, 2});
  const Tensor ties = Tensor::full({1, 4}, 0.5);
  CHECK(gate.heads(ties).of(marks).to_vector<float>() == std::vector<float>{0, 1});
  gate.learn({{alpha}});
  CHECK(gate.settled());
  CHECK(difference(layer.value("gate.mean"), Values{.3, .6, .6, .1}) < 1e-6);
  gate.learn(
      {{Tensor::of<float>({1, 4}, {1, 1, 0, 1})}, {Tensor::of<float>({1, 4}, {1, 0, 0, 1})}});
  CHECK(difference(layer.value("gate.mean"), Values{.307, .599, .594, .109}) < 1e-6);
  CHECK(gate.heads(ties).of(marks).to_vector<float>() == std::vector<float>{1, 2});
}

TEST_CASE("with per_batch = false every image has its own heads") {
  O o = variant("softmax");
  Layer plain = make(o);
  o.gate = Gate::head;
  o.gate_keep = 0.5;
  o.gate_per_batch = false;
  Layer layer = make(o);
  take(layer, plain);
  layer.randomize(5, -1, 1);
  const Tensors parts = random_parts(o);
  const Tensor all = layer(parts);
  nn::PassRecord record;
  const Tensor alpha = layer.attention->gate()->alpha(concat(parts, 2), {nullptr, &record});
  const Tensor ungated = plain(parts);
  for (std::int64_t b = 0; b < 2; ++b) {
    const float* const a = alpha.data<float>() + b * kHeads;
    for (std::int64_t h = 0; h < kHeads; ++h) {
      const auto larger = std::count_if(a, a + kHeads, [&](float other) { return other > a[h]; });
      const float factor = larger < 2 ? a[h] : 0;
      for (std::int64_t i = 0; i < kTokens; ++i)
        for (std::int64_t d = 0; d < kWidth; ++d) {
          const std::int64_t at = (b * kTokens + i) * kHeads * kWidth + h * kWidth + d;
          CHECK(all.data<float>()[at] ==
                doctest::Approx(factor * ungated.data<float>()[at]).epsilon(1e-5));
        }
    }
  }
}

TEST_CASE("tokens that ask get what they would get, the others nothing") {
  const Tensor ids = Tensor::of<std::int64_t>({2, 5}, {0, 2, 3, 6, 7, 0, 1, 4, 5, 8});
  for (const O& o : all_variants()) {
    if (!nn::attention_traits(o).some_queries) continue;
    INFO(o.variant);
    O half = o;
    half.gate = Gate::token;
    half.gate_keep = 0.5;
    Layer plain = make(o), gated = make(half);
    take(gated, plain);
    for (Layer* layer : {&plain, &gated}) fill(*layer, "proj.bias", 0.25);
    for (const auto& [parts, positions] :
         {std::pair{random_parts(o), Tensor()}, {random_parts(o, 5), ids}}) {
      const Tensor x = concat(parts, 2), out = gated(parts, positions),
                   whole = plain(parts, positions);
      const std::int64_t n = x.dim(1), e = x.dim(2), width = out.dim(2), kept = (n - 1 + 1) / 2;
      for (std::int64_t b = 0; b < 2; ++b) {
        Values mean(static_cast<std::size_t>(e), 0.0), far(static_cast<std::size_t>(n), 0.0);
        const float* const tokens = x.data<float>() + b * n * e;
        for (std::int64_t i = 0; i < n * e; ++i)
          mean[static_cast<std::size_t>(i % e)] += tokens[i] / static_cast<double>(n);
        for (std::int64_t i = 0; i < n * e; ++i)
          far[static_cast<std::size_t>(i / e)] +=
              std::pow(tokens[i] - mean[static_cast<std::size_t>(i % e)], 2);
        for (std::int64_t i = 0; i < n; ++i) {
          const auto further = std::count_if(far.begin() + 1, far.end(), [&](double f) {
            return f > far[static_cast<std::size_t>(i)];
          });
          const bool asks = i == 0 || further < kept;
          for (std::int64_t c = 0; c < width; ++c) {
            const std::int64_t at = (b * n + i) * width + c;
            if (asks)
              CHECK(std::abs(out.data<float>()[at] - whole.data<float>()[at]) < 2e-6);
            else
              CHECK(out.data<float>()[at] == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("products fall by the share of heads, and for tokens those of queries") {
  for (O o : all_variants()) {
    const nn::AttentionTraits traits = nn::attention_traits(o);
    INFO(o.variant);
    for (const auto& [n, d] : {std::pair<std::int64_t, std::int64_t>{1, 8}, {17, 48}, {197, 8}}) {
      o.gate = Gate::none;
      o.gate_keep = 1;
      const Products plain = count(o, n, kHeads, d);
      o.gate_keep = 0.5;
      o.gate = Gate::head;
      if (traits.some_heads) {
        const Products half = count(o, n, kHeads, d);
        for (const char* op : {"qkv", "proj"}) {
          CHECK(2 * half.forward.at(op) == plain.forward.at(op));
          CHECK(2 * half.backward.at(op) == plain.backward.at(op));
        }
        if (keys_of(o) == 1) CHECK(2 * half.forward.at("core") == plain.forward.at("core"));
        CHECK(half.forward.at("gate") == 2 * 24 * kHeads);
      }
      o.gate = Gate::token;
      const std::int64_t asking = 1 + n / 2;  // n - 1 is even
      if (!traits.some_queries || n == 1) continue;
      const Products some = count(o, n, kHeads, d);
      CHECK(n * some.forward.at("proj") == asking * plain.forward.at("proj"));
      if (o.variant == "hash")  // queries are keys, which all tokens have
        CHECK(some.forward.at("qkv") == plain.forward.at("qkv"));
      else
        CHECK(3 * n * some.forward.at("qkv") == (asking + 2 * n) * plain.forward.at("qkv"));
      if (traits.quadratic && keys_of(o) == 1) {
        CHECK(n * some.forward.at("core") == asking * plain.forward.at("core"));
        CHECK(n * some.backward.at("core") == asking * plain.backward.at("core"));
      }
    }
  }
}

}  // namespace attention_gate_test
