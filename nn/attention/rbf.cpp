#include "nn/attention/rbf.h"

namespace hg::nn {

Tensor RbfAttention::mix(const Tensor& x, const Tensor& qkv, const Context& context,
                         const Tensor&) const {
  QuadraticOptions o = quadratic(context, x, x.dim(1));
  o.score = QuadraticOptions::Score::rbf;
  return attend(o, {&qkv, 1}, context, true);
}

}  // namespace hg::nn
