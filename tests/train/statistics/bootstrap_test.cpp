#include "train/statistics/bootstrap.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tensor/base/error.h"
#include "tensor/random.h"
#include "tests/support/sanitized.h"
#include "tests/train/statistics/samples.h"

namespace hg::statistics {
namespace {

double first_mean(const Arms& arms) { return mean(arms[0]); }
double first_median(const Arms& arms) { return median(arms[0]); }

bool covers(const Interval& interval, double truth) {
  return interval.low <= truth && truth <= interval.high;
}

}  // namespace

TEST_CASE("95 percent intervals cover the truth as often as they should" *
          doctest::skip(testing::kSanitized)) {
  constexpr int kRepetitions = 2000;
  RandomStream random(7, "coverage");
  int percentile = 0, bca = 0;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    Arms arms(1, std::vector<double>(20));
    for (double& x : arms[0]) x = random.normal();
    const auto seed = static_cast<std::uint64_t>(repetition);
    const Bootstrap result = bootstrap(arms, first_mean, {.resamples = 1000, .seed = seed});
    percentile += covers(result.percentile, 0);
    bca += covers(result.bca, 0);
  }
  INFO("percentile " << percentile << ", BCa " << bca << " of " << kRepetitions);
  CHECK(percentile >= 0.90 * kRepetitions);
  CHECK(percentile <= 0.97 * kRepetitions);
  CHECK(bca >= 0.90 * kRepetitions);
  CHECK(bca <= 0.97 * kRepetitions);
}

TEST_CASE("two arms' intervals cover a known ratio and difference") {
  constexpr int kRepetitions = 300;
  RandomStream random(8, "coverage of two");
  int ratio = 0, difference = 0;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    Arms arms = {std::vector<double>(20), std::vector<double>(15)};
    for (double& x : arms[0]) x = 100 + 5 * random.normal();
    for (double& x : arms[1]) x = 80 + 8 * random.normal();
    const BootstrapOptions options = {.resamples = 500, .seed = 1};
    ratio += covers(bootstrap(arms, mean_ratio, options).bca, 0.8);
    difference += covers(bootstrap(arms, median_difference, options).bca, 20);
  }
  INFO("ratio " << ratio << ", difference " << difference << " of " << kRepetitions);
  CHECK(ratio >= 0.88 * kRepetitions);
  CHECK(ratio <= 0.98 * kRepetitions);
  CHECK(difference >= 0.88 * kRepetitions);
  CHECK(difference <= 0.99 * kRepetitions);
}

TEST_CASE("a mean's percentile interval has the width theory says") {
  RandomStream random(3, "normal");
  Arms arms(1, std::vector<double>(200));
  for (double& x : arms[0]) x = random.normal();
  const Bootstrap result = bootstrap(arms, first_mean);
  const double half = 1.959964 * standard_deviation(arms[0]) / std::sqrt(200.0);
  CHECK(result.estimate == mean(arms[0]));
  CHECK(result.percentile.high - result.estimate == doctest::Approx(half).epsilon(0.04).scale(0));
  CHECK(result.estimate - result.percentile.low == doctest::Approx(half).epsilon(0.04).scale(0));
}

TEST_CASE("BCa's acceleration is the skewness of a mean, and it moves the interval that way") {
  const Arms arms = {{0.1, 0.2, 0.2, 0.4, 0.5, 0.7, 1.1, 1.6, 2.9, 6.3}};
  double squares = 0, cubes = 0;
  for (const double x : arms[0]) {
    squares += std::pow(x - mean(arms[0]), 2);
    cubes += std::pow(x - mean(arms[0]), 3);
  }
  const Bootstrap result = bootstrap(arms, first_mean);
  CHECK(result.acceleration == doctest::Approx(cubes / (6 * std::pow(squares, 1.5))));
  CHECK(result.acceleration > 0.05);
  CHECK(result.bca.low > result.percentile.low);
  CHECK(result.bca.high > result.percentile.high);
}

TEST_CASE("arms of different size weigh in the acceleration by their influence") {
  // For a difference of means U_i / n = (x_i - mean) / n in the first arm, minus that in the
  // second.
  const Arms arms = {{1, 2, 4, 9}, {3, 5, 6, 6, 7, 30}};
  double squares = 0, cubes = 0;
  for (std::size_t k = 0; k < 2; ++k)
    for (const double x : arms[k]) {
      const double u =
          (k == 0 ? 1 : -1) * (x - mean(arms[k])) / static_cast<double>(arms[k].size());
      squares += u * u;
      cubes += u * u * u;
    }
  const auto difference = [](const Arms& a) { return mean(a[0]) - mean(a[1]); };
  CHECK(bootstrap(arms, difference, {.resamples = 10}).acceleration ==
        doctest::Approx(cubes / (6 * std::pow(squares, 1.5))));
}

