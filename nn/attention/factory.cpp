// The variants by name.
#include <functional>
#include <map>

#include "nn/attention/cosformer.h"
#include "nn/attention/efficient.h"
#include "nn/attention/favor.h"
#include "nn/attention/kerformer.h"
#include "nn/attention/linear_elu.h"
#include "nn/attention/linformer.h"
#include "nn/attention/mgk.h"
#include "nn/attention/mlk.h"
#include "nn/attention/prior.h"
#include "nn/attention/prob.h"
#include "nn/attention/pruned.h"
#include "nn/attention/rbf.h"
#include "nn/attention/ref_gmm.h"
#include "nn/attention/softmax.h"
#include "nn/attention/sparse.h"
#include "nn/attention/xca.h"

namespace hg::nn {
namespace {

using Made = std::unique_ptr<Attention>;
using Maker = std::function<Made(const Builder&, const AttentionOptions&)>;

// The variant's constructor, with what it takes beside the options.
template <class Variant, class... More>
Maker maker(More... more) {
  return [=](const Builder& parent, const AttentionOptions& o) -> Made {
    return std::make_unique<Variant>(parent, o, more...);
  };
}

struct Variant {
  Maker make;
  AttentionTraits traits;
};

const std::map<std::string, Variant>& variants() {
  using Map = QuadraticOptions::Map;
  constexpr AttentionTraits kLinear{},
      kQuadratic{.quadratic = true, .weights = true, .spread = true},
      kGaussian{.quadratic = true, .weights = true, .likelihood = true, .spread = true},
      kPrior{.quadratic = true, .weights = true, .spread = true, .priors = true},
      kPruned{.quadratic = true, .weights = true, .some_heads = false, .some_queries = false},
      kReference{.quadratic = true, .weights = true, .spread = true, .ill_conditioned = true},
      kCompressed{.weights = true, .spread = true},
      kChannels{.weights = true, .some_queries = false};
  static const std::map<std::string, Variant> all{
      {"softmax", {maker<SoftmaxAttention>(), kQuadratic}},
      {"rbf", {maker<RbfAttention>(), kGaussian}},
      {"mgk", {maker<MgkAttention>(), kGaussian}},
      {"mlk", {maker<MlkAttention>(), kLinear}},
      {"gmm", {maker<PriorAttention>(PriorAttention::Of::key), kPrior}},
      {"fiak", {maker<PriorAttention>(PriorAttention::Of::pair), kPrior}},
      {"fiak_pruned", {maker<PrunedAttention>(), kPruned}},
      {"prob", {maker<ProbAttention>(), kGaussian}},
      {"linear_elu", {maker<LinearEluAttention>(), kLinear}},
      {"efficient", {maker<EfficientAttention>(), kLinear}},
      {"kerformer", {maker<KerformerAttention>(), kLinear}},
      {"favor", {maker<FavorAttention>(), kLinear}},
      {"cosformer", {maker<CosformerAttention>(), kLinear}},
      {"linformer", {maker<LinformerAttention>(), kCompressed}},
      {"xca", {maker<XcaAttention>(), kChannels}},
      {"sparsemax", {maker<SparseAttention>(Map::sparsemax), kQuadratic}},
      {"entmax15", {maker<SparseAttention>(Map::entmax15), kQuadratic}},
      {"ref_gmm", {maker<RefGmmAttention>(), kReference}},
  };
  return all;
}

const Variant& variant_of(const AttentionOptions& o) {
  const auto found = variants().find(o.variant);
  require(found != variants().end(), "attention", "no variant is called \"{}\"", o.variant);
  return found->second;
}

}  // namespace

Made make_attention(const Builder& parent, const AttentionOptions& options) {
  return variant_of(options).make(parent, options);
}

AttentionTraits attention_traits(const AttentionOptions& options) {
  AttentionTraits traits = variant_of(options).traits;
  if (traits.priors) traits.likelihood = options.rbf_score;
  if (options.variant == "kerformer") traits.gates = options.se;
  // its updates of keys and values see all queries
  if (options.variant == "prob")
    traits.some_queries = options.steps == 0 && !options.value_propagation;
  // its priors are learnt from the shares of all heads
  if (options.variant == "mgk") traits.some_heads = options.mode != AttentionOptions::Mode::soft_e;
  return traits;
}

}  // namespace hg::nn
