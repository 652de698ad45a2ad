// ref_gmm, for replication of the reference only: softmax attention whose output rows are
// multiplied by the log-density of the row among the heads' rows. The reference multiplies the rows
// of A and forms A V again, which is the same.
#include <cmath>
#include <limits>
#include <numbers>

#include "nn/attention/positions.h"
#include "nn/attention/variant.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/broadcast.h"
#include "tensor/ops/permute.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/scale_axes.h"
#include "tensor/ops/unary.h"

namespace hg::nn {
namespace {

constexpr double kLeastVariance = 1e-12;

// log N(p_h | mean, variance over the heads): [H, B, N, D] -> [H, B, N]
Tensor log_density(const Tensor& p) {
  const auto heads = static_cast<double>(p.dim(0)), width = static_cast<double>(p.dim(3));
  const Tensor centred = add_leading(p, scale(mean(p, 0), -1)), squares = square(centred);
  const Tensor variance = clamp(scale(sum(squares, 0), 1 / (heads - 1)), kLeastVariance,
                                std::numeric_limits<float>::max());
  const Tensor ones = Tensor::full(variance.shape(), 1, variance.dtype(), variance.device());
  const Tensor terms = add_leading(mul_leading(squares, div(ones, variance)), log(variance));
  const double constant = -0.5 * width * std::log(2 * std::numbers::pi);
  return add_leading(scale(sum(terms, 3), -0.5),
                     Tensor::full({p.dim(2)}, constant, p.dtype(), p.device()));
}

class RefGmmAttention final : public Attention {
 public:
  RefGmmAttention(const Builder& self, const AttentionOptions& o) : Attention(self, o) {
    require(o.heads >= traits(o).least_heads, "ref_gmm", "a variance over {} heads", o.heads);
  }
  static AttentionTraits traits(const AttentionOptions&) {
    return {.quadratic = true,
            .weights = true,
            .spread = true,
            .least_heads = 2,
            .ill_conditioned = true};
  }

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override {
    const Tensor mixed = attend(quadratic(context, core), core.qkv, context, false);
    const Tensor p = permute(with_heads(mixed, core.heads.count()), {2, 0, 1, 3});  // [H, B, N, D]
    return without_heads(permute(scale_axes(p, log_density(p), 0), {1, 2, 0, 3}));
  }
};

}  // namespace

AttentionVariant ref_gmm_attention() { return variant<RefGmmAttention>(); }

}  // namespace hg::nn
