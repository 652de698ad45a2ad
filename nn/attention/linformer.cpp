#include "nn/attention/linformer.h"

#include <cmath>

#include "nn/attention/positions.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/permute.h"

namespace hg::nn {

LinformerAttention::LinformerAttention(const Builder& parent, const AttentionOptions& o)
    : Attention(parent, o) {
  Builder self = parent.child("attn");
  const Init init = Init::uniform(1 / std::sqrt(static_cast<double>(o.rows)));
  proj_k_ = self.make("proj_k", {o.rows, o.tokens}, init);
  proj_v_ = self.make("proj_v", {o.rows, o.tokens}, init);
}

// [B, N, X] -> [B, P, X], as (X^T E^T)^T, since a product shares its right side over the batch.
Tensor LinformerAttention::compress(const Tensor& x, const Tensor& projection,
                                    const Tensor& ids) const {
  Tensor columns = transpose(projection);  // [T, P]
  if (ids.defined()) columns = gather_rows(contiguous(columns), ids);
  return permute(matmul(transpose(x), columns), {0, 2, 1});
}

Tensor LinformerAttention::mix(const CoreInput& core, const Context& context) const {
  const Tensors parts = core.parts();
  QuadraticOptions o = quadratic(context, core, options_.rows);
  o.apart = true;
  const Tensors inputs{parts[0], compress(parts[1], proj_k_, core.ids),
                       compress(parts[2], proj_v_, core.ids)};
  return attend(o, inputs, context, false);
}

}  // namespace hg::nn
