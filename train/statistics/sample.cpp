#include "train/statistics/sample.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>

#include "tensor/base/error.h"

namespace hg::statistics {

void require_sample(Sample x, std::size_t at_least, std::string_view who) {
  for (std::size_t i = 0; i < x.size(); ++i)
    require(std::isfinite(x[i]), who, "value {} of {} is {}, expected finite numbers", i + 1,
            x.size(), x[i]);
  require(x.size() >= at_least, who, "{} values, expected at least {}", x.size(), at_least);
}

bool constant(Sample x) {
  return std::all_of(x.begin(), x.end(), [&](double v) { return v == x.front(); });
}

double mean(Sample x) {
  require_sample(x, 1, "mean");
  // Around the first value: a constant sample's mean is that value to the last bit.
  double sum = 0;
  for (const double v : x) sum += v - x.front();
  return x.front() + sum / static_cast<double>(x.size());
}

double variance(Sample x) {
  require_sample(x, 2, "variance");
  const double centre = mean(x);
  double sum = 0;
  for (const double v : x) sum += (v - centre) * (v - centre);
  require(std::isfinite(sum), "variance", "the values are too far apart: it is no finite number");
  return sum / static_cast<double>(x.size() - 1);
}

double standard_deviation(Sample x) { return std::sqrt(variance(x)); }

double quantile_sorted(Sample x, double share) {
  require(!x.empty(), "quantile", "no values");
  require(share >= 0 && share <= 1, "quantile", "share {} is outside [0,1]", share);
  const double place = share * static_cast<double>(x.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, x.size() - 1);
  return x[below] + (place - static_cast<double>(below)) * (x[above] - x[below]);
}

double median(Sample x) {
  require_sample(x, 1, "median");
  std::vector<double> sorted(x.begin(), x.end());
  std::sort(sorted.begin(), sorted.end());
  return quantile_sorted(sorted, 0.5);
}

double relative_range(Sample x) {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  const double middle = median(x);
  return middle > 0 ? (*high - *low) / middle : 0;
}

Interval quartiles(Sample x) {
  require_sample(x, 1, "quartiles");
  std::vector<double> sorted(x.begin(), x.end());
  std::sort(sorted.begin(), sorted.end());
  return {quantile_sorted(sorted, 0.25), quantile_sorted(sorted, 0.75)};
}

Interval t_interval(Sample x, double confidence) {
  require_sample(x, 2, "t-interval");
  require(confidence > 0 && confidence < 1, "t-interval", "confidence {} is outside (0,1)",
          confidence);
  const auto n = static_cast<double>(x.size());
  const boost::math::students_t distribution(n - 1);
  const double t =
      boost::math::quantile(boost::math::complement(distribution, (1 - confidence) / 2));
  const double half = t * standard_deviation(x) / std::sqrt(n);
  return {mean(x) - half, mean(x) + half};
}

// The k-th smallest and largest of n values enclose the median unless fewer than k of them lie on
// one side of it: confidence 1 - 2 P(Binomial(n, 1/2) < k). The largest such k.
std::optional<Interval> median_interval(Sample x, double confidence) {
  require_sample(x, 1, "median's interval");
  require(confidence > 0 && confidence < 1, "median's interval", "confidence {} is outside (0,1)",
          confidence);
  const boost::math::binomial_distribution<> count(static_cast<double>(x.size()), 0.5);
  std::size_t k = 0;
  while (2 * cdf(count, static_cast<double>(k)) <= 1 - confidence) ++k;
  if (k == 0) return std::nullopt;
  std::vector<double> sorted(x.begin(), x.end());
  std::sort(sorted.begin(), sorted.end());
  return Interval{sorted[k - 1], sorted[x.size() - k]};
}

Ranks mid_ranks(Sample x) {
  require_sample(x, 1, "ranks");
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) { return x[i] < x[j]; });
  Ranks ranks{std::vector<double>(x.size())};
  for (std::size_t first = 0, end; first < order.size(); first = end) {
    end = first;
    while (end < order.size() && x[order[end]] == x[order[first]]) ++end;
    // Places first + 1 .. end hold one value.
    for (std::size_t i = first; i < end; ++i)
      ranks.of[order[i]] = static_cast<double>(first + 1 + end) / 2;
    const auto t = static_cast<double>(end - first);
    ranks.tie_term += t * t * t - t;
  }
  return ranks;
}

}  // namespace hg::statistics
