// Trains a model phase by phase and keeps the run folder: metrics.csv, model.safetensors and
// state.safetensors are whole after every epoch, and after the step at which a signal came.
#pragma once

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

struct RunResult {
  bool interrupted = false;
  Metrics metrics;  // of the last evaluation
  double test_loss = 0;
  Position position;
};

class Trainer {
 public:
  Trainer(const Config& config, const TrainerOptions& options);
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
  std::unique_ptr<Dataset> train_set_, test_set_;
  Loader train_loader_, test_loader_;
  Schedule schedule_;
  FlopCounter counter_;
  StopSignals signals_;
  Position position_;
  CsvLog log_;
  std::uint64_t flops_before_epoch_ = 0;
  RunResult result_;
};

}  // namespace hg
