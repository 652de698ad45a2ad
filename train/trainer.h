// Trains a model phase by phase and keeps the run folder: metrics.csv, model.safetensors and
// state.safetensors are whole after every epoch, and after the step at which a signal came.
#pragma once

#include "train/csv.h"
#include "train/flop_counter.h"
#include "train/phases/phase.h"
#include "train/progress.h"
#include "train/signals.h"

namespace hg {

struct TrainerOptions {
  std::string folder;
  bool resume = false;
  ProgressMode progress = ProgressMode::plain;
};

struct RunResult {
  bool interrupted = false;
  std::optional<Scores> scores;  // of the last evaluation; none: there was none yet
  Position position;
};

class Trainer {
 public:
  Trainer(const Config& config, PhaseData data, const TrainerOptions& options);
  RunResult run();

 private:
  Trainer(const Config& config, PhaseData data, const TrainerOptions& options,
          const RunState* state);
  std::unique_ptr<TrainingPhase> phase_at(std::int64_t index, const Safetensors* before,
                                          bool resumed) const;
  void run_phase();
  void enter_next_phase();
  bool train_epoch(Progress& progress);  // false: a signal asked to stop
  void finish_epoch(Progress& progress);
  void save();

  const PhaseConfig& phase_config() const;
  std::string title() const;  // "epoch 2/5"

  const Config config_;
  const PhaseData data_;
  const TrainerOptions options_;
  FlopCounter counter_;
  StopSignals signals_;
  Position position_;
  std::unique_ptr<TrainingPhase> phase_;
  CsvLog log_;
  RunResult result_;
};

}  // namespace hg
