#include "energy/meters/rapl_perf.h"

#include <fmt/ranges.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <set>

#include "energy/meters/channel_meter.h"
#include "energy/meters/rapl_limits.h"
#include "energy/meters/sysfs.h"

namespace hg::energy {
namespace {

class KernelPerf final : public PerfSystem {
 public:
  int open(std::uint32_t type, std::uint64_t config, int cpu) override {
    perf_event_attr attributes{};
    attributes.type = type;
    attributes.size = sizeof attributes;
    attributes.config = config;
    const long fd = syscall(SYS_perf_event_open, &attributes, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    return fd >= 0 ? static_cast<int>(fd) : -errno;
  }
  long read(int fd, void* to, std::size_t bytes) override {
    const ssize_t n = ::read(fd, to, bytes);
    return n >= 0 ? n : -errno;
  }
  void close(int fd) override { ::close(fd); }
};

// One event on one CPU; counts are in the event's own unit.
class PerfCounter {
 public:
  PerfCounter(PerfSystem& perf, int fd, double uj_per_count)
      : perf_(perf), fd_(fd), uj_per_count_(uj_per_count) {}
  ~PerfCounter() { perf_.close(fd_); }
  PerfCounter(const PerfCounter&) = delete;
  PerfCounter& operator=(const PerfCounter&) = delete;

  RawRead read(std::int64_t now_ns) const {
    std::uint64_t count = 0;
    if (perf_.read(fd_, &count, sizeof count) != sizeof count)  // 0: its CPU was taken off-line
      return {now_ns, ReadStatus::failed, 0};
    const double uj = static_cast<double>(count) * uj_per_count_;
    constexpr double kTooMuch = 1e18;
    if (uj > kTooMuch) return {now_ns, ReadStatus::garbage, 0};
    return {now_ns, ReadStatus::good, static_cast<std::uint64_t>(uj)};
  }

 private:
  PerfSystem& perf_;
  int fd_;
  double uj_per_count_;
};

struct Event {
  std::string name;
  Domain domain;
  std::uint64_t config;
  double uj_per_count;
};

// "event=0x02"
std::optional<std::uint64_t> parse_config(const std::string& text) {
  constexpr std::string_view kStart = "event=";
  if (!text.starts_with(kStart)) return std::nullopt;
  const std::string number = text.substr(kStart.size());
  if (number.starts_with("0x") && number.size() <= 18 &&
      number.find_first_not_of("0123456789abcdefABCDEF", 2) == std::string::npos)
    return std::strtoull(number.c_str(), nullptr, 16);
  return parse_number<std::uint64_t>(number);
}

// None: the PMU has no such event, or describes it in a way that makes no sense.
std::optional<Event> find_event(const std::string& pmu, const std::string& name, Domain domain) {
  const std::string path = pmu + "/events/" + name;
  const auto text = read_small_file(path), scale = read_small_file(path + ".scale"),
             unit = read_small_file(path + ".unit");
  const auto config = text ? parse_config(*text) : std::nullopt;
  const double joules = scale ? parse_number<double>(*scale).value_or(0) : 0;
  if (!config || !unit || *unit != "Joules" || !(joules > 0 && joules < 1)) return std::nullopt;
  return Event{name, domain, *config, joules * 1e6};
}

// "0,18" or "0-1": one CPU for each package or die.
std::vector<int> parse_cpus(const std::string& text) {
  constexpr std::uint64_t kMostCpus = 65536;
  std::vector<int> cpus;
  for (const std::string_view part : split(text, ',')) {
    const std::size_t dash = part.find('-');
    const auto first = parse_number<std::uint64_t>(part.substr(0, dash));
    const auto last =
        dash == part.npos ? first : parse_number<std::uint64_t>(part.substr(dash + 1));
    if (!first || !last || *last < *first || *last >= kMostCpus) return {};
    for (std::uint64_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

// AMD counts per package, but kernels before 6.10 list a CPU for each die of it.
std::vector<int> one_per_package(const std::vector<int>& cpus, const std::string& sys) {
  std::vector<int> kept;
  std::set<std::uint64_t> packages;
  for (const int cpu : cpus) {
    const auto package = read_number(
        fmt::format("{}/devices/system/cpu/cpu{}/topology/physical_package_id", sys, cpu));
    if (!package || packages.insert(*package).second) kept.push_back(cpu);
  }
  return kept;
}

Opened not_opened(const Event& event, int cpu, int error) {
  const std::string reason = fmt::format("{} on cpu {}: {}", event.name, cpu, std::strerror(error));
  if (error != EACCES && error != EPERM) return refused(kRaplPerf, Verdict::rejected, reason);
  return refused(kRaplPerf, Verdict::rejected, reason + " (perf_event_paranoid, or a container)",
                 fmt::format("sudo sysctl kernel.perf_event_paranoid=0  # for {}", kOpenToAll));
}

}  // namespace

PerfSystem& kernel_perf() {
  static KernelPerf perf;
  return perf;
}

Opened open_perf(const std::string& sys, const CpuInfo& cpu, PerfSystem& perf) {
  const std::string pmu = sys + "/bus/event_source/devices/power";
  const auto type = read_number(pmu + "/type");
  if (!type)
    return refused(
        kRaplPerf, Verdict::absent,
        pmu + " is not there: no driver of RAPL, or a virtual machine whose host gives it none",
        "sudo modprobe rapl");
  std::vector<Event> events;
  for (const auto& [name, domain] :
       {std::pair("energy-pkg", Domain::package), std::pair("energy-ram", Domain::dram)})
    if (auto event = find_event(pmu, name, domain)) events.push_back(std::move(*event));
  if (events.empty()) {
    const bool psys = read_small_file(pmu + "/events/energy-psys").has_value();
    return refused(kRaplPerf, Verdict::rejected,
                   psys ? "energy-psys alone: the whole platform, and 0 for ever in many virtual "
                          "machines; no energy-pkg, no energy-ram"
                        : pmu + "/events: no energy-pkg, no energy-ram");
  }
  std::vector<int> cpus = parse_cpus(read_small_file(pmu + "/cpumask").value_or(""));
  if (cpus.empty())
    return refused(kRaplPerf, Verdict::rejected, pmu + "/cpumask: expected CPU numbers");
  if (cpu.is_amd()) cpus = one_per_package(cpus, sys);

  std::vector<std::string> names;
  for (const Event& event : events) names.push_back(event.name);
  const std::string source =
      fmt::format("{} on cpu {}", fmt::join(names, ", "), fmt::join(cpus, ", "));
  auto meter = std::make_unique<ChannelMeter>(kRaplPerf, source);
  for (const Event& event : events)
    for (const int c : cpus) {
      const int fd = perf.open(static_cast<std::uint32_t>(*type), event.config, c);
      if (fd < 0) return not_opened(event, c, -fd);
      const auto counter = std::make_shared<const PerfCounter>(perf, fd, event.uj_per_count);
      meter->add(event.domain,
                 CounterSpec{fmt::format("{} cpu {}", event.name, c), 0,
                             rapl_max_power(event.domain), kRaplSlack, kLongestStill},
                 [counter](std::int64_t now_ns) { return counter->read(now_ns); });
    }
  return {{kRaplPerf, Verdict::used, source, ""}, std::move(meter)};
}

}  // namespace hg::energy
