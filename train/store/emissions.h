// emissions.csv: one row a run, in the columns, order and units of CodeCarbon 3, so that its tools
// read it. As there, power and energy columns include the site's PUE, which is applied once.
#pragma once

#include <optional>
#include <string>

#include "energy/books/carbon.h"
#include "energy/books/ledger.h"
#include "energy/meters/cpu_info.h"
#include "tensor/base/csv.h"

namespace hg {

const CsvRow& emissions_columns();

// Means over a run, or over a part of it.
struct MachineUse {
  double cpu_percent = 0, memory_percent = 0, memory_gb = 0;  // GB of 2^30 bytes, as CodeCarbon's
};

struct Emissions {
  std::string project, run_id, tracking_mode;
  double seconds = 0, pue = 1;
  std::array<std::optional<std::int64_t>, energy::kDomains> domain_uj;  // without PUE
  energy::CarbonIntensity intensity;
  energy::CpuInfo cpu;
  double memory_gb = 0;  // that the machine has
  MachineUse use;

  energy::Joules energy() const;  // of all domains
};

// What a domain has no meter for is left empty; without a GPU its energy is 0.
std::string emissions_csv(const Emissions& emissions);

// What a resumed run needs to know of the row its earlier part wrote: run_id, seconds, domains,
// use. Throws UsageError.
Emissions parse_emissions(std::string_view text, const std::string& source);

std::string random_uuid();

}  // namespace hg
