#pragma once

#include "tensor/ops/contrastive_ref.h"
#include "tensor/ops/triplet.h"

namespace hg::ref {

inline double triplet_distance(double s) { return std::sqrt(std::max(2 - 2 * s, 1e-12)); }

}  // namespace hg::ref

namespace hg::ops {

template <class T, class At>
std::int64_t negative(const Triplet& op, std::int64_t i, const std::vector<std::int64_t>& negatives,
                      const T& positive, At at) {
  using Negatives = TripletOptions::Negatives;
  if (op.options.negatives == Negatives::random) {
    const std::uint64_t draw = op.first + static_cast<std::uint64_t>(i);
    const double u = draw_block(op.key, draw / 4)[draw % 4] * 0x1p-32;
    return negatives[static_cast<std::size_t>(u * static_cast<double>(negatives.size()))];
  }
  T most(-std::numeric_limits<double>::infinity()), below = most;
  std::int64_t nearest = -1, beyond = -1;
  for (const auto j : negatives) {
    if (at(j) > most) most = at(j), nearest = j;
    if (op.options.negatives == Negatives::hard) continue;
    const bool farther = at(j)<positive, nearer = at(j)> below;
    if (farther && nearer) below = at(j), beyond = j;
  }
  return beyond < 0 ? nearest : beyond;
}

template <class T>
void reference(const Triplet& op, RefIn<T> in, RefOut<T> out) {
  auto &s = in[0], &chosen = out[1];
  const ref::LabelledRows pairs(in[1]);
  const std::int64_t rows = chosen.dim(0);
  double total = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    chosen.integer(2 * i) = chosen.integer(2 * i + 1) = i;
    const auto &positives = pairs.positives[i], &negatives = pairs.negatives[i];
    if (positives.empty()) continue;
    const auto at = [&](std::int64_t j) { return s[i * rows + j]; };
    std::int64_t p = -1;
    T least(std::numeric_limits<double>::infinity());
    for (const auto j : positives)
      if (at(j) < least) least = at(j), p = j;
    const std::int64_t n = negative(op, i, negatives, least, at);
    chosen.integer(2 * i) = p, chosen.integer(2 * i + 1) = n;
    const double far = ref::triplet_distance(static_cast<double>(least));
    const double near = ref::triplet_distance(static_cast<double>(at(n)));
    total += std::max(0.0, op.options.margin + far - near);
  }
  out[0][0] = T(pairs.anchors == 0 ? 0 : total / static_cast<double>(pairs.anchors));
}

template <class T>
void reference(const TripletBackward& op, RefIn<T> in, RefOut<T> out) {
  auto &s = in[1], &chosen = in[2], &ds = out[0];
  const std::int64_t rows = ds.dim(0);
  for (std::int64_t i = 0; i < ds.numel(); ++i) ds[i] = T(0);
  const double dy = static_cast<double>(in[0][0]);
  struct Triple {
    std::int64_t i, p, n;
  };
  std::vector<Triple> triples;
  for (std::int64_t i = 0; i < rows; ++i) {
    const Triple triple{i, chosen.integer(2 * i), chosen.integer(2 * i + 1)};
    if (triple.p != i) triples.push_back(triple);
  }
  const double anchors = static_cast<double>(triples.size());
  const ref::PerRow once;
  for (const auto& [i, p, n] : triples) {
    const double sp = static_cast<double>(s[i * rows + p]);
    const double sn = static_cast<double>(s[i * rows + n]);
    const double far = ref::triplet_distance(sp), near = ref::triplet_distance(sn);
    if (op.margin + far - near <= 0) continue;
    if (far > 1e-6) ds[i * rows + p] -= T(dy / anchors / far);
    if (near > 1e-6) ds[i * rows + n] += T(dy / anchors / near);
  }
}

}  // namespace hg::ops
