#include "train/run/forecast.h"

#include <algorithm>
#include <cmath>

#include "energy/books/calibration.h"

namespace hg {
namespace {

// Standard deviations of what first steps cannot show, relative: the power and speed of a machine
// drift over hours, and evaluation is judged by its FLOPs alone.
constexpr double kDrift = 0.08, kEvaluation = 0.3;
constexpr double kSingleStep = 0.5;  // spread assumed where there is one step only
constexpr std::size_t kEnoughToDropFirst = 3;

struct Spread {
  double mean = 0, deviation = 0;
  std::size_t count = 0;
};

Spread spread_of(std::span<const double> values) {
  Spread s{0, 0, values.size()};
  for (const double v : values) s.mean += v / static_cast<double>(s.count);
  if (s.count == 1) s.deviation = kSingleStep * s.mean;
  if (s.count < 2) return s;
  double squares = 0;
  for (const double v : values) squares += (v - s.mean) * (v - s.mean);
  s.deviation = std::sqrt(squares / static_cast<double>(s.count - 1));
  return s;
}

}  // namespace

std::int64_t forecast_step(std::int64_t steps_of_epoch) {
  return std::clamp<std::int64_t>((steps_of_epoch + 9) / 10,
                                  std::min<std::int64_t>(5, steps_of_epoch), 200);
}

// Left: n steps of mean m. Its variance: that of the estimated mean, n^2 s^2 / k, that of the steps
// themselves, n s^2, and the relative ones above.
Forecast predict_energy(std::span<const double> steps_j, const Outlook& outlook) {
  const auto made_after = static_cast<std::int64_t>(steps_j.size());
  if (steps_j.size() >= kEnoughToDropFirst) steps_j = steps_j.subspan(1);
  const Spread s = spread_of(steps_j);
  const double n = outlook.steps_left + outlook.evaluations, left = n * s.mean;
  const double sampling = s.deviation * std::sqrt(n * n / static_cast<double>(s.count) + n);
  const double unseen = std::hypot(kDrift * left, kEvaluation * outlook.evaluations * s.mean);
  const int degrees = std::max(1, static_cast<int>(s.count) - 1);
  const double half = std::hypot(energy::student_quantile(degrees) * sampling,
                                 energy::student_quantile(1000) * unseen);
  const double likely = outlook.so_far_j + left;
  return {made_after, {likely, std::max(outlook.so_far_j, likely - half), likely + half}};
}

}  // namespace hg
