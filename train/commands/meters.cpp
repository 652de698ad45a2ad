// hgtrain meters: every energy meter considered, and with --watch the joules of the one in use.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "energy/meters/choice.h"
#include "tensor/base/columns.h"
#include "tensor/base/text.h"
#include "tensor/cuda_device.h"
#include "train/commands/commands.h"

namespace hg {
namespace {

using energy::Counted;
using energy::Domain;
using energy::MeterChoice;
using energy::Reading;
using Json = nlohmann::ordered_json;

constexpr auto kPause = std::chrono::milliseconds(20);

struct Watched {
  Reading first, last;
  std::uint64_t faults = 0;

  double seconds() const { return energy::from_ns(last.time_ns - first.time_ns).value; }
  // The difference of one member of Counted, over the domains that the meter has.
  std::optional<double> joules(std::size_t domain, energy::MicroJoules Counted::*part) const {
    if (!first.domains[domain] || !last.domains[domain]) return std::nullopt;
    return energy::to_joules((*last.domains[domain]).*part - (*first.domains[domain]).*part).value;
  }
  double total(energy::MicroJoules Counted::*part) const {
    double sum = 0;
    for (std::size_t d = 0; d < energy::kDomains; ++d) sum += joules(d, part).value_or(0);
    return sum;
  }
  // Where the first reading fell into a fault its bounds were wider than the last one's.
  double low() const { return std::min(total(&Counted::low), total(&Counted::energy)); }
  double high() const { return std::max(total(&Counted::high), total(&Counted::energy)); }
};

Watched watch(energy::Meter& meter, double seconds) {
  const std::uint64_t faults = meter.faults();
  const Reading first = meter.read();
  Watched watched{first, first, 0};
  do {
    const std::chrono::duration<double> left(seconds - watched.seconds());
    std::this_thread::sleep_for(std::min<std::chrono::duration<double>>(left, kPause));
    watched.last = meter.read();
  } while (watched.seconds() < seconds);
  watched.faults = meter.faults() - faults;
  return watched;
}

Json to_json(const Watched& watched) {
  Json joules = Json::object();
  for (std::size_t d = 0; d < energy::kDomains; ++d)
    if (const auto j = watched.joules(d, &Counted::energy)) joules[energy::name_of_domain(d)] = *j;
  return {{"seconds", watched.seconds()},
          {"energy_j", joules},
          {"low_j", watched.low()},
          {"high_j", watched.high()},
          {"faults", watched.faults}};
}

void print_json(const MeterChoice& choice, const std::optional<Watched>& watched) {
  Json out{{"meters", Json::array()}};
  for (const energy::Candidate& c : choice.candidates)
    out["meters"].push_back({{"name", c.name},
                             {"verdict", energy::to_string(c.verdict)},
                             {"reason", c.reason},
                             {"enable", c.enable}});
  if (watched) out["watch"] = to_json(*watched);
  // Paths in reasons may hold bytes that are no UTF-8.
  fmt::print("{}\n", out.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void print_table(const MeterChoice& choice) {
  constexpr std::size_t kWhy = 25;  // where it begins
  const auto row = [](std::string_view meter, std::string_view verdict, std::string_view why) {
    const std::string left = fmt::format("{:<14} {}", meter, verdict);
    fmt::print("{}\n", hanging(trimmed(left), why, columns_of(stdout), kWhy));
  };
  row("meter", "verdict", "why");
  for (const energy::Candidate& c : choice.candidates) {
    row(c.name, energy::to_string(c.verdict), c.reason);
    // A command to be copied stays in one piece.
    if (!c.enable.empty()) fmt::print("{:<{}}to enable it: {}\n", "", kWhy, c.enable);
  }
}

void print_watched(const energy::Meter& meter, const Watched& watched) {
  const double seconds = watched.seconds();
  fmt::print("\n{:.2f} s of {}\n", seconds, meter.name());
  for (std::size_t d = 0; d < energy::kDomains; ++d)
    if (const auto j = watched.joules(d, &Counted::energy))
      fmt::print("{:<8} {:>12.3f} J {:>10.3f} W  {}\n", energy::name_of_domain(d), *j, *j / seconds,
                 energy::to_string(meter.kind_of(static_cast<Domain>(d))));
  fmt::print("{:<8} {:>12.3f} J, between {:.3f} and {:.3f}; {} faults\n", "together",
             watched.total(&Counted::energy), watched.low(), watched.high(), watched.faults);
  constexpr std::size_t kShown = 20;
  const std::vector<energy::Fault> faults = meter.fault_list();
  for (std::size_t i = 0; i < std::min(kShown, faults.size()); ++i)
    fmt::print("  {:>8.3f} s  {}: {}\n",
               energy::from_ns(faults[i].time_ns - watched.first.time_ns).value, faults[i].zone,
               energy::to_string(faults[i].kind));
  if (meter.faults() > kShown) fmt::print("  and {} more\n", meter.faults() - kShown);
}

}  // namespace

int meters_command(const MetersOptions& options) {
  const Device device = cuda::unavailable().empty() ? Device::cuda : Device::cpu;
  const MeterChoice choice = energy::open_meter(energy::MeterSetup::from_environment(device));
  std::optional<Watched> watched;
  if (options.json) {
    if (options.watch) watched = watch(*choice.meter, *options.watch);
    print_json(choice, watched);
    return 0;
  }
  print_table(choice);
  std::fflush(stdout);
  if (options.watch) print_watched(*choice.meter, watch(*choice.meter, *options.watch));
  return 0;
}

}  // namespace hg
