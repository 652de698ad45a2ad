#include "nn/attention/rbf.h"

namespace hg::nn {

Tensor RbfAttention::mix(const CoreInput& core, const Context& context) const {
  QuadraticOptions o = quadratic(context, core, core.x.dim(1));
  o.score = QuadraticOptions::Score::rbf;
  return attend(o, core.qkv, context, true);
}

}  // namespace hg::nn
