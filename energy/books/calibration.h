// The energy profile of a machine: what a second, a FLOP, a byte and a busy thread cost it. The
// attribution weighs ops by it; the meter gives the total. It is kept in a small JSON file with a
// version, so that a machine without a meter can use the profile of a similar one.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "energy/meters/meter.h"
#include "tensor/cost.h"

namespace hg::energy {

// In the order of kCoefficients: static_w, pj_per_flop, pj_per_byte, active_w_per_thread.
inline constexpr std::size_t kCoefficients = 4;
using Coefficients = std::array<double, kCoefficients>;
using Covariance = std::array<Coefficients, kCoefficients>;

// What a piece of work consists of, in units that make coefficient x feature microjoules:
// wall time in us, FLOPs and bytes in millions, thread time in us.
using Features = std::array<double, kCoefficients>;
constexpr double dot(const Coefficients& c, const Features& x) {
  return c[0] * x[0] + c[1] * x[1] + c[2] * x[2] + c[3] * x[3];
}

struct DomainModel {
  Coefficients coefficients{};
  Covariance covariance{};  // of their estimates
  double misfit = 0;        // relative standard deviation of a single op about the model
  int degrees = 1;          // of freedom left by the fit
};

// How long a fused op's parts take relative to each other.
struct PartTimes {
  double ps_per_flop_mm = 0, ps_per_flop_ew = 0, ps_per_byte = 0;
  double estimate(const Cost& cost) const {
    return ps_per_flop_mm * static_cast<double>(cost.flops_mm) +
           ps_per_flop_ew * static_cast<double>(cost.flops_ew) +
           ps_per_byte * static_cast<double>(cost.bytes());
  }
};

struct Calibration {
  std::string name;     // named in every result that used it
  std::string machine;  // CPU and threads it was made on
  std::string meter;    // the source it was fitted to
  std::array<std::optional<DomainModel>, kDomains> domains;
  PartTimes times;

  // A domain that the profile does not know is shared out as by the default one.
  DomainModel domain(std::size_t d) const;
};

// Throws UsageError in one line: source, key, what was expected and what was found.
Calibration parse_calibration(std::string_view text, const std::string& source);
Calibration load_calibration(const std::string& path);  // "": the default one
std::string to_json(const Calibration& calibration);

// Used where no profile is given: orders of magnitude with wide intervals (calibration.cpp says
// where each comes from).
const Calibration& default_calibration();

// The 97.5 % point of Student's distribution.
double student_quantile(int degrees);

}  // namespace hg::energy
