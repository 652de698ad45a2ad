#include "data/patch_select.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "tensor/base/error.h"
#include "tensor/cpu/parallel.h"
#include "tensor/observer.h"
#include "tensor/run.h"

namespace hg {
namespace {

constexpr double kFloor = 1e-3;  // weight of the mean score, so that every patch can be drawn

// In the open interval (0, 1), so that ln(u) and ln(-ln(u)) are finite.
double open_uniform(std::uint32_t bits) { return (bits + 0.5) * 0x1p-32; }

bool all_finite(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

}  // namespace

void check_selection(const PatchSelection& s, std::int64_t height, std::int64_t width) {
  const std::int64_t p = s.score.patch;
  require(p > 0 && height % p == 0 && width % p == 0, "select",
          "patches of {} don't tile images of {} x {}", p, height, width);
  const std::int64_t n = (height / p) * (width / p);
  require(s.scored() || s.probabilistic, "select", "random patches have no best ones to take");
  for (const std::int64_t k : {s.keep, s.keep_end.value_or(s.keep)})
    require(k >= 1 && k <= n, "select", "expected to keep 1 to {} patches, got {}", n, k);
}

std::int64_t PatchSelection::kept_in(std::int64_t epoch) const {
  if (!keep_end || epochs < 2) return keep;
  const double way =
      static_cast<double>(std::min(epoch, epochs - 1)) / static_cast<double>(epochs - 1);
  const double exact = static_cast<double>(keep) + way * static_cast<double>(*keep_end - keep);
  return static_cast<std::int64_t>(std::floor(exact + 0.5));
}

double filter_probability(const PatchSelection& s, std::int64_t epoch) {
  const auto e = static_cast<double>(epoch);
  if (s.decay_rate == 0) return s.prob;
  if (s.decay == PatchSelection::Decay::inverse) return s.prob / (1 + s.decay_rate * e);
  if (s.decay == PatchSelection::Decay::exp) return s.prob * std::exp(-s.decay_rate * e);
  double prob = s.prob;
  for (std::int64_t i = 1; i <= epoch && prob > 0; ++i)
    prob /= 1 + s.decay_rate * static_cast<double>(i);
  return prob;
}

bool filters_batch(const PatchSelection& s, std::uint64_t seed, std::int64_t epoch,
                   std::int64_t batch) {
  const RandomStream stream(seed, fmt::format("select.batches.{}", epoch));
  return open_uniform(stream.draw(static_cast<std::uint64_t>(batch))) <
         filter_probability(s, epoch);
}

void blank_other_patches(std::span<const std::int64_t> keep, std::int64_t channels,
                         std::int64_t height, std::int64_t width, std::int64_t patch,
                         float* image) {
  const std::int64_t across = width / patch, n = height / patch * across;
  auto next = keep.begin();
  for (std::int64_t i = 0; i < n; ++i) {
    if (next != keep.end() && *next == i) {
      ++next;
      continue;
    }
    float* const corner = image + i / across * patch * width + i % across * patch;
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t y = 0; y < patch; ++y)
        std::fill_n(corner + (c * height + y) * width, patch, 0.0f);
  }
}

std::uint64_t selection_key(std::uint64_t seed, std::int64_t epoch) {
  return RandomStream(seed, fmt::format("select.patches.{}", epoch)).key();
}

bool weights_from_scores(std::span<double> s, PatchScoreOptions::Form form) {
  if (all_finite(s)) {
    double sum = 0, low = s[0], high = s[0];
    for (const double v : s) sum += v, low = std::min(low, v), high = std::max(high, v);
    const double floor =
        form == PatchScoreOptions::Form::robust ? kFloor * sum / static_cast<double>(s.size()) : 0;
    for (double& v : s)
      v = form == PatchScoreOptions::Form::ref ? (v - low) / (high - low)
                                               : std::max(v, 0.0) + floor;
    if (all_finite(s) && std::any_of(s.begin(), s.end(), [](double v) { return v > 0; }))
      return true;
  }
  std::fill(s.begin(), s.end(), 1.0);
  return false;
}

// The k largest Gumbel keys ln w - ln(-ln u) are the k smallest waiting times -ln(u) / w.
void PatchChooser::draw(std::span<const double> weights, std::uint64_t key, std::uint64_t image,
                        std::span<std::int64_t> keep) {
  const std::uint64_t blocks = (weights.size() + 3) / 4;
  entries_.clear();
  PhiloxBlock bits{};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (i % 4 == 0) bits = draw_block(key, image * blocks + i / 4);
    const double wait = -std::log(open_uniform(bits[i % 4]));
    const bool never = !(weights[i] > 0);
    entries_.push_back({never, never ? wait : wait / weights[i], static_cast<std::int64_t>(i)});
  }
  keep_first(keep);
}

