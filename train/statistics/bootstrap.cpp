#include "train/statistics/bootstrap.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>

#include "tensor/base/error.h"
#include "tensor/random.h"

namespace hg::statistics {
namespace {

const boost::math::normal kStandardNormal;

// Indices below n from all four words of each Philox block: a bootstrap draws hundreds of
// thousands. Multiplying instead of rejecting favours an index by n / 2^32 at most.
class IndexDraws {
 public:
  explicit IndexDraws(std::uint64_t seed) : stream_(seed, "bootstrap") {}

  std::size_t below(std::size_t n) {
    if (used_ == block_.size()) {
      block_ = draw_block(stream_.key(), stream_.take(block_.size()) / block_.size());
      used_ = 0;
    }
    return static_cast<std::size_t>(std::uint64_t{block_[used_++]} * n >> 32);
  }

 private:
  RandomStream stream_;
  PhiloxBlock block_{};
  std::size_t used_ = block_.size();
};

double finite(double value) {
  require(std::isfinite(value), "bootstrap", "the statistic of a resample is {}", value);
  return value;
}

void draw_apart(IndexDraws& draws, const Arms& arms, Arms& drawn) {
  for (std::size_t k = 0; k < arms.size(); ++k)
    for (double& x : drawn[k]) x = arms[k][draws.below(arms[k].size())];
}

void draw_together(IndexDraws& draws, const Arms& arms, Arms& drawn) {
  for (std::size_t i = 0; i < arms[0].size(); ++i) {
    const std::size_t chosen = draws.below(arms[0].size());
    for (std::size_t k = 0; k < arms.size(); ++k) drawn[k][i] = arms[k][chosen];
  }
}

// The statistic of each resample, ascending.
std::vector<double> resample(const Arms& arms, const Statistic& statistic,
                             const BootstrapOptions& options) {
  IndexDraws draws(options.seed);
  Arms drawn = arms;
  std::vector<double> values(static_cast<std::size_t>(options.resamples));
  for (double& value : values) {
    if (options.paired)
      draw_together(draws, arms, drawn);
    else
      draw_apart(draws, arms, drawn);
    value = finite(statistic(drawn));
  }
  std::sort(values.begin(), values.end());
  return values;
}

// z_0 from the share of resamples below the estimate. Those equal to it count half: medians of few
// values coincide often. Half a resample at either end keeps z_0 finite.
double bias_of(const std::vector<double>& sorted, double estimate) {
  const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), estimate);
  const auto below = static_cast<double>(first - sorted.begin());
  const auto equal = static_cast<double>(last - first);
  const auto total = static_cast<double>(sorted.size());
  return quantile(kStandardNormal, std::clamp(below + equal / 2, 0.5, total - 0.5) / total);
}

void erase_from(std::vector<double>& values, std::size_t i) {
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(i));
}

// The statistic without one value of arm k after the other; paired: of all arms.
std::vector<double> jackknife(const Arms& arms, std::size_t k, bool paired,
                              const Statistic& statistic) {
  std::vector<double> values;
  for (std::size_t i = 0; i < arms[k].size(); ++i) {
    Arms left = arms;
    if (paired)
      for (std::vector<double>& arm : left) erase_from(arm, i);
    else
      erase_from(left[k], i);
    values.push_back(finite(statistic(left)));
  }
  return values;
}

// a = sum U^3 / n^3 / (6 (sum U^2 / n^2)^(3/2)), U = (n - 1)(mean - value) of an arm's jackknife
// values, n its size, the sums over all arms. Paired arms count as one.
double acceleration_of(const Arms& arms, bool paired, const Statistic& statistic) {
  double cubes = 0, squares = 0;
  for (std::size_t k = 0; k < (paired ? 1 : arms.size()); ++k) {
    const auto n = static_cast<double>(arms[k].size());
    const std::vector<double> values = jackknife(arms, k, paired, statistic);
    const double centre = mean(values);
    for (const double value : values) {
      const double u = (n - 1) * (centre - value) / n;
      cubes += u * u * u;
      squares += u * u;
    }
  }
  return squares > 0 ? cubes / (6 * squares * std::sqrt(squares)) : 0;
}

// Which share of the resamples lies below BCa's end that a plain interval would put at z.
double bca_share(double z, double bias, double acceleration) {
  const double stretch = 1 - acceleration * (bias + z);
  if (stretch <= 0) return z > 0 ? 1 : 0;
  return cdf(kStandardNormal, bias + (bias + z) / stretch);
}

}  // namespace

std::optional<std::string> bootstrap_refusal(const Arms& arms, bool paired) {
  std::size_t constants = 0;
  std::string refusal;
  for (const std::vector<double>& arm : arms) {
    if (arm.size() < 3)
      return fmt::format("{} values, an interval by resampling takes 3 or more", arm.size());
    if (!constant(arm)) continue;
    refusal = fmt::format("constant sample, all {} values are {}", arm.size(), arm.front());
    ++constants;
  }
  if (constants == 0 || (paired && constants < arms.size())) return std::nullopt;
  return refusal;
}

Bootstrap bootstrap(const Arms& arms, const Statistic& statistic, const BootstrapOptions& options) {
  require(!arms.empty(), "bootstrap", "no arms");
  for (const auto& arm : arms) {
    require_sample(arm, 0, "bootstrap");
    require(!options.paired || arm.size() == arms[0].size(), "bootstrap",
            "{} values against {}, expected pairs", arms[0].size(), arm.size());
  }
  if (const auto refusal = bootstrap_refusal(arms, options.paired))
    fail("bootstrap", "{}", *refusal);
  require(options.resamples >= 1, "bootstrap", "{} resamples, expected at least 1",
          options.resamples);
  require(options.confidence > 0 && options.confidence < 1, "bootstrap",
          "confidence {} is outside (0,1)", options.confidence);

  Bootstrap result;
  result.estimate = finite(statistic(arms));
  const std::vector<double> sorted = resample(arms, statistic, options);
  result.bias = bias_of(sorted, result.estimate);
  result.acceleration = acceleration_of(arms, options.paired, statistic);
  const double tail = (1 - options.confidence) / 2;
  const double z = quantile(complement(kStandardNormal, tail));
  result.percentile = {quantile_sorted(sorted, tail), quantile_sorted(sorted, 1 - tail)};
  result.bca = {quantile_sorted(sorted, bca_share(-z, result.bias, result.acceleration)),
                quantile_sorted(sorted, bca_share(z, result.bias, result.acceleration))};
  return result;
}

double mean_ratio(const Arms& arms) { return mean(arms.at(1)) / mean(arms.at(0)); }
double median_difference(const Arms& arms) { return median(arms.at(0)) - median(arms.at(1)); }

}  // namespace hg::statistics