TEST_CASE("a statistic that does not bias or skew leaves BCa at the percentiles") {
  const Arms arms = {{-5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5}};
  const Bootstrap result = bootstrap(arms, first_mean);
  CHECK(result.acceleration == doctest::Approx(0).epsilon(1e-12));
  CHECK(std::abs(result.bias) < 0.03);
  CHECK(result.bca.low == doctest::Approx(result.percentile.low).epsilon(0.06));
  CHECK(result.bca.high == doctest::Approx(result.percentile.high).epsilon(0.06));
}

TEST_CASE("intervals repeat with the seed and grow with confidence") {
  const Bootstrap first = bootstrap({kA, kB}, mean_ratio);
  const Bootstrap again = bootstrap({kA, kB}, mean_ratio);
  CHECK(first.bca.low == again.bca.low);
  CHECK(first.percentile.high == again.percentile.high);
  const Bootstrap other = bootstrap({kA, kB}, mean_ratio, {.seed = 2});
  CHECK(other.bca.low != first.bca.low);
  CHECK(other.bca.low == doctest::Approx(first.bca.low).epsilon(1e-3));
  const Bootstrap wider = bootstrap({kA, kB}, mean_ratio, {.confidence = 0.99});
  CHECK(wider.bca.low < first.bca.low);
  CHECK(wider.bca.high > first.bca.high);
  CHECK(first.estimate == doctest::Approx(mean(kB) / mean(kA)));
  CHECK(bootstrap({kA, kB}, median_difference).estimate == doctest::Approx(20.26 - 19.925));
}

TEST_CASE("medians that coincide with the estimate leave the interval inside the sample") {
  const Bootstrap result = bootstrap({{1, 1, 1, 1, 2}}, first_median);
  CHECK(result.estimate == 1);
  CHECK(result.bca.low == 1);
  CHECK(result.bca.high <= 2);
  CHECK(std::isfinite(result.bias));
}

TEST_CASE("pairs are drawn together") {
  // Runs far apart by seed, and 20 to 22 % saved in each pair: apart, nothing is known.
  const Arms arms = {{100, 140, 90, 120, 70}, {79, 110, 72, 94, 56}};
  const Interval together = bootstrap(arms, mean_ratio, {.paired = true}).bca;
  const Interval apart = bootstrap(arms, mean_ratio).bca;
  CHECK(together.low >= 0.78);
  CHECK(together.high <= 0.8);
  CHECK(apart.low < 0.7);
  CHECK(apart.high > 0.95);
  // What all pairs have in common has no width.
  const Interval exact =
      bootstrap({{100, 140, 90}, {50, 70, 45}}, mean_ratio, {.paired = true}).bca;
  CHECK(exact.low == doctest::Approx(0.5));
  CHECK(exact.high == doctest::Approx(0.5));
}

TEST_CASE("pairs' acceleration is that of their differences") {
  const Arms arms = {{1, 2, 4, 9, 3}, {3, 5, 6, 6, 30}};
  const auto difference = [](const Arms& a) { return mean(a[0]) - mean(a[1]); };
  std::vector<double> d;
  for (std::size_t i = 0; i < 5; ++i) d.push_back(arms[0][i] - arms[1][i]);
  CHECK(bootstrap(arms, difference, {.resamples = 10, .paired = true}).acceleration ==
        doctest::Approx(bootstrap({d}, first_mean, {.resamples = 10}).acceleration));
}

TEST_CASE("paired arms come in pairs, and one of them may be constant") {
  CHECK_THROWS_WITH_AS(bootstrap({{1, 2, 3}, {1, 2, 3, 4}}, mean_ratio, {.paired = true}),
                       "bootstrap: 3 values against 4, expected pairs", Error);
  CHECK(bootstrap({kA, {4, 4, 4, 4, 4, 4}}, mean_ratio, {.paired = true}).bca.high > 0.19);
  CHECK_THROWS_AS(bootstrap({{5, 5, 5}, {4, 4, 4}}, mean_ratio, {.paired = true}), Error);
}

TEST_CASE("no interval for few or constant values or statistics without a value") {
  CHECK_THROWS_WITH_AS(bootstrap({{1, 2}}, first_mean),
                       "bootstrap: 2 values, an interval by resampling takes 3 or more", Error);
  CHECK_THROWS_WITH_AS(bootstrap({kA, {4, 4, 4}}, mean_ratio),
                       "bootstrap: constant sample, all 3 values are 4", Error);
  CHECK_THROWS_AS(bootstrap({{1, 2, std::nan("")}}, first_mean), Error);
  CHECK_THROWS_AS(bootstrap({}, first_mean), Error);
  CHECK_THROWS_AS(bootstrap({kA}, first_mean, {.resamples = 0}), Error);
  CHECK_THROWS_AS(bootstrap({kA}, first_mean, {.confidence = 1}), Error);
  // Some resample's mean is 0 / 0.
  CHECK_THROWS_AS(bootstrap({{0, 0, 1}, {0, 0, 1}}, mean_ratio), Error);
}

}  // namespace hg::statistics
