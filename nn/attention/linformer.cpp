// linformer: keys and values compressed to P rows, O = softmax(Q (E_k K)^T / sqrt(D)) (E_v V), with
// proj_k and proj_v [P, T] shared by the heads.
#include <cmath>

#include "nn/attention/variant.h"
#include "tensor/ops/gather.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/permute.h"
#include "tensor/ops/view.h"

namespace hg::nn {
namespace {

class LinformerAttention final : public Attention {
 public:
  LinformerAttention(const Builder& self, const AttentionOptions& o) : Attention(self, o) {
    const Init init = Init::uniform(1 / std::sqrt(static_cast<double>(o.rows)));
    proj_k_ = self.make("proj_k", {o.rows, o.tokens}, init);
    proj_v_ = self.make("proj_v", {o.rows, o.tokens}, init);
  }
  static AttentionTraits traits(const AttentionOptions&) {
    return {.weights = true, .spread = true};
  }

 private:
  // [B, N, X] -> [B, P, X], as (X^T E^T)^T, since a product's right side serves the whole batch.
  Tensor compress(const Tensor& x, const Tensor& projection, const Tensor& ids) const {
    Tensor columns = transpose(projection);  // [T, P]
    if (ids.defined()) columns = gather_rows(contiguous(columns), ids);
    return permute(matmul(transpose(x), columns), {0, 2, 1});
  }

  Tensor mix(const CoreInput& core, const Context& context) const override {
    const Tensors parts = core.parts();
    QuadraticOptions o = quadratic(context, core, options_.rows);
    o.apart = true;
    const Tensors inputs{parts[0], compress(parts[1], proj_k_, core.ids),
                         compress(parts[2], proj_v_, core.ids)};
    return attend(o, inputs, context, false);
  }

  Tensor proj_k_, proj_v_;
};

}  // namespace

AttentionVariant linformer_attention() { return variant<LinformerAttention>(); }

}  // namespace hg::nn
