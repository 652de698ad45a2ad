#include "train/statistics/trade_off.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/base/error.h"

namespace hg::statistics {
namespace {

using Indices = std::vector<std::size_t>;

}  // namespace

TEST_CASE("energy to target is that of the first evaluation that reaches it") {
  const std::vector<EvaluationPoint> run = {{1, 10, 0.5}, {2, 20, 0.8}, {3, 30, 0.7}, {4, 40, 0.9}};
  const EnergyToTarget first = energy_to_target(run, 0.75);
  CHECK(first.reached);
  CHECK(first.energy_j == 20);
  CHECK(first.epoch == 2);
  CHECK(energy_to_target(run, 0.9).energy_j == 40);
  CHECK(energy_to_target(run, 0).epoch == 1);
}

TEST_CASE("a target never reached is censored at the end of the run") {
  const std::vector<EvaluationPoint> run = {{1, 10, 0.5}, {2, 20, 0.4}};
  const EnergyToTarget never = energy_to_target(run, 0.51);
  CHECK_FALSE(never.reached);
  CHECK(never.energy_j == 20);
  CHECK(never.epoch == 2);
}

TEST_CASE("energy to target refuses runs that cannot be") {
  using Run = std::vector<EvaluationPoint>;
  CHECK_THROWS_WITH_AS(energy_to_target(Run{}, 0.5), "energy to target: no evaluations", Error);
  CHECK_THROWS_WITH_AS(energy_to_target(Run{{1, 10, 0.5}, {2, 9, 0.6}}, 0.5),
                       "energy to target: energy falls from 10 to 9 J in epoch 2", Error);
  CHECK_THROWS_AS(energy_to_target(Run{{1, 10, std::nan("")}}, 0.5), Error);
  CHECK_THROWS_AS(energy_to_target(Run{{1, std::nan(""), 0.5}}, 0.5), Error);
  CHECK_THROWS_AS(energy_to_target(Run{{1, 10, 0.5}}, 50), Error);
}

TEST_CASE("energy with time and per F1") {
  CHECK(energy_delay_product(3, 4) == 12);
  CHECK(energy_per_f1_kwh(7.2e6, 0.5) == doctest::Approx(4));
  CHECK(energy_per_f1_kwh(1, 0) == std::numeric_limits<double>::infinity());
  CHECK_THROWS_AS(energy_delay_product(-1, 4), Error);
  CHECK_THROWS_AS(energy_delay_product(1, std::nan("")), Error);
  CHECK_THROWS_AS(energy_per_f1_kwh(1, 2), Error);
}

TEST_CASE("the Pareto set keeps what no other point beats, by rising energy") {
  const std::vector<TradeOff> points = {{30, 0.9}, {10, 0.5}, {20, 0.8}, {25, 0.8},
                                        {20, 0.7}, {5, 0.5},  {40, 0.9}, {50, 0.95}};
  CHECK(pareto_set(points) == Indices{5, 2, 0, 7});
}

TEST_CASE("equal points share the Pareto set") {
  CHECK(pareto_set(std::vector<TradeOff>{{1, 0.5}, {2, 0.4}, {1, 0.5}}) == Indices{0, 2});
  CHECK(pareto_set(std::vector<TradeOff>{{3, 0.1}}) == Indices{0});
  CHECK(pareto_set({}).empty());
  CHECK_THROWS_AS(pareto_set(std::vector<TradeOff>{{std::nan(""), 0.5}}), Error);
  CHECK_THROWS_AS(pareto_set(std::vector<TradeOff>{{1, 1.5}}), Error);
}

TEST_CASE("every point outside the Pareto set is beaten and none inside is") {
  std::vector<TradeOff> points;
  for (int i = 0; i < 60; ++i) points.push_back({double(i * 37 % 23), double(i * 53 % 17) / 17});
  const Indices front = pareto_set(points);
  for (std::size_t i = 0; i < points.size(); ++i) {
    bool beaten = false;
    for (const TradeOff& other : points)
      beaten |= other.energy_j <= points[i].energy_j && other.f1 >= points[i].f1 &&
                (other.energy_j < points[i].energy_j || other.f1 > points[i].f1);
    CHECK(beaten == (std::find(front.begin(), front.end(), i) == front.end()));
  }
}

}  // namespace hg::statistics
