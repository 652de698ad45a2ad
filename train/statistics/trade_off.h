// Energy against quality of runs: what a target costs, energy with time, the runs not beaten in
// both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hg::statistics {

struct EvaluationPoint {
  std::int64_t epoch = 0;
  double energy_j = 0;  // of all the run so far
  double f1 = 0;
  double flops = 0;  // of all the run so far
};

struct EnergyToTarget {
  bool reached = false;
  // At the first evaluation with F1 >= target. Never reached: at the last one, so the true figures
  // are larger.
  double energy_j = 0;
  std::int64_t epoch = 0;
  double flops = 0;
};
EnergyToTarget energy_to_target(std::span<const EvaluationPoint> run, double target_f1);

double energy_delay_product(double energy_j, double seconds);  // J s

// Joules as kWh over F1; infinite for F1 = 0.
double energy_per_f1_kwh(double energy_j, double f1);

struct TradeOff {
  double energy_j = 0, f1 = 0;
};
// Indices of the points no other beats: less energy at no lower F1, or higher F1 at no more energy.
// By rising energy; equal points are all in it.
std::vector<std::size_t> pareto_set(std::span<const TradeOff> points);

}  // namespace hg::statistics
