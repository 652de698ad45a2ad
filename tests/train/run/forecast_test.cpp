#include "train/run/forecast.h"

#include <doctest/doctest.h>

#include <vector>

using namespace hg;

TEST_CASE("steady steps predict the run and the first one is left out as warm-up") {
  const std::vector<double> steps{50, 2, 2, 2, 2};
  const Forecast f = predict_energy(steps, {58, 100, 0});
  CHECK(f.step == 5);
  CHECK(f.energy_j.value == doctest::Approx(58 + 200));
  CHECK(f.energy_j.low < f.energy_j.value);
  CHECK(f.energy_j.high > f.energy_j.value);
  CHECK(f.energy_j.high - f.energy_j.value < 0.25 * 200);
}

TEST_CASE("evaluations count and make the interval wider") {
  const std::vector<double> steps{2, 2, 2, 2};
  const Forecast without = predict_energy(steps, {8, 100, 0}),
                 with = predict_energy(steps, {8, 100, 30});
  CHECK(with.energy_j.value == doctest::Approx(without.energy_j.value + 60));
  CHECK(with.energy_j.high - with.energy_j.value > without.energy_j.high - without.energy_j.value);
}

TEST_CASE(
    "steps that differ or are few make a wide interval which never falls below what is used") {
  const std::vector<double> even{2, 2, 2, 2, 2, 2}, uneven{1, 3, 1, 3, 1, 3};
  const auto width = [](const Forecast& f) { return f.energy_j.high - f.energy_j.low; };
  CHECK(width(predict_energy(uneven, {12, 50, 0})) > width(predict_energy(even, {12, 50, 0})));
  const std::vector<double> one{2};
  const Forecast single = predict_energy(one, {2, 50, 0});
  CHECK(single.energy_j.value == doctest::Approx(102));
  CHECK(single.energy_j.low == 2);
  CHECK(single.energy_j.high > 200);
}

TEST_CASE("nothing left is predicted exactly") {
  const std::vector<double> steps{3, 2, 2};
  const Forecast f = predict_energy(steps, {7, 0, 0});
  CHECK(f.energy_j.low == 7);
  CHECK(f.energy_j.high == 7);
}

TEST_CASE("the forecast comes before the first epoch ends") {
  CHECK(forecast_step(1) == 1);
  CHECK(forecast_step(4) == 4);
  CHECK(forecast_step(30) == 5);
  CHECK(forecast_step(235) == 24);
  CHECK(forecast_step(100000) == 200);
}
