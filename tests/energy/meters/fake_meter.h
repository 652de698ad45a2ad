// Meters for tests: one that shows what it is told, and one that draws a constant power.
#pragma once

#include <atomic>

#include "energy/meters/meter.h"
#include "tensor/backend.h"
#include "tensor/base/error.h"

namespace hg::testing {

using namespace hg::energy;

inline std::optional<Counted> counted(std::int64_t uj) { return Counted{{uj}, {uj}, {uj}}; }

// Package: `watts` of wall time, in whole quanta; dram: a tenth of it.
class SteadyMeter final : public Meter {
 public:
  explicit SteadyMeter(double watts, Kind kind = Kind::measured) : watts_(watts), kind_(kind) {}
  std::string_view name() const override { return "fake"; }
  Kind kind() const override { return kind_; }
  std::string source() const override { return "a fake of steady power"; }
  std::uint64_t faults() const override { return 0; }
  Reading read() override {
    ++reads;
    require(!lost, "fake", "the meter is lost");
    Reading r;
    r.time_ns = backend(Device::cpu).timestamp_ns();
    const auto uj =
        static_cast<std::int64_t>(static_cast<double>(r.time_ns - start_) * 1e-3 * watts_);
    r.domains[0] = counted(uj / 61 * 61);
    r.domains[1] = counted(uj / 10);
    return r;
  }

  std::atomic<int> reads{0};
  std::atomic<bool> lost{false};

 private:
  const double watts_;
  const Kind kind_;
  const std::int64_t start_ = backend(Device::cpu).timestamp_ns();
};

}  // namespace hg::testing
