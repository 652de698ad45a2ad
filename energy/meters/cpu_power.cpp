#include "energy/meters/cpu_power.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace hg::energy {
namespace {

enum class Class { server, client };

struct Row {
  const char* vendor;
  int family, model;
  Class of;
  int threads, tdp_w;
  const char* name;
};

const Row kRows[] = {
#define HG_CPU_POWER(vendor, family, model, of, threads, tdp_w, name) \
  {#vendor, family, model, Class::of, threads, tdp_w, name},
#include "energy/meters/cpu_power.inc"
#undef HG_CPU_POWER
};

// How far from its TDP a socket at full load may be. Servers hold to it; desktops exceed it as long
// as they stay cool (Intel's maximum turbo power is up to twice the base power, AMD's socket limit
// 1.35 times the TDP). Work that waits for memory draws less.
constexpr double kFullLow = 0.5, kServerFullHigh = 1.2, kClientFullHigh = 2.0;
// The part of full power that is drawn at idle. Servers in SPECpower_ssj2008 idle at about a sixth
// to a third of their full power; deep sleep states go below, virtual machines' hosts never sleep.
constexpr double kIdleLow = 0.1, kIdle = 0.25, kIdleHigh = 0.5;

LinearPower linear(double full_w, double idle_part, int threads) {
  return {{full_w * idle_part}, {full_w * (1 - idle_part) / threads}};
}

std::vector<const Row*> rows_of(const CpuInfo& cpu) {
  const std::string vendor = cpu.is_amd() ? "AuthenticAMD" : cpu.vendor;
  std::vector<const Row*> rows;
  for (const Row& row : kRows)
    if (row.vendor == vendor && row.family == cpu.family && row.model == cpu.model)
      rows.push_back(&row);
  return rows;
}

// On a physical machine the row whose socket has about as many threads. A virtual machine doesn't
// see the socket; clouds buy the largest ones.
const Row* choose(const std::vector<const Row*>& rows, const CpuInfo& cpu) {
  const int per_socket = std::max(1, cpu.threads / cpu.packages);
  const auto distance = [&](const Row* row) {
    return cpu.virtual_machine ? -row->threads : std::abs(row->threads - per_socket);
  };
  return *std::min_element(rows.begin(), rows.end(),
                           [&](const Row* a, const Row* b) { return distance(a) < distance(b); });
}

// Watts of each thread when all are busy. A virtual machine has its threads' share of the socket, a
// physical one has all of it, however many of its threads are switched on.
double watts_per_thread(const Row& row, const CpuInfo& cpu) {
  return cpu.virtual_machine ? static_cast<double>(row.tdp_w) / row.threads
                             : static_cast<double>(row.tdp_w) * cpu.packages / cpu.threads;
}

CpuPower from_watts(double low, double likely, double high, Class of, int threads) {
  const double peak = of == Class::server ? kServerFullHigh : kClientFullHigh;
  return {linear(low * kFullLow * threads, kIdleLow, threads),
          linear(likely * threads, kIdle, threads),
          linear(high * peak * threads, kIdleHigh, threads), ""};
}

// The median of the table; its extremes are the bounds.
CpuPower generic(const CpuInfo& cpu) {
  std::vector<double> watts;
  for (const Row& row : kRows) watts.push_back(static_cast<double>(row.tdp_w) / row.threads);
  std::sort(watts.begin(), watts.end());
  const double middle = watts[watts.size() / 2];
  CpuPower power = from_watts(watts.front(), middle, watts.back(), Class::client, cpu.allowed);
  power.source = fmt::format("CPU not in the table: its median, {:.1f} W a thread, {} threads",
                             middle, cpu.allowed);
  return power;
}

}  // namespace

CpuPower cpu_power(const CpuInfo& cpu) {
  const std::vector<const Row*> rows = rows_of(cpu);
  if (rows.empty()) return generic(cpu);
  const Row* row = choose(rows, cpu);
  const bool known = !cpu.virtual_machine && row->threads * cpu.packages == cpu.threads;
  double low = watts_per_thread(*row, cpu), high = low;
  if (!known)
    for (const Row* other : rows) {
      low = std::min(low, watts_per_thread(*other, cpu));
      high = std::max(high, watts_per_thread(*other, cpu));
    }
  CpuPower power = from_watts(low, watts_per_thread(*row, cpu), high, row->of, cpu.allowed);
  power.source =
      fmt::format("CPU {} {}: TDP {} W for {} threads, {} here", known ? "as" : "of the family of",
                  row->name, row->tdp_w, row->threads, cpu.allowed);
  return power;
}

}  // namespace hg::energy
