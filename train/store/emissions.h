// emissions.csv: one row a run, in the columns, order and units of CodeCarbon 3, so that its tools
// read it. As there, power and energy columns include the site's PUE, which is applied once.
#pragma once

#include "energy/books/carbon.h"
#include "energy/books/ledger.h"
#include "energy/meters/cpu_info.h"

namespace hg {

// Means over a run, or over a part of it.
struct MachineUse {
  double cpu_percent = 0, memory_percent = 0, memory_gb = 0;  // GB of 2^30 bytes, as CodeCarbon's
  // Sums: time on cores, and time that threads waited for one.
  double cpu_run_s = 0, cpu_wait_s = 0;
};

// What the row says beside the energy.
struct Emissions {
  std::string project, run_id, tracking_mode;
  double pue = 1;
  energy::CarbonIntensity intensity;
  energy::CpuInfo cpu;
  double memory_gb = 0;  // that the machine has
  MachineUse use;
};

// What a domain has no meter for is left empty; without a GPU its energy is 0.
std::string emissions_csv(const Emissions& emissions, const energy::Ledger& ledger);

std::string random_uuid();

}  // namespace hg
