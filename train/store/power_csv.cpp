#include "train/store/power_csv.h"

#include <fmt/format.h>

#include <algorithm>

namespace hg {
namespace {

constexpr const char* kPowerColumns = "seconds,energy_j";
constexpr double kLeastSeconds = 0.4, kShareOfTime = 1e-3;  // between rows

}  // namespace

std::vector<PowerRow> read_power(const std::string& path) {
  std::vector<PowerRow> rows;
  for (const NumberRow& row : read_growing_csv(path, kPowerColumns))
    rows.push_back({row[0], row[1]});
  return rows;
}

PowerLog::PowerLog(const std::string& path, double seconds)
    : last_s_(seconds),
      file_(path, kPowerColumns, [seconds](const NumberRow& row) { return row[0] <= seconds; }) {}

std::string PowerLog::note(const PowerRow& row) {
  if (row.seconds < last_s_ + std::max(kLeastSeconds, kShareOfTime * row.seconds)) return "";
  last_s_ = row.seconds;
  file_.add(fmt::format("{:.3f},{:.6f}", row.seconds, row.energy_j));
  return file_.flush();
}

}  // namespace hg
