// How much there is to see in each patch of 8-bit images, before normalisation: the patches with
// the highest scores are worth keeping (nn/METHODS.md, section 4). Luminance is (299 R + 587 G +
// 114 B) / 1000, rounded half up; of gray images, the value itself.
#pragma once

#include <array>

#include "tensor/run.h"

namespace hg {

struct PatchScoreOptions {
  // contrast: robust (P95 - P5) / (P95 + P5 + 16) of luminance, by nearest-rank percentiles;
  //   paper (max - min + 1e-8) / (max + min) of all values, 0 / 0 = 0; ref the same on normalised
  //   values, where the denominator may be 0 or negative.
  // variance: sum (x - mean)^2 / (p^2 - 1) of a channel, mean over channels, in every form.
  // entropy: -sum p_b log2 p_b of `bins` of luminance; ref mean(-x ln x) of x = value / 255.
  // random: none; whoever chooses patches takes any, and the op refuses it.
  enum class Heuristic { contrast, variance, entropy, random };
  enum class Form { robust, paper, ref };

  Heuristic heuristic = Heuristic::contrast;
  Form form = Form::robust;
  std::int64_t patch = 0;   // side
  std::int64_t bins = 256;  // of entropy: 256 or 32
  // Of ref contrast: a value v of channel c is normalised as scale[c] v + bias[c], scale > 0.
  std::array<float, 3> scale{1, 1, 1}, bias{};
};

namespace ops {

// u8 [B,C,H,W], C 1 or 3 -> f32 [B, (H/p)(W/p)]
class PatchScores final : public NonDifferentiable<PatchScores> {
 public:
  static constexpr std::string_view kNotDifferentiable = "pixels are integers";
  explicit PatchScores(const PatchScoreOptions& options) : options(options) {}
  HG_DECLARE_OP("patch_scores");

  const PatchScoreOptions options;
};

}  // namespace ops

// pixels u8 [B, C, H, W] -> a score for each patch [B, n]
inline Tensor patch_scores(const Tensor& pixels, const PatchScoreOptions& options) {
  return run_one(ops::PatchScores(options), {pixels});
}

}  // namespace hg
