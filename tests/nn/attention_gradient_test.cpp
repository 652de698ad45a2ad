// Gradients of every variant, of its input and all its parameters, against central differences in
// f64; and scores far beyond what exp takes.
#include "tensor/ops/binary.h"
#include "tensor/ops/reduce.h"
#include "tests/nn/attention_layer.h"

namespace attention_gradient_test {

using namespace hg;
using namespace hg::testing;

constexpr std::int64_t kTokens = 5, kHeads = 2, kWidth = 3;

std::string describe(const AttentionOptions& o) {
  return fmt::format("{} {} {} {}", o.variant, static_cast<int>(o.mode),
                     static_cast<int>(o.pi_shape), o.steps);
}

// The loss: fixed random weights times the output, plus the terms asked for.
Tensor objective(const Layer& layer, const Tensor& x, const Tensor& weights,
                 const nn::PassRecord& asked = {}) {
  nn::PassRecord record = asked;
  Tensor sum = sum_all(mul((*layer.attention)(x, {nullptr, &record}), weights));
  for (const Tensors* terms : {&record.likelihood, &record.sparsity, &record.budget})
    for (const Tensor& term : *terms) sum = add(sum, term);
  return sum;
}

void check_gradients(const AttentionOptions& o, const nn::PassRecord& asked = {},
                     std::int64_t heads = kHeads) {
  Layer layer(o, kTokens, heads, kWidth, keys_of(o), DType::f64);
  if (o.gate == AttentionOptions::Gate::head && o.gate_per_batch)
    layer.set("gate.mean", {0.2, 0.9, 0.5});  // of three heads the last two work
  for (const nn::Parameter& p : layer.parameters.all()) {
    RandomStream stream(3, p.name);
    const bool prior = p.name == "attn.pi" && o.pi_param != AttentionOptions::PiParam::softmax;
    fill_uniform(p.value, stream, prior || o.variant == "gmm" || o.variant == "fiak" ? 0.1 : -0.7,
                 0.8);
  }
  const Tensor x = random({2, kTokens, layer.options.width}, 5, -1, 1, DType::f64);
  const Tensor weights = random(x.shape(), 6, -1, 1, DType::f64);
  Tensors leaves{x};
  for (const nn::Parameter& p : layer.parameters.all()) leaves.push_back(p.value);
  Tape tape;
  for (const Tensor& leaf : leaves) tape.watch(leaf);
  const Gradients grads = tape.backward(objective(layer, x, weights, asked));
  for (std::size_t l = 0; l < leaves.size(); ++l) {
    INFO((l == 0 ? "input" : layer.parameters.all()[l - 1].name));
    double* const at = leaves[l].data<double>();
    double worst = 0;
    for (std::int64_t i = 0; i < leaves[l].numel(); i += 1 + leaves[l].numel() / 40) {
      constexpr double kStep = 1e-6;
      const double kept = at[i];
      at[i] = kept + kStep;
      const double up = objective(layer, x, weights, asked).item<double>();
      at[i] = kept - kStep;
      const double down = objective(layer, x, weights, asked).item<double>();
      at[i] = kept;
      const double analytic = grads.has(leaves[l]) ? grads[leaves[l]].data<double>()[i] : 0;
      worst = std::max(worst, std::abs(analytic - (up - down) / (2 * kStep)));
    }
    // the log-density of two heads bends sharply where they agree
    CHECK(worst < (o.variant == "ref_gmm" ? 1e-5 : 1e-7));
  }
}

TEST_CASE("gradients of every variant match differences") {
  for (const AttentionOptions& o : all_variants()) {
    INFO(describe(o));
    check_gradients(o);
  }
}

TEST_CASE("gradients of the likelihood term match differences") {
  int checked = 0;
  for (const AttentionOptions& o : all_variants()) {
    if (!nn::attention_traits(o).likelihood) continue;
    INFO(describe(o));
    nn::PassRecord asked;
    asked.wants_likelihood = true;
    check_gradients(o, asked);
    ++checked;
  }
  CHECK(checked >= 8);
}

TEST_CASE("gradients of the sparsity terms match differences") {
  using nn::Sparsity;
  int checked = 0;
  for (const AttentionOptions& o : all_variants()) {
    const nn::AttentionTraits traits = nn::attention_traits(o);
    for (const auto& [kind, has] :
         {std::pair{Sparsity::entropy, traits.spread && o.variant != "sparsemax"},
          {Sparsity::gini, traits.spread},
          {Sparsity::hoyer, traits.priors},
          {Sparsity::l1_pi, traits.priors},
          {Sparsity::gate_l1, traits.gates}}) {
      if (!has) continue;
      INFO(describe(o) << " " << static_cast<int>(kind));
      nn::PassRecord asked;
      asked.wants_sparsity = kind;
      check_gradients(o, asked);
      ++checked;
    }
  }
  CHECK(checked >= 30);
}

TEST_CASE("gradients of gated layers and of terms on gates match differences") {
  using Gate = AttentionOptions::Gate;
  nn::PassRecord asked;
  asked.wants_sparsity = nn::Sparsity::gate_l1;
  asked.wants_budget = true;
  for (AttentionOptions o : all_variants()) {
    const nn::AttentionTraits traits = nn::attention_traits(o);
    INFO(describe(o));
    o.gate_keep = 0.6;  // 2 of 3 heads, 3 of 4 patches
    o.gate = Gate::head;
    if (traits.some_heads) check_gradients(o, asked, 3);
    o.gate_per_batch = false;
    if (traits.some_heads && o.variant == "softmax") check_gradients(o, asked, 3);
    o.gate = Gate::token;
    if (traits.some_queries) check_gradients(o);
  }
}

TEST_CASE("stop_grad_em lets no gradient through the weights") {
  AttentionOptions o;
  o.variant = "prob";
  Layer whole(o, kTokens, 1, kWidth);
  o.stop_grad_em = true;
  Layer stopped(o, kTokens, 1, kWidth);
  const Tensor x = random({1, kTokens, whole.options.width}, 5), weights = random(x.shape(), 6);
  Tensors grads;
  for (const Layer* layer : {&whole, &stopped}) {
    Tape tape;
    tape.watch(x);
    const Tensor loss = objective(*layer, x, weights);
    grads.push_back(tape.backward(loss)[x]);
  }
  CHECK(difference(grads[0], grads[1]) > 1e-3);
}

TEST_CASE("scores of 1e4 leave values and gradients finite") {
  for (const AttentionOptions& o : all_variants()) {
    INFO(describe(o));
    Layer layer(o, kTokens, kHeads, kWidth, keys_of(o));
    layer.randomize(2, 0.1, 0.9);
    const Tensor x = random({1, kTokens, layer.options.width}, 4, -130, 130);
    Tape tape;
    tape.watch(x);
    const Tensor out = (*layer.attention)(x, {});
    for (const float v : out.to_vector<float>()) CHECK(std::isfinite(v));
    const Gradients grads = tape.backward(sum_all(out));
    for (const float v : grads[x].to_vector<float>()) CHECK(std::isfinite(v));
  }
}

}  // namespace attention_gradient_test
