#include "train/store/forecast.h"

#include <doctest/doctest.h>

#include <vector>

#include "tensor/base/text.h"

using namespace hg;

TEST_CASE("steady steps foretell the run and the first one is left out as warm-up") {
  const std::vector<double> steps{50, 2, 2, 2, 2};
  const Forecast f = foretell(steps, {58, 100, 0});
  CHECK(f.step == 5);
  CHECK(f.energy_j == doctest::Approx(58 + 200));
  CHECK(f.low_j < f.energy_j);
  CHECK(f.high_j > f.energy_j);
  CHECK(f.high_j - f.energy_j < 0.25 * 200);
}

TEST_CASE("evaluations count and make the interval wider") {
  const std::vector<double> steps{2, 2, 2, 2};
  const Forecast without = foretell(steps, {8, 100, 0}), with = foretell(steps, {8, 100, 30});
  CHECK(with.energy_j == doctest::Approx(without.energy_j + 60));
  CHECK(with.high_j - with.energy_j > without.high_j - without.energy_j);
}

TEST_CASE(
    "steps that differ or are few make a wide interval which never falls below what is used") {
  const std::vector<double> even{2, 2, 2, 2, 2, 2}, uneven{1, 3, 1, 3, 1, 3};
  const auto width = [](const Forecast& f) { return f.high_j - f.low_j; };
  CHECK(width(foretell(uneven, {12, 50, 0})) > width(foretell(even, {12, 50, 0})));
  const std::vector<double> one{2};
  const Forecast single = foretell(one, {2, 50, 0});
  CHECK(single.energy_j == doctest::Approx(102));
  CHECK(single.low_j == 2);
  CHECK(single.high_j > 200);
}

TEST_CASE("nothing left is foretold exactly") {
  const std::vector<double> steps{3, 2, 2};
  const Forecast f = foretell(steps, {7, 0, 0});
  CHECK(f.low_j == 7);
  CHECK(f.high_j == 7);
}

TEST_CASE("the forecast comes before the first epoch ends") {
  CHECK(forecast_step(1) == 1);
  CHECK(forecast_step(4) == 4);
  CHECK(forecast_step(30) == 5);
  CHECK(forecast_step(235) == 24);
  CHECK(forecast_step(100000) == 200);
}

TEST_CASE("figures get a prefix and three digits") {
  CHECK(with_prefix(0, "J") == "0 J");
  CHECK(with_prefix(12340, "J") == "12.3 kJ");
  CHECK(with_prefix(999.6, "J") == "1.00 kJ");
  CHECK(with_prefix(1, "W") == "1.00 W");
  CHECK(with_prefix(0.000123, "g") == "123 ug");
  CHECK(with_prefix(-1500, "J") == "-1.50 kJ");
  CHECK(with_prefix(4.5e14, "FLOP") == "450 TFLOP");
}