void PatchChooser::take_largest(std::span<const double> scores, std::span<std::int64_t> keep) {
  entries_.clear();
  for (std::size_t i = 0; i < scores.size(); ++i)
    entries_.push_back({false, -scores[i], static_cast<std::int64_t>(i)});
  keep_first(keep);
}

void PatchChooser::keep_first(std::span<std::int64_t> keep) {
  require(keep.size() <= entries_.size(), "select", "{} of {} patches", keep.size(),
          entries_.size());
  std::nth_element(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(keep.size()),
                   entries_.end(), [](const Entry& a, const Entry& b) {
                     return std::tie(a.last, a.rank, a.index) < std::tie(b.last, b.rank, b.index);
                   });
  for (std::size_t i = 0; i < keep.size(); ++i) keep[i] = entries_[i].index;
  std::sort(keep.begin(), keep.end());
}

PatchSelector::PatchSelector(const PatchSelection& selection, const Normalizer& normalizer)
    : selection_(selection), normalize_(normalizer) {
  for (std::size_t c = 0; c < std::min<std::size_t>(3, normalizer.channels()); ++c) {
    selection_.score.scale[c] = normalizer.scale(c);
    selection_.score.bias[c] = normalizer.bias(c);
  }
}

void PatchSelector::score(const Tensor& pixels) {
  const PhaseScope phase(Phase::data);
  const Scope scope("patch_select");
  const cpu::ThreadLimit own_thread(1);  // the others are training
  const ops::PatchScores op(selection_.score);
  if (on_op_) on_op_(true);
  const Tensor scores = run_one(op, {pixels});
  if (on_op_) on_op_(false);
  tally_.flops += op.cost({&pixels, 1}, {&scores, 1}).total().flops();
  scores_.assign(scores.data<float>(), scores.data<float>() + scores.numel());
}

void PatchSelector::choose(const Tensor& pixels, std::uint64_t key, std::int64_t image,
                           std::span<std::int64_t> keep) {
  if (!selection_.scored()) {
    const std::int64_t patch = selection_.score.patch;
    scores_.assign(static_cast<std::size_t>(pixels.dim(2) / patch * (pixels.dim(3) / patch)), 1.0);
    return chooser_.draw(scores_, key, static_cast<std::uint64_t>(image), keep);
  }
  score(pixels);
  if (!selection_.probabilistic && all_finite(scores_)) return chooser_.take_largest(scores_, keep);
  tally_.unscored += !weights_from_scores(scores_, selection_.score.form);
  if (selection_.probabilistic)
    chooser_.draw(scores_, key, static_cast<std::uint64_t>(image), keep);
  else
    chooser_.take_largest(scores_, keep);
}

void PatchSelector::operator()(const Tensor& pixels, std::uint64_t key, std::int64_t image,
                               std::span<std::int64_t> keep, float* out) {
  choose(pixels, key, image, keep);
  const Shape& shape = pixels.shape();
  const std::int64_t patch = selection_.score.patch;
  const std::uint8_t* from = pixels.data<std::uint8_t>();
  if (selection_.mode == PatchSelection::Mode::drop)
    return normalize_.patches(from, shape[2], shape[3], patch, keep, out);
  normalize_(from, static_cast<std::size_t>(shape[2] * shape[3]), out);
  blank_other_patches(keep, shape[1], shape[2], shape[3], patch, out);
}

ModelInput to_input(const Image& image, int size, int channels, const Normalization& normalization,
                    const std::optional<PatchSelection>& selection) {
  Fit fit(size, channels);
  const Image& fitted = fit(image);
  const Normalizer normalize(normalization.for_channels(channels));
  ModelInput input{Tensor::empty({1, channels, size, size}), {}};
  if (!selection) {
    normalize(fitted.pixels.data(), fitted.plane(), input.images.data<float>());
    return input;
  }
  const std::int64_t k = selection->keep, patch = selection->score.patch;
  const Tensor pixels = Tensor::of<std::uint8_t>({1, channels, size, size},
                                                 std::span<const std::uint8_t>(fitted.pixels));
  const Tensor keep = Tensor::empty({1, k}, DType::i64);
  if (selection->mode == PatchSelection::Mode::drop) {
    input.images = Tensor::empty({1, k, channels * patch * patch});
    input.keep = keep;
  }
  PatchSelector(*selection, normalize)(pixels, 0, 0,
                                       {keep.data<std::int64_t>(), static_cast<std::size_t>(k)},
                                       input.images.data<float>());
  return input;
}

}  // namespace hg
