// Which patches of an image are kept (nn/METHODS.md, section 4): each has a score, weights follow
// from the scores, and k of n are drawn by weight or taken by score. Every draw depends on seed,
// epoch and image (or batch) alone and has its own stream, so that the order of the data is the
// same with and without selection.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "data/transforms.h"
#include "tensor/ops/patch_scores.h"
#include "tensor/random.h"

namespace hg {

struct PatchSelection {
  enum class Mode { drop, zero };  // other patches are left out, or set to 0 after normalisation
  enum class Decay { inverse, exp, ref_compound };

  PatchScoreOptions score;  // scale and bias follow from the loader's normalisation
  // k of the first epoch, and of all unless keep_end is that of the last of so many.
  std::int64_t keep = 0;
  std::optional<std::int64_t> keep_end{};
  std::int64_t epochs = 1;
  bool probabilistic = true;
  Mode mode = Mode::drop;
  double prob = 1;  // of a batch to be filtered, at epoch 0
  Decay decay = Decay::inverse;
  double decay_rate = 0;

  // k of an epoch: keep + (keep_end - keep) e / (epochs - 1), rounded half up.
  std::int64_t kept_in(std::int64_t epoch) const;
  // Else all patches weigh the same, and no score is computed.
  bool scored() const { return score.heuristic != PatchScoreOptions::Heuristic::random; }
};

// Throws unless 1 <= k <= n patches of an image in every epoch.
void check_selection(const PatchSelection& selection, std::int64_t height, std::int64_t width);

// The probability that a batch of epoch e is filtered. inverse: prob / (1 + r e); exp:
// prob e^(-r e); ref_compound: that of epoch e - 1, divided by 1 + r e.
double filter_probability(const PatchSelection& selection, std::int64_t epoch);

// Whether that batch of that epoch is filtered.
bool filters_batch(const PatchSelection& selection, std::uint64_t seed, std::int64_t epoch,
                   std::int64_t batch);

// Turns scores into weights, in place. robust: max(s, 0) + 1e-3 mean(s); paper: max(s, 0); ref:
// scaled to [0, 1] by minimum and maximum. Returns false, with all weights 1, if scores are not
// finite or no weight is positive.
bool weights_from_scores(std::span<double> scores, PatchScoreOptions::Form form);

// Picks k of n. Its buffers are reused; one thread at a time.
class PatchChooser {
 public:
  // Draws without replacement in proportion to weights >= 0; those of weight 0 come last. Draws
  // number `image` of the stream of `key`. keep: the indices, increasing.
  void draw(std::span<const double> weights, std::uint64_t key, std::uint64_t image,
            std::span<std::int64_t> keep);
  // The k largest; of equal ones the lower index.
  void take_largest(std::span<const double> scores, std::span<std::int64_t> keep);

 private:
  struct Entry {
    bool last;  // comes after all others
    double rank;
    std::int64_t index;
  };
  void keep_first(std::span<std::int64_t> keep);

  CachedVector<Entry> entries_;
};

// Sets every patch of an image [C,height,width] to 0 that is not in `keep` (increasing).
void blank_other_patches(std::span<const std::int64_t> keep, std::int64_t channels,
                         std::int64_t height, std::int64_t width, std::int64_t patch, float* image);

// The stream that draws patches in that epoch.
std::uint64_t selection_key(std::uint64_t seed, std::int64_t epoch);

// From 8-bit images to normalised input with the chosen patches only.
class PatchSelector {
 public:
  PatchSelector(const PatchSelection& selection, const Normalizer& normalizer);

  // pixels u8 [1,C,H,W]. Fills keep [k] and writes, normalised, the kept patches [k, C p p] (drop)
  // or the image with 0 in all others (zero). Draws number `image` of the stream of `key`.
  void operator()(const Tensor& pixels, std::uint64_t key, std::int64_t image,
                  std::span<std::int64_t> keep, float* out);

  const PatchSelection& selection() const { return selection_; }
  // Called before (true) and after (false) the op that scores: observers of ops see its time.
  void on_op(std::function<void(bool begins)> told) { on_op_ = std::move(told); }
  // Since the last call: images without a usable score, whose patches were drawn uniformly (or,
  // without drawing, are the first k), and FLOPs of scoring.
  struct Tally {
    std::int64_t unscored = 0;
    std::uint64_t flops = 0;
  };
  Tally take_tally() { return std::exchange(tally_, {}); }

 private:
  void choose(const Tensor& pixels, std::uint64_t key, std::int64_t image,
              std::span<std::int64_t> keep);
  void score(const Tensor& pixels);  // into scores_

  PatchSelection selection_;
  Normalizer normalize_;
  PatchChooser chooser_;
  CachedVector<double> scores_;
  Tally tally_;
  std::function<void(bool begins)> on_op_;
};

// One image as a model's input, as in evaluation: images [1,C,size,size], or with a selection that
// drops, the kept patches [1, k, C p p] and their indices keep [1,k].
struct ModelInput {
  Tensor images, keep;
};
ModelInput to_input(const Image& image, int size, int channels, const Normalization& normalization,
                    const std::optional<PatchSelection>& selection = {});

}  // namespace hg
