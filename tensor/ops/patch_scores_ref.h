#pragma once

#include <vector>

#include "tensor/ops/patch_scores.h"
#include "tensor/reference.h"

namespace hg::ref {

template <class T>
struct Patch {
  RefTensor<T>& images;  // [B,C,H,W]
  std::int64_t image, top, left, side;

  T at(std::int64_t c, std::int64_t y, std::int64_t x) const {
    const std::int64_t plane = image * images.dim(1) + c;
    return images[(plane * images.dim(2) + top + y) * images.dim(3) + left + x];
  }
  void each(std::int64_t c, auto f) const {
    for (std::int64_t y = 0; y < side; ++y)
      for (std::int64_t x = 0; x < side; ++x) f(at(c, y, x));
  }
};

template <class T>
T luminance(const Patch<T>& p, std::int64_t y, std::int64_t x) {
  if (p.images.dim(1) == 1) return p.at(0, y, x);
  const T sum = T(299) * p.at(0, y, x) + T(587) * p.at(1, y, x) + T(114) * p.at(2, y, x);
  return T(std::floor((static_cast<double>(sum) + 500) / 1000));
}

template <class T>
std::vector<T> histogram(const Patch<T>& p, std::int64_t bins) {
  std::vector<T> counts(static_cast<std::size_t>(bins), T(0));
  for (std::int64_t y = 0; y < p.side; ++y)
    for (std::int64_t x = 0; x < p.side; ++x) {
      const double value = static_cast<double>(luminance(p, y, x));
      counts[static_cast<std::size_t>(value * static_cast<double>(bins) / 256)] += T(1);
    }
  return counts;
}

template <class T>
T robust_contrast(const Patch<T>& p) {
  const double n = static_cast<double>(p.side * p.side);
  const double rank5 = std::ceil(n / 20), rank95 = std::ceil(n - n / 20);
  T seen(0);
  double p5 = -1, p95 = -1, value = 0;
  for (const T& c : histogram(p, 256)) {
    seen += c;
    if (p5 < 0 && static_cast<double>(seen) >= rank5) p5 = value;
    if (p95 < 0 && static_cast<double>(seen) >= rank95) p95 = value;
    ++value;
  }
  return T((p95 - p5) / (p95 + p5 + 16));
}

template <class T>
T entropy_bits(const Patch<T>& p, std::int64_t bins) {
  const double n = static_cast<double>(p.side * p.side);
  T sum(0);
  for (const T& c : histogram(p, bins)) {
    const double share = static_cast<double>(c) / n;
    sum += T(share > 0 ? -share * std::log2(share) : 0);
  }
  return sum;
}

template <class T>
T extremes_contrast(const Patch<T>& p, const PatchScoreOptions& o) {
  const bool ref = o.form == PatchScoreOptions::Form::ref;
  double most = -1e30, least = 1e30;
  for (std::int64_t c = 0; c < p.images.dim(1); ++c) {
    T high(-1), low(256);
    p.each(c, [&](T v) { high = max(high, v), low = min(low, v); });
    const auto channel = static_cast<std::size_t>(c);
    const double scale = ref ? o.scale[channel] : 1, bias = ref ? o.bias[channel] : 0;
    most = std::max(most, scale * static_cast<double>(high) + bias);
    least = std::min(least, scale * static_cast<double>(low) + bias);
  }
  if (!ref && most == 0) return T(0);
  return T((most - least + 1e-8) / (most + least));
}

template <class T>
T variance(const Patch<T>& p) {
  const double n = static_cast<double>(p.side * p.side);
  double total = 0;
  for (std::int64_t c = 0; c < p.images.dim(1); ++c) {
    T sum(0), squares(0);
    p.each(c, [&](T v) { sum += v, squares += v * v; });
    const double mean = static_cast<double>(sum) / n;
    total += (static_cast<double>(squares) - n * mean * mean) / (n - 1);
  }
  return T(total / static_cast<double>(p.images.dim(1)));
}

template <class T>
T mean_term(const Patch<T>& p) {
  T sum(0);
  for (std::int64_t c = 0; c < p.images.dim(1); ++c)
    p.each(c, [&](T v) {
      const double x = static_cast<double>(v) / 255;
      sum += T(x > 0 ? -x * std::log(x) : 0);
    });
  return T(static_cast<double>(sum) / static_cast<double>(p.images.dim(1) * p.side * p.side));
}

}  // namespace hg::ref

namespace hg::ops {

template <class T>
T score(const ref::Patch<T>& patch, const PatchScoreOptions& o) {
  using H = PatchScoreOptions::Heuristic;
  using F = PatchScoreOptions::Form;
  if (o.heuristic == H::variance) return ref::variance(patch);
  if (o.heuristic == H::contrast)
    return o.form == F::robust ? ref::robust_contrast(patch) : ref::extremes_contrast(patch, o);
  return o.form == F::ref ? ref::mean_term(patch) : ref::entropy_bits(patch, o.bins);
}

template <class T>
void reference(const PatchScores& op, RefIn<T> in, RefOut<T> out) {
  const std::int64_t p = op.options.patch, across = in[0].dim(3) / p;
  for (std::int64_t i = 0; i < out[0].numel(); ++i) {
    const std::int64_t image = i / out[0].dim(1), patch = i % out[0].dim(1);
    out[0][i] =
        score(ref::Patch<T>{in[0], image, patch / across * p, patch % across * p, p}, op.options);
  }
}

}  // namespace hg::ops
