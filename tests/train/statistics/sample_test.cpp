#include "train/statistics/sample.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tensor/base/error.h"

namespace hg::statistics {
namespace {

using Values = std::vector<double>;

}  // namespace

TEST_CASE("location and spread by hand") {
  const Values x = {4, 1, 2, 9};
  CHECK(mean(x) == 4);
  CHECK(variance(x) == doctest::Approx(38.0 / 3));
  CHECK(standard_deviation(x) == doctest::Approx(std::sqrt(38.0 / 3)));
  CHECK(median(x) == 3);
  CHECK(median(Values{5, 1, 3}) == 3);
  // Places 0.75 and 2.25 of 1 2 4 9.
  CHECK(quartiles(x).low == doctest::Approx(1.75));
  CHECK(quartiles(x).high == doctest::Approx(5.25));
  CHECK(mean(Values{7}) == 7);
  CHECK(median(Values{7}) == 7);
  CHECK(quartiles(Values{7}).high == 7);
}

TEST_CASE("constant samples have no spread to the last bit") {
  const Values x(7, 0.1);
  CHECK(constant(x));
  CHECK(mean(x) == 0.1);
  CHECK(variance(x) == 0);
  CHECK_FALSE(constant(Values{0.1, 0.1, std::nextafter(0.1, 1)}));
}

TEST_CASE("quantiles lie linearly between order statistics") {
  const Values x = {0, 10, 20, 30, 40};
  CHECK(quantile_sorted(x, 0) == 0);
  CHECK(quantile_sorted(x, 1) == 40);
  CHECK(quantile_sorted(x, 0.1) == doctest::Approx(4));
  CHECK_THROWS_AS(quantile_sorted(x, 1.1), Error);
  CHECK_THROWS_AS(quantile_sorted(x, std::nan("")), Error);
  CHECK_THROWS_AS(quantile_sorted(Values{}, 0.5), Error);
}

TEST_CASE("the t-interval uses the table's quantiles") {
  // t(0.975; 4) = 2.776445105, t(0.95; 4) = 2.131846786.
  const Values x = {1, 2, 3, 4, 5};
  const double error = std::sqrt(2.5 / 5);
  CHECK(t_interval(x, 0.95).low == doctest::Approx(3 - 2.776445105 * error).epsilon(1e-9));
  CHECK(t_interval(x, 0.95).high == doctest::Approx(3 + 2.776445105 * error).epsilon(1e-9));
  CHECK(t_interval(x, 0.90).high == doctest::Approx(3 + 2.131846786 * error).epsilon(1e-9));
  CHECK_THROWS_AS(t_interval(x, 1), Error);
  CHECK_THROWS_AS(t_interval(Values{1}, 0.95), Error);
}

TEST_CASE("tied values share the mean of their ranks") {
  const Ranks ranks = mid_ranks(Values{3, 1, 3, 2, 3, 1});
  CHECK(ranks.of == Values{5, 1.5, 5, 3, 5, 1.5});
  CHECK(ranks.tie_term == (8 - 2) + (27 - 3));
  CHECK(mid_ranks(Values{2, 3, 1}).of == Values{2, 3, 1});
  CHECK(mid_ranks(Values{2, 3, 1}).tie_term == 0);
}

TEST_CASE("bad samples are errors that name the value") {
  CHECK_THROWS_WITH_AS(mean(Values{}), "mean: 0 values, expected at least 1", Error);
  CHECK_THROWS_WITH_AS(variance(Values{1}), "variance: 1 values, expected at least 2", Error);
  CHECK_THROWS_WITH_AS(median(Values{1, std::nan("")}),
                       "median: value 2 of 2 is nan, expected finite numbers", Error);
  CHECK_THROWS_AS(variance(Values{-1e200, 1e200}), Error);
  CHECK_THROWS_AS(mid_ranks(Values{}), Error);
}

TEST_CASE("a median's interval is of order statistics, and takes 6 values for 95 percent") {
  const auto interval = [](std::size_t n) {
    std::vector<double> values(n);  // n..1
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<double>(n - i);
    return median_interval(values, 0.95);
  };
  // 2 P(Binomial(n, 1/2) < k): 5: 0.0625 for k = 1; 6: 0.031; 8: 0.070 for k = 2; 9: 0.039;
  // 10: 0.021, 0.109 for k = 3.
  CHECK_FALSE(interval(1));
  CHECK_FALSE(interval(5));
  CHECK(interval(6)->low == 1);
  CHECK(interval(6)->high == 6);
  CHECK(interval(8)->low == 1);
  CHECK(interval(9)->low == 2);
  CHECK(interval(10)->low == 2);
  CHECK(interval(10)->high == 9);
  CHECK(interval(100)->low == 40);  // as tables say
  CHECK(interval(100)->high == 61);
}

}  // namespace hg::statistics
