#include "train/statistics/hypothesis.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "tensor/base/error.h"

namespace hg::statistics {
namespace {

constexpr std::size_t kExactMannWhitney = 20, kExactWilcoxon = 25;

bool use_exact(RankMethod method, bool ties, std::size_t n, std::size_t most, const char* who) {
  if (method == RankMethod::automatic) return !ties && n <= most;
  if (method == RankMethod::asymptotic) return false;
  require(!ties, who, "an exact p needs values without ties");
  require(n <= most, who, "an exact p is for up to {} values, got {}", most, n);
  return true;
}

// Two-sided p of a statistic that is symmetric about its mean, with continuity correction.
double normal_p(double statistic, double centre, double variance) {
  if (variance <= 0) return 1;
  const double z = (std::abs(statistic - centre) - 0.5) / std::sqrt(variance);
  return std::min(1.0, std::erfc(z / std::numbers::sqrt2));
}

// counts[s]: arrangements with statistic s, symmetric in s.
double exact_p(const std::vector<double>& counts, double statistic) {
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  const auto smaller = static_cast<std::size_t>(
      std::min(statistic, static_cast<double>(counts.size() - 1) - statistic));
  const double tail = std::accumulate(counts.begin(), counts.begin() + smaller + 1, 0.0);
  return std::min(1.0, 2 * tail / total);
}

// c(u; n1, n2) for all u, by c(u; a, b) = c(u - b; a - 1, b) + c(u; a, b - 1).
std::vector<double> mann_whitney_counts(std::size_t n1, std::size_t n2) {
  const std::size_t size = n1 * n2 + 1;
  std::vector<std::vector<double>> c(n1 + 1, std::vector<double>(size));
  for (std::vector<double>& of_a : c) of_a[0] = 1;  // b = 0
  for (std::size_t b = 1; b <= n2; ++b)
    for (std::size_t a = 1; a <= n1; ++a)
      for (std::size_t u = b; u < size; ++u) c[a][u] += c[a - 1][u - b];
  return c[n1];
}

// Subsets of the ranks 1..n by their sum.
std::vector<double> wilcoxon_counts(std::size_t n) {
  std::vector<double> c(n * (n + 1) / 2 + 1);
  c[0] = 1;
  for (std::size_t rank = 1; rank <= n; ++rank)
    for (std::size_t sum = c.size() - 1; sum >= rank; --sum) c[sum] += c[sum - rank];
  return c;
}

void require_pairs(Sample a, Sample b, std::size_t at_least, const char* who) {
  require_sample(a, at_least, who);
  require_sample(b, at_least, who);
  require(a.size() == b.size(), who, "{} values against {}, expected pairs", a.size(), b.size());
}

// Of pairs' differences: t = (mean - centre) / error.
struct MeanDifference {
  double mean, error;
  boost::math::students_t distribution;

  double half_width(double confidence) const {
    return quantile(complement(distribution, (1 - confidence) / 2)) * error;
  }
};

MeanDifference mean_difference(Sample a, Sample b, const char* who) {
  require_pairs(a, b, 2, who);
  const std::vector<double> d = differences(a, b);
  require(!constant(d), who, "all {} differences are {}", d.size(), d.front());
  const auto n = static_cast<double>(d.size());
  return {mean(d), standard_deviation(d) / std::sqrt(n), boost::math::students_t(n - 1)};
}

double binomial(std::size_t n, std::size_t k) {
  double product = 1;
  for (std::size_t i = 1; i <= k; ++i)
    product *= static_cast<double>(n - k + i) / static_cast<double>(i);
  return product;
}

}  // namespace

Welch welch(Sample a, Sample b, double confidence) {
  require_sample(a, 2, "welch");
  require_sample(b, 2, "welch");
  require(confidence > 0 && confidence < 1, "welch", "confidence {} is outside (0,1)", confidence);
  const auto n1 = static_cast<double>(a.size()), n2 = static_cast<double>(b.size());
  const double v1 = variance(a) / n1, v2 = variance(b) / n2;
  require(v1 + v2 > 0, "welch", "both are constant samples, {} and {}", a.front(), b.front());
  Welch result;
  result.difference = mean(a) - mean(b);
  const double error = std::sqrt(v1 + v2);
  result.t = result.difference / error;
  const double share = v1 / (v1 + v2);
  result.df = 1 / (share * share / (n1 - 1) + (1 - share) * (1 - share) / (n2 - 1));
  const boost::math::students_t distribution(result.df);
  result.p = 2 * cdf(complement(distribution, std::abs(result.t)));
  const double half = quantile(complement(distribution, (1 - confidence) / 2)) * error;
  result.interval = {result.difference - half, result.difference + half};
  return result;
}

std::vector<double> differences(Sample a, Sample b) {
  require_pairs(a, b, 1, "differences");
  std::vector<double> d;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    d.push_back(a[i] - b[i]);
    largest = std::max({largest, std::abs(a[i]), std::abs(b[i])});
  }
  // Each value may be off by half an epsilon, so two differences by two; and they are rounded.
  const double rounding = 4 * largest * std::numeric_limits<double>::epsilon();
  if (std::all_of(d.begin(), d.end(),
                  [&](double v) { return std::abs(v - d.front()) <= rounding; }))
    std::fill(d.begin(), d.end(), d.front());
  return d;
}

