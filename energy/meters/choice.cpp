#include "energy/meters/choice.h"

#include <fmt/ranges.h>

#include <stdlib.h>

#include <algorithm>

#include "energy/meters/deadline.h"
#include "energy/meters/model_meter.h"
#include "energy/meters/nvml.h"
#include "energy/meters/rapl_powercap.h"
#include "tensor/base/clock.h"
#include "tensor/base/enum_names.h"
#include "tensor/cuda_device.h"

namespace hg::energy {
namespace {

// None from the environment of a program that has more rights than its user.
std::string variable(const char* name, const std::string& otherwise) {
  const char* value = ::secure_getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

// A millisecond of arithmetic: counters must move while a core works.
void work() {
  const std::int64_t end = now_ns() + 1'000'000;
  volatile double x = 1;
  while (now_ns() < end)
    for (int i = 0; i < 1000; ++i) x = x * 1.0000001;
}

using DomainSet = std::array<bool, kDomains>;

bool any(const DomainSet& set) { return std::find(set.begin(), set.end(), true) != set.end(); }

std::string names_of(const DomainSet& set) {
  std::vector<std::string> names;
  for (std::size_t d = 0; d < kDomains; ++d)
    if (set[d]) names.push_back(name_of_domain(d));
  return fmt::format("{}", fmt::join(names, ", "));
}

// The domains that moved and those that didn't, within so much work.
struct Probe {
  DomainSet moved{}, still{};
};
Probe probe(Meter& meter, Seconds longest) {
  const Reading first = meter.read();
  for (;;) {
    work();
    const Reading now = meter.read();
    Probe result;
    for (std::size_t d = 0; d < kDomains; ++d) {
      if (!now.domains[d]) continue;
      const bool moved = now.domains[d]->energy > first.domains[d]->energy;
      (moved ? result.moved : result.still)[d] = true;
    }
    if (!any(result.still) || from_ns(now.time_ns - first.time_ns) >= longest) return result;
  }
}

// Several meters as one: each gives the domains that were chosen from it.
class CombinedMeter final : public Meter {
 public:
  struct Part {
    std::unique_ptr<Meter> meter;
    DomainSet domains;
  };
  explicit CombinedMeter(std::vector<Part> parts) : parts_(std::move(parts)) {
    for (const Part& part : parts_) {
      if (!name_.empty()) name_ += '+';
      name_ += part.meter->name();
    }
  }

  std::string_view name() const override { return name_; }  // "rapl-perf+nvml"
  Kind kind() const override {
    Kind weakest = Kind::measured;
    for (const Part& part : parts_) weakest = std::max(weakest, part.meter->kind());
    return weakest;
  }
  Kind kind_of(Domain domain) const override {
    for (const Part& part : parts_)
      if (part.domains[static_cast<std::size_t>(domain)]) return part.meter->kind_of(domain);
    return Kind::unavailable;
  }
  ReadingError reading_error(Domain domain) const override {
    for (const Part& part : parts_)
      if (part.domains[static_cast<std::size_t>(domain)]) return part.meter->reading_error(domain);
    return {};
  }
  Watts max_power(Domain domain) const override {
    for (const Part& part : parts_)
      if (part.domains[static_cast<std::size_t>(domain)]) return part.meter->max_power(domain);
    return {};
  }
  std::string source() const override {
    std::string text;
    for (const Part& part : parts_) {
      if (!text.empty()) text += "; ";
      text += std::string(part.meter->name()) + ": " + part.meter->source();
    }
    return text;
  }
  Reading read() override {
    Reading all;
    for (Part& part : parts_) {
      const Reading one = part.meter->read();
      if (all.time_ns == 0) all.time_ns = one.time_ns;
      for (std::size_t d = 0; d < kDomains; ++d)
        if (part.domains[d]) {
          all.domains[d] = one.domains[d];
          all.as_of[d] = one.as_of[d].time_ns > 0 ? one.as_of[d] : AsOf{one.time_ns, 0};
        }
    }
    return all;
  }
  std::uint64_t faults() const override {
    std::uint64_t sum = 0;
    for (const Part& part : parts_) sum += part.meter->faults();
    return sum;
  }
  std::uint64_t faults_of(Domain domain) const override {
    for (const Part& part : parts_)
      if (part.domains[static_cast<std::size_t>(domain)]) return part.meter->faults();
    return 0;
  }
  std::vector<Fault> fault_list() const override {
    std::vector<Fault> all;
    for (const Part& part : parts_)
      for (Fault& fault : part.meter->fault_list()) all.push_back(std::move(fault));
    std::stable_sort(all.begin(), all.end(),
                     [](const Fault& a, const Fault& b) { return a.time_ns < b.time_ns; });
    return all;
  }

 private:
  std::vector<Part> parts_;
  std::string name_;
};

struct Source {
  std::string_view name;
  bool of_cpu;
  Opened (*open)(const MeterSetup&, const CpuInfo&);
};

// In order of preference.
constexpr Source kSources[] = {
    {kRaplPerf, true,
     [](const MeterSetup& s, const CpuInfo& cpu) { return open_perf(s.sys, cpu, *s.perf); }},
    {kRaplPowercap, true,
     [](const MeterSetup& s, const CpuInfo&) { return open_powercap(s.powercap_root); }},
    {kModel, true,
     [](const MeterSetup& setup, const CpuInfo& cpu) {
       return open_model(cpu, process_usage(setup.sharing));
     }},
    {kNvml, false,
     [](const MeterSetup& s, const CpuInfo&) {
       return open_with_deadline(
           kNvml, [library = s.nvml_library, gpu = s.gpu] { return open_nvml(library, gpu); },
           s.deadlines);
     }},
};

class Chooser {
 public:
  explicit Chooser(const MeterSetup& setup) : setup_(setup), cpu_(read_cpu_info(setup.sys)) {}

  MeterChoice choose() {
    std::vector<Source> sources(std::begin(kSources), std::end(kSources));
    if (setup_.powercap_first)
      std::ranges::stable_partition(sources,
                                    [](const Source& s) { return s.name == kRaplPowercap; });
    for (const Source& source : sources) consider(source);
    return {std::make_unique<CombinedMeter>(std::move(parts_)), std::move(candidates_)};
  }

 private:
  // One meter for package and dram: two would count the same counters, or mix what is measured
  // with what is modelled.
  void consider(const Source& source) {
    if (!source.of_cpu || parts_.empty()) return try_out(source.open(setup_, cpu_));
    const CombinedMeter::Part& used = parts_.front();
    candidates_.push_back(
        {std::string(source.name), Verdict::rejected,
         fmt::format("not needed: {} measures {}", used.meter->name(), names_of(used.domains)),
         ""});
  }

  void try_out(Opened opened) {
    Candidate& candidate = opened.candidate;
    if (opened.meter) {
      const Probe seen = probe(*opened.meter, setup_.probe);
      if (!any(seen.moved)) {
        candidate.verdict = Verdict::rejected;
        candidate.reason =
            fmt::format("did not move in {} s of work: {}", setup_.probe.value, candidate.reason);
      } else {
        if (any(seen.still))
          candidate.reason += "; left out, as it did not move: " + names_of(seen.still);
        parts_.push_back({std::move(opened.meter), seen.moved});
      }
    }
    candidates_.push_back(std::move(candidate));
  }

  MeterSetup setup_;
  CpuInfo cpu_;
  std::vector<CombinedMeter::Part> parts_;
  std::vector<Candidate> candidates_;
};

}  // namespace

std::string_view to_string(Verdict verdict) { return enum_name(verdict); }

MeterSetup MeterSetup::from_environment(Device device) {
  MeterSetup setup;
  const std::string usual = setup.powercap_root;
  setup.powercap_root = variable("HG_POWERCAP_ROOT", usual);
  setup.powercap_first = setup.powercap_root != usual;
  setup.nvml_library = variable("HG_NVML_LIB", setup.nvml_library);
  setup.gpu = variable("HG_NVML_GPU", device == Device::cuda ? cuda::pci_bus_id() : "");
  return setup;
}

MeterChoice open_meter(const MeterSetup& setup) { return Chooser(setup).choose(); }

}  // namespace hg::energy
