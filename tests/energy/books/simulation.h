// A machine of known powers with a counter like RAPL's: what the attribution should find out is
// known beforehand.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "energy/books/attribution.h"
#include "energy/books/fit.h"

namespace hg::testing {

using namespace hg::energy;

struct OpType {
  double us = 50;  // duration
  double mflop = 0, mbyte = 0;
};

// Ops of about 50 us that draw from 7 to 14 W on the machine below.
inline const std::vector<OpType> kOpTypes{{50, 5.0, 0.10},  {50, 2.5, 0.20}, {45, 0.05, 0.90},
                                          {60, 0.50, 0.45}, {40, 4.0, 0.40}, {55, 0.10, 0.05},
                                          {35, 0.30, 0.60}, {65, 1.50, 0.05}};

struct Machine {
  Coefficients truth{4, 60, 150, 3};               // W, pJ/FLOP, pJ/byte, W a thread
  double misfit = 0.02;                            // of single ops about the model
  double mflop_per_us = 0.1, mbyte_per_us = 0.02;  // at most

  double energy_uj(const Features& x, double deviation) const {
    return dot(truth, x) * (1 + deviation);
  }
};

inline Features features_of(const OpType& op) { return {op.us, op.mflop, op.mbyte, op.us}; }

// As hgprof calibrate would find it: kernels of all kinds, each with its own deviation.
inline DomainModel calibrate(const Machine& machine, std::mt19937_64& random, int kernels = 24) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<BenchPoint> points;
  for (int k = 0; k < kernels; ++k) {
    const double busy = k % 6 == 0 ? 0 : 1, us = 1e6;
    const Features x{us, busy * us * machine.mflop_per_us * uniform(random),
                     busy * us * machine.mbyte_per_us * uniform(random), busy * us};
    points.push_back({"kernel", x, machine.energy_uj(x, machine.misfit * normal(random))});
  }
  return fit(points, "simulation");
}

struct Replay {
  std::vector<double> truth_uj;  // by op type
  std::vector<double> found_uj, low_uj, high_uj, by_time_uj;
};

// Runs the ops in random order on one thread, for so many meter intervals of about 20 ms.
class Simulation {
 public:
  Simulation(const Machine& machine, std::uint64_t seed) : machine_(machine), random_(seed) {
    std::normal_distribution<double> normal;
    for (std::size_t i = 0; i < kOpTypes.size(); ++i)
      deviations_.push_back(machine.misfit * normal(random_));
  }

  // `burst`: so many ops of one type follow each other.
  Replay run(int intervals, int burst = 1) {
    Calibration calibration = default_calibration();
    calibration.domains[0] = calibrate(machine_, random_);
    calibration.domains[1].reset();
    Attribution attribution(calibration, 1, {kQuantum, 1e-3});
    Replay replay;
    replay.truth_uj.resize(kOpTypes.size());
    attribution.start(sample());
    std::vector<double> seconds(kOpTypes.size());
    std::uniform_int_distribution<std::size_t> pick(0, kOpTypes.size() - 1);
    std::uniform_real_distribution<double> jitter(0.95, 1.05), period(18e6, 22e6);
    auto next = static_cast<std::int64_t>(period(random_));
    std::size_t i = 0;
    for (int done = 0, ops = 0; done < intervals; ++ops) {
      if (ops % burst == 0) i = pick(random_);
      const OpType& op = kOpTypes[i];
      const auto ns = static_cast<std::int64_t>(op.us * 1e3 * jitter(random_));
      Features x = features_of(op);
      x[0] = x[3] = static_cast<double>(ns) * 1e-3;
      const double uj = machine_.energy_uj(x, deviations_[i]);
      const Activity activity{now_,
                              now_ + ns,
                              static_cast<std::uint64_t>(op.mflop * 1e6),
                              0,
                              static_cast<std::uint64_t>(op.mbyte * 1e6),
                              kFirstOp + static_cast<RowId>(i),
                              1};
      while (now_ + ns > next) {  // the meter is read while the op runs
        advance(next, uj * static_cast<double>(next - now_) / static_cast<double>(ns));
        attribution.boundary(sample());
        next += static_cast<std::int64_t>(period(random_));
        ++done;
      }
      advance(activity.end_ns, uj - (energy_ - before_));
      before_ = energy_;
      replay.truth_uj[i] += uj;
      seconds[i] += static_cast<double>(ns);
      attribution.add(activity);
      attribution.close(now_);
    }
    attribution.boundary(sample());
    attribution.close(now_);
    attribution.check();
    collect(attribution, seconds, replay);
    return replay;
  }

 private:
  static constexpr double kQuantum = 61.03515625;  // 2^-14 J

  // The counter shows whole quanta, as of the last full millisecond.
  void advance(std::int64_t to, double uj) {
    const std::int64_t full = to / 1'000'000 * 1'000'000;
    if (full > now_)
      shown_ = energy_ + uj * static_cast<double>(full - now_) / static_cast<double>(to - now_);
    else if (full == now_)
      shown_ = energy_;
    energy_ += uj;
    now_ = to;
  }

  MeterSample sample() const {
    const auto uj = static_cast<std::int64_t>(std::floor(shown_ / kQuantum) * kQuantum);
    MeterSample s;
    s.reading.time_ns = now_;
    s.reading.domains[0] = Counted{{uj}, {uj}, {uj}};
    s.cpu_ns = now_;
    return s;
  }

  static void collect(const Attribution& a, const std::vector<double>& seconds, Replay& replay) {
    const std::vector<RowEnergy> energies = a.energies(0);
    double all = 0;
    for (const double s : seconds) all += s;
    for (std::size_t i = 0; i < kOpTypes.size(); ++i) {
      const RowEnergy& e = energies[kFirstOp + i];
      const double half = a.quantile(0) * std::sqrt(e.variance);
      replay.found_uj.push_back(static_cast<double>(e.energy_uj));
      replay.low_uj.push_back(static_cast<double>(e.energy_uj) - half);
      replay.high_uj.push_back(static_cast<double>(e.energy_uj) + half);
      replay.by_time_uj.push_back(static_cast<double>(a.total_uj(0)) * seconds[i] / all);
    }
  }

  const Machine machine_;
  std::mt19937_64 random_;
  std::vector<double> deviations_;
  std::int64_t now_ = 0;
  double energy_ = 0, before_ = 0, shown_ = 0;
};

}  // namespace hg::testing
