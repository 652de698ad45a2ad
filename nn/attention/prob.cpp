// prob: attention as the MAP value of a joint mixture over queries and values. T EM steps adapt the
// keys to the queries; then comes the Gaussian posterior (or, with the magnitude prior, softmax).
// With value propagation values, too, are drawn to those of the tokens that use them.
#include "nn/attention/positions.h"
#include "nn/attention/variant.h"
#include "tensor/ops/key_update.h"

namespace hg::nn {
namespace {

class ProbAttention final : public Attention {
 public:
  using Attention::Attention;
  static AttentionTraits traits(const AttentionOptions& o) {
    return {.quadratic = true,
            .weights = true,
            .likelihood = true,
            .spread = true,
            // updates of keys and values see all queries
            .some_queries = o.steps == 0 && !o.value_propagation};
  }

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override {
    KeyUpdateOptions step{.heads = core.heads.count(),
                          .theta = options_.theta,
                          .dot_scores = options_.magnitude_prior,
                          .stop_gradient = options_.stop_grad_em};
    Tensor keys;
    for (std::int64_t t = 0; t < options_.steps; ++t) keys = key_update(step, core.qkv[0], keys);
    QuadraticOptions o = quadratic(context, core);
    o.score =
        options_.magnitude_prior ? QuadraticOptions::Score::dot : QuadraticOptions::Score::rbf;
    Tensors inputs = core.qkv;
    if (options_.value_propagation) {
      step.theta = options_.theta_v;
      step.values = true;
      step.beta = options_.beta;
      const Tensor values = key_update(step, core.qkv[0], keys);
      inputs = split_qkv(core.qkv[0]);
      if (keys.defined()) inputs[1] = keys;
      inputs[2] = values;
      o.apart = true;
    } else if (keys.defined()) {
      inputs.push_back(keys);
      o.extra_keys = 1;
      o.replace_keys = true;
    }
    return attend(o, inputs, context, true);
  }
};

}  // namespace

AttentionVariant prob_attention() { return variant<ProbAttention>(); }

}  // namespace hg::nn
