#include "energy/meters/model_meter.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "energy/meters/faults.h"
#include "energy/meters/sysfs.h"
#include "tensor/base/clock.h"
#include "tensor/cpu/parallel.h"

namespace hg::energy {
namespace {

// A module of 8 GB draws about 3 W, the rule of thumb of memory makers; idle DDR5 draws less than
// a third of that per GB, small DDR4 modules under load more than twice. Only memory in use counts:
// that of the whole machine would outweigh the CPU of a small job that never asked for it.
constexpr double kWattsPerGbLow = 0.1, kWattsPerGb = 0.375, kWattsPerGbHigh = 1.0;

// Resident pages: the second number of /proc/self/statm.
std::optional<double> resident_gb(const OpenFile& statm, double page_gb) {
  char text[128];
  const long n = statm.read(text, sizeof text);
  if (n <= 0) return std::nullopt;
  const std::string_view fields(text, static_cast<std::size_t>(n));
  const std::size_t begin = std::min(fields.find(' '), fields.size() - 1) + 1;
  const auto pages = parse_number<double>(fields.substr(begin, fields.find(' ', begin) - begin));
  return pages ? std::optional(*pages * page_gb) : std::nullopt;
}

class ProcessUsage {
 public:
  explicit ProcessUsage(int sharing) : statm_(std::make_shared<OpenFile>()), sharing_(sharing) {
    statm_->open("/proc/self/statm");
  }

  Usage operator()() {
    Usage now;
    now.time_ns = now_ns();
    now.cpu_s = process_cpu_s();
    now.threads = sharing_ * cpu::threads();
    const auto memory = resident_gb(*statm_, page_gb_);
    now.complete = memory.has_value();
    memory_gb_ = memory.value_or(memory_gb_);
    now.memory_gb = memory_gb_;
    return now;
  }

 private:
  std::shared_ptr<OpenFile> statm_;  // shared by the copies that std::function makes
  int sharing_;
  double page_gb_ = static_cast<double>(sysconf(_SC_PAGESIZE)) * 1e-9, memory_gb_ = 0;
};

// Low, likely and high sums; each only grows.
struct Sums {
  double low_uj = 0, uj = 0, high_uj = 0;

  Counted counted() const {
    const auto whole = [](double x) { return MicroJoules{static_cast<std::int64_t>(x)}; };
    return {whole(uj), whole(low_uj), whole(high_uj)};
  }
};

class ModelMeter final : public Meter {
 public:
  ModelMeter(CpuPower power, std::function<Usage()> usage)
      : power_(std::move(power)), usage_(std::move(usage)), last_(usage_()) {}

  std::string_view name() const override { return kModel; }
  Kind kind() const override { return Kind::modelled; }
  std::string source() const override {
    return fmt::format("{}; memory in use at {} W per GB", power_.source, kWattsPerGb);
  }
  std::uint64_t faults() const override { return log_.count(); }
  std::vector<Fault> fault_list() const override { return log_.list(); }

  Reading read() override {
    const Usage now = usage_();
    if (!now.complete) log_.add(FaultKind::failed_read, now.time_ns, memory_zone_);
    const double busy_s = std::max(0.0, now.cpu_s - last_.cpu_s);
    const double work_s = busy_s / std::max(1, now.threads);
    const double gb_s = (now.memory_gb + last_.memory_gb) / 2 * work_s;
    const auto cpu_uj = [&](const LinearPower& p) {
      return (p.idle.value * work_s + p.busy_thread.value * busy_s) * 1e6;
    };
    package_.low_uj += cpu_uj(power_.low);
    package_.uj += cpu_uj(power_.likely);
    package_.high_uj += cpu_uj(power_.high);
    dram_.low_uj += kWattsPerGbLow * gb_s * 1e6;
    dram_.uj += kWattsPerGb * gb_s * 1e6;
    dram_.high_uj += kWattsPerGbHigh * gb_s * 1e6;
    last_ = now;

    Reading reading;
    reading.time_ns = now.time_ns;
    add_to(reading, Domain::package, package_.counted());
    add_to(reading, Domain::dram, dram_.counted());
    return reading;
  }

 private:
  CpuPower power_;
  std::function<Usage()> usage_;
  Usage last_;
  FaultLog log_;
  FaultLog::Zone memory_zone_ = log_.add_zone("memory in use");
  Sums package_, dram_;
};

}  // namespace

std::function<Usage()> process_usage(int sharing) { return ProcessUsage(sharing); }

Opened open_model(const CpuInfo& cpu, std::function<Usage()> usage) {
  auto meter = std::make_unique<ModelMeter>(cpu_power(cpu), std::move(usage));
  return {{kModel, Verdict::used, meter->source(), ""}, std::move(meter)};
}

}  // namespace hg::energy
