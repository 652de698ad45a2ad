#include "train/statistics/effect.h"

#include <cmath>

#include "tensor/base/error.h"

namespace hg::statistics {

double hedges_g(Sample a, Sample b) {
  require_sample(a, 2, "hedges g");
  require_sample(b, 2, "hedges g");
  const auto n1 = static_cast<double>(a.size()), n2 = static_cast<double>(b.size());
  const double df = n1 + n2 - 2;
  const double pooled = ((n1 - 1) * variance(a) + (n2 - 1) * variance(b)) / df;
  require(pooled > 0, "hedges g", "both are constant samples, {} and {}", a.front(), b.front());
  return (mean(a) - mean(b)) / std::sqrt(pooled) * (1 - 3 / (4 * df - 1));
}

double a12(Sample a, Sample b) {
  require_sample(a, 1, "a12");
  require_sample(b, 1, "a12");
  double wins = 0;
  for (const double x : a)
    for (const double y : b) wins += x > y ? 1 : x == y ? 0.5 : 0;
  return wins / static_cast<double>(a.size() * b.size());
}

double cliff_delta(Sample a, Sample b) { return 2 * a12(a, b) - 1; }

std::string_view cliff_label(double delta) {
  require(std::abs(delta) <= 1, "cliff", "delta {} is outside [-1,1]", delta);
  const double size = std::abs(delta);
  return size < .147 ? "negligible" : size < .33 ? "small" : size < .474 ? "medium" : "large";
}

}  // namespace hg::statistics
