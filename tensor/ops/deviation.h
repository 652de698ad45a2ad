// How far each token is from the mean of its image's tokens: x [B, N, E] -> |x_i - mean_j x_j|^2
// [B, N]. It ranks tokens, so it has no gradient.
#pragma once

#include "tensor/run.h"

namespace hg {
namespace ops {

class Deviation final : public NonDifferentiable<Deviation> {
 public:
  static constexpr std::string_view kNotDifferentiable = "it only ranks tokens";
  HG_DECLARE_OP("deviation");
};

}  // namespace ops

// x [B, N, E] -> [B, N]
inline Tensor deviation(const Tensor& x) { return run_one(ops::Deviation(), {x}); }

}  // namespace hg