PairedT paired_t(Sample a, Sample b, double confidence) {
  require(confidence > 0 && confidence < 1, "paired t", "confidence {} is outside (0,1)",
          confidence);
  const MeanDifference d = mean_difference(a, b, "paired t");
  PairedT result;
  result.difference = d.mean;
  result.t = d.mean / d.error;
  result.df = d.distribution.degrees_of_freedom();
  result.p = 2 * cdf(complement(d.distribution, std::abs(result.t)));
  const double half = d.half_width(confidence);
  result.interval = {d.mean - half, d.mean + half};
  return result;
}

// The further of the two ends is the harder one to stay away from: p = P(T > (margin - |mean|) /
// error).
Equivalence tost(Sample a, Sample b, double margin, double alpha) {
  require(std::isfinite(margin) && margin > 0, "tost", "margin {}, expected above 0", margin);
  require(alpha > 0 && alpha < 0.5, "tost", "alpha {} is outside (0,0.5)", alpha);
  const MeanDifference d = mean_difference(a, b, "tost");
  const double half = d.half_width(1 - 2 * alpha);
  return {margin,
          cdf(complement(d.distribution, (margin - std::abs(d.mean)) / d.error)),
          {d.mean - half, d.mean + half}};
}

RankTest mann_whitney(Sample a, Sample b, RankMethod method) {
  require_sample(a, 1, "mann-whitney");
  require_sample(b, 1, "mann-whitney");
  std::vector<double> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  const Ranks ranks = mid_ranks(all);
  const auto n1 = static_cast<double>(a.size()), n2 = static_cast<double>(b.size()), n = n1 + n2;
  const double r1 = std::accumulate(ranks.of.begin(), ranks.of.begin() + a.size(), 0.0);
  RankTest result;
  result.statistic = r1 - n1 * (n1 + 1) / 2;
  result.smallest_p = std::min(1.0, 2 / binomial(all.size(), a.size()));
  result.exact = use_exact(method, ranks.tie_term > 0, std::max(a.size(), b.size()),
                           kExactMannWhitney, "mann-whitney");
  result.p = result.exact
                 ? exact_p(mann_whitney_counts(a.size(), b.size()), result.statistic)
                 : std::max(result.smallest_p,
                            normal_p(result.statistic, n1 * n2 / 2,
                                     n1 * n2 / 12 * ((n + 1) - ranks.tie_term / (n * (n - 1)))));
  return result;
}

RankTest wilcoxon(Sample a, Sample b, RankMethod method) {
  require_pairs(a, b, 1, "wilcoxon");
  std::vector<double> signed_sizes, sizes;
  for (const double d : differences(a, b)) {
    if (d == 0) continue;
    signed_sizes.push_back(d);
    sizes.push_back(std::abs(d));
  }
  RankTest result;
  if (sizes.empty()) return result;  // no pair differs: nothing to tell
  const Ranks ranks = mid_ranks(sizes);
  const auto n = static_cast<double>(sizes.size());
  double positive = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (signed_sizes[i] > 0) positive += ranks.of[i];
  result.statistic = std::min(positive, n * (n + 1) / 2 - positive);
  result.smallest_p = std::exp2(1 - n);
  result.exact = use_exact(method, ranks.tie_term > 0, sizes.size(), kExactWilcoxon, "wilcoxon");
  result.p = result.exact
                 ? exact_p(wilcoxon_counts(sizes.size()), result.statistic)
                 : std::max(result.smallest_p,
                            normal_p(result.statistic, n * (n + 1) / 4,
                                     n * (n + 1) * (2 * n + 1) / 24 - ranks.tie_term / 48));
  return result;
}

std::vector<double> holm(std::span<const double> p) {
  for (const double value : p)
    require(value >= 0 && value <= 1, "holm", "p-value {} is outside [0,1]", value);
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) { return p[i] < p[j]; });
  std::vector<double> adjusted(p.size());
  double largest = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    largest = std::max(largest, static_cast<double>(p.size() - i) * p[order[i]]);
    adjusted[order[i]] = std::min(1.0, largest);
  }
  return adjusted;
}

}  // namespace hg::statistics
