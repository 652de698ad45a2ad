// Trains a model phase by phase and keeps the run folder: metrics.csv, model.safetensors and
// state.safetensors are whole after every epoch, and after the step at which a signal came.
#pragma once

#include <optional>

#include "train/checkpoint.h"
#include "train/csv.h"
#include "train/evaluate.h"
#include "train/flop_counter.h"
#include "train/open_data.h"
#include "train/progress.h"
#include "train/schedule.h"
#include "train/signals.h"

namespace hg {

struct TrainerOptions {
  std::string folder;
  bool resume = false;
  ProgressMode progress = ProgressMode::plain;
};

struct Scores {
  double accuracy = 0, micro_f1 = 0, macro_f1 = 0;
};

struct RunResult {
  bool interrupted = false;
  std::optional<Scores> scores;  // of the last evaluation; none: interrupted before it
  Position position;
};

class Trainer {
 public:
  Trainer(const Config& config, RunData data, const TrainerOptions& options);
  RunResult run();

 private:
  bool train_epoch(Progress& progress);  // false: a signal asked to stop
  void finish_epoch(Progress& progress);
  void save();
  const PhaseConfig& phase() const { return config_.phases[0]; }

  const Config config_;
  const TrainerOptions options_;
  nn::Vit model_;
  Optimizer optimizer_;
  const RunData data_;
  Loader train_loader_, test_loader_;
  Schedule schedule_;
  FlopCounter counter_;
  StopSignals signals_;
  Position position_;
  CsvLog log_;
  RunResult result_;
};

}  // namespace hg
