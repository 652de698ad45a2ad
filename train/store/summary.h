// summary.json: what a run came to.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "energy/meters/meter.h"
#include "tensor/base/enum_names.h"
#include "tensor/base/text.h"

namespace hg {

enum class RunEnd { finished, interrupted, budget };  // their names are the status of a summary
inline constexpr std::string_view kFinished = enum_name(RunEnd::finished);

inline constexpr double kFullCpuShare = 0.9;  // with less, a run was held up by other work

// The energy of a whole run, as predicted early in its first epoch.
struct Forecast {
  std::int64_t step = 0;  // made after so many steps; 0: not made yet
  Interval energy_j;      // what the meter will say at the end; 95 %
  bool made() const { return step > 0; }
};

// How patches were selected in training.
struct SelectionSummary {
  std::string mode;
  std::int64_t kept = 0, kept_end = 0, patches = 0;  // kept in the first and last epoch
  bool saves = false;                                // zeroed patches stay in the sequence
  std::int64_t unscored_images = 0;  // whose patches were not chosen by score, for want of one
};

// The sparsity term of the loss, and what it achieved.
struct SparsitySummary {
  std::string kind;
  double weight = 0;
  std::optional<double> term, small_weights, effective_support;
};

// What several ranks took to work together. A mean over ranks, but for bytes and joules.
struct Scaling {
  double wait_s = 0, exchange_s = 0, share = 0;  // share: of the run's time, not hidden by work
  std::uint64_t exchange_bytes = 0;
  double energy_j = 0;
};

struct RunSummary {
  std::string name, status;                            // finished, interrupted, budget
  std::optional<double> accuracy, micro_f1, macro_f1;  // of the last evaluation
  Interval energy_j;
  std::string energy_kind, energy_source, energy_meter, energy_profile;
  double energy_seconds = 0;  // of the meter
  double co2_g = 0;
  double seconds = 0;  // of training and evaluation
  std::uint64_t flops = 0, flops_matmul = 0;
  std::int64_t images = 0, test_images = 0, trained_parameters = 0;
  std::uint64_t peak_rss_bytes = 0, meter_faults = 0;
  std::optional<double> joules_per_f1;
  std::string country, carbon_source;
  double carbon_g_per_kwh = 0, pue = 1;
  std::optional<double> cpu_share;  // of the cores it asked for; none: the kernel does not tell
  std::string meter_notes;          // which zones had which faults; empty: none had any
  std::string energy_unsaved;       // why the last books could not be written; empty: they were
  Forecast prediction;

  // For the user; empty: it got the cores it asked for, as far as is known.
  std::string cpu_share_note() const;

  // Written, but not read.
  std::array<std::optional<double>, energy::kDomains> domain_j;
  std::optional<energy::Watts> idle_before, idle_after;
  std::optional<SelectionSummary> select;
  std::optional<SparsitySummary> sparsity;
  std::int64_t ranks = 1, hosts = 1;
  std::optional<Scaling> scaling;         // of several ranks
  std::map<std::string, double> figures;  // of the last evaluation, beside its scores
};

std::string to_json(const RunSummary& summary, int indent = -1);  // -1: on one line
// Throws UsageError for a damaged file. What it lacks stays as it is.
void read_summary(const std::string& path, RunSummary& summary);

}  // namespace hg
