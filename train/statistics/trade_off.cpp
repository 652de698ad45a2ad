#include "train/statistics/trade_off.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tensor/base/error.h"

namespace hg::statistics {
namespace {

constexpr double kJoulesPerKwh = 3.6e6;

void require_energy(double energy_j, const char* who) {
  require(std::isfinite(energy_j) && energy_j >= 0, who, "energy {} J, expected 0 or more",
          energy_j);
}

void require_f1(double f1, const char* who) {
  require(f1 >= 0 && f1 <= 1, who, "F1 {} is outside [0,1]", f1);
}

}  // namespace

EnergyToTarget energy_to_target(std::span<const EvaluationPoint> run, double target_f1) {
  constexpr const char* kWho = "energy to target";
  require(!run.empty(), kWho, "no evaluations");
  require_f1(target_f1, kWho);
  double before = 0;
  for (const EvaluationPoint& e : run) {
    require_energy(e.energy_j, kWho);
    require_f1(e.f1, kWho);
    require(e.energy_j >= before, kWho, "energy falls from {} to {} J in epoch {}", before,
            e.energy_j, e.epoch);
    before = e.energy_j;
  }
  const auto first = std::find_if(run.begin(), run.end(),
                                  [&](const EvaluationPoint& e) { return e.f1 >= target_f1; });
  const bool reached = first != run.end();
  const EvaluationPoint& at = reached ? *first : run.back();
  return {reached, at.energy_j, at.epoch, at.flops};
}

double energy_delay_product(double energy_j, double seconds) {
  require_energy(energy_j, "energy-delay product");
  require(std::isfinite(seconds) && seconds >= 0, "energy-delay product",
          "{} seconds, expected 0 or more", seconds);
  return energy_j * seconds;
}

double energy_per_f1_kwh(double energy_j, double f1) {
  require_energy(energy_j, "energy per F1");
  require_f1(f1, "energy per F1");
  return f1 > 0 ? energy_j / kJoulesPerKwh / f1 : std::numeric_limits<double>::infinity();
}

std::vector<std::size_t> pareto_set(std::span<const TradeOff> points) {
  for (const TradeOff& point : points) {
    require_energy(point.energy_j, "pareto set");
    require_f1(point.f1, "pareto set");
  }
  std::vector<std::size_t> order(points.size()), front;
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) {
    const TradeOff &p = points[i], &q = points[j];
    return p.energy_j != q.energy_j ? p.energy_j < q.energy_j : p.f1 > q.f1;
  });
  for (const std::size_t i : order) {
    if (!front.empty()) {
      const TradeOff& best = points[front.back()];
      const bool equal = points[i].energy_j == best.energy_j && points[i].f1 == best.f1;
      if (points[i].f1 <= best.f1 && !equal) continue;
    }
    front.push_back(i);
  }
  return front;
}

}  // namespace hg::statistics
