#include "nn/attention/sparse.h"

namespace hg::nn {

Tensor SparseAttention::mix(const Tensor& x, const Tensor& qkv, const Context& context,
                            const Tensor&) const {
  QuadraticOptions o = quadratic(context, x, x.dim(1));
  o.map = map_;
  return attend(o, {&qkv, 1}, context, false);
}

}  // namespace hg::nn
