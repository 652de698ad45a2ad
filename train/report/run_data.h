// What a report shows of a run, read from its folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "energy/books/ledger.h"

namespace hg::report {

struct Interval {
  double value = 0, low = 0, high = 0;
};

struct Epoch {
  double number = 0;  // among those of all phases that train
  std::optional<double> train_loss, test_loss, accuracy, micro_f1, macro_f1;  // none: not judged so
  double energy_j = 0, seconds = 0;
};

struct Prediction {
  Interval joules;
  double step = 0;
  std::optional<double> actual_j;
};

struct RunData {
  std::string folder, name, status, config;
  std::vector<Epoch> epochs;
  std::vector<energy::LedgerRow> rows;  // of the ledger
  Interval joules;
  std::string kind, meter, source, profile;
  std::optional<double> co2_g, g_per_kwh, pue, flops, images, test_images, seconds, peak_rss_bytes;
  std::string country, carbon_source;
  std::optional<Prediction> prediction;

  double total_uj() const;  // of the ledger
  std::optional<double> final_f1() const;
  std::string provenance() const;   // kind, meter and profile, for a caption
  std::string source_text() const;  // the same at length
};

// Throws UsageError where the folder holds no run or a file of it is damaged. A run that was killed
// has no summary: its figures then come from the ledger.
RunData read_run(const std::string& folder);

}  // namespace hg::report
