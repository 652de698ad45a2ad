// Fits the coefficients of an energy profile to microbenchmarks: energy = coefficients . features,
// with no coefficient below 0.
#pragma once

#include <span>
#include <string>

#include "energy/books/calibration.h"

namespace hg::energy {

// One microbenchmark, the mean of its trials.
struct BenchPoint {
  std::string name;
  Features features{};
  double energy_uj = 0;
};

// Least squares of the relative error, as a benchmark deviates from the model in proportion to its
// energy. Takes the best of all subsets of coefficients that come out positive. Throws if the
// points cannot tell the coefficients apart or don't follow the model at all.
DomainModel fit(std::span<const BenchPoint> points, const std::string& what);

}  // namespace hg::energy
