// Trains a model phase by phase and keeps the run folder: metrics.csv, ledger.csv,
// model.safetensors and state.safetensors are whole after every epoch, and after the step at which
// a signal came or the energy budget was used up.
#pragma once

#include <optional>

#include "train/checkpoint.h"
#include "train/csv.h"
#include "train/evaluate.h"
#include "train/flop_counter.h"
#include "train/open_data.h"
#include "train/progress.h"
#include "train/run_energy.h"
#include "train/schedule.h"
#include "train/signals.h"

namespace hg {

struct TrainerOptions {
  std::string folder;
  bool resume = false;
  bool keep_energy = false;  // count what an earlier part of the run has used, also without state
  bool trace = false;
  ProgressMode progress = ProgressMode::plain;
};

struct Scores {
  double accuracy = 0, micro_f1 = 0, macro_f1 = 0;
};

enum class RunEnd { finished, interrupted, budget };

struct RunResult {
  RunEnd end = RunEnd::finished;
  std::optional<Scores> scores;  // of the last evaluation; none: ended before it
  Position position;
  std::int64_t steps = 0, test_images = 0;
  energy::Ledger energy;  // of the whole run
  energy::Grams co2;
  std::uint64_t faults = 0;  // of the meter
  std::string trace_note;    // what the trace could hold; empty: none was asked for
};

class Trainer {
 public:
  Trainer(const Config& config, RunData data, const TrainerOptions& options);
  RunResult run();

 private:
  void train(Progress& progress);
  bool train_epoch(Progress& progress);   // false: to stop, for the reason in result_.end
  bool finish_epoch(Progress& progress);  // the same, in the middle of evaluation
  bool must_stop();                       // a signal came or the budget is used up
  bool over_budget();
  void foretell_energy(Progress& progress);
  ProgressFields energy_fields() const;
  void save();
  LoaderOptions options_of(Split split);
  const PhaseConfig& phase() const { return config_.phases[0]; }

  const Config config_;
  const TrainerOptions options_;
  nn::Vit model_;
  Optimizer optimizer_;
  const RunData data_;
  std::unique_ptr<RunEnergy> energy_;  // outlives the loaders, which report to it
  Loader train_loader_, test_loader_;
  Schedule schedule_;
  FlopCounter counter_;
  StopSignals signals_;
  Position position_;
  CsvLog log_;
  std::vector<double> step_joules_;  // until the forecast is made
  double last_joules_ = 0;
  RunResult result_;
};

}  // namespace hg
