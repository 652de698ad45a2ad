#include "nn/attention/sparse.h"

namespace hg::nn {

Tensor SparseAttention::mix(const CoreInput& core, const Context& context) const {
  QuadraticOptions o = quadratic(context, core, core.x.dim(1));
  o.map = map_;
  return attend(o, core.qkv, context, false);
}

}  // namespace hg::nn
