// Trains a model phase by phase and keeps the run folder: metrics.csv, ledger.csv,
// model.safetensors and state.safetensors are whole after every epoch, every run.save_minutes
// within one, and after the step at which a signal came or the energy budget was used up.
#pragma once

#include "train/phases/phase.h"
#include "train/run/init_from.h"
#include "train/run/progress.h"
#include "train/run/run_energy.h"
#include "train/run/signals.h"
#include "train/store/metrics_csv.h"
#include "train/store/steps_csv.h"

namespace hg {

struct RunOptions {
  std::string folder;   // exists; empty: another rank keeps it
  bool resume = false;  // go on with what is in it; nothing may be
  bool trace = false;
  ProgressMode progress = ProgressMode::plain;
  bool overview = false;  // begin with what is trained, on what, and how it is measured
};

// Whether there is a state in the folder to go on from; else the run begins, with run.init_from.
bool goes_on(const std::string& folder, bool resume);

struct RunEnding {
  RunEnd end = RunEnd::finished;
  std::int64_t steps = 0;  // of the last phase
  std::string trace_note;  // what the trace could hold; empty: none was asked for
  RunSummary summary;
};

class Trainer {
 public:
  Trainer(const Config& config, PhaseData data, const RunOptions& options);
  RunEnding run();

 private:
  Trainer(const Config& config, PhaseData data, const RunOptions& options, const RunState* state);
  std::unique_ptr<TrainingPhase> phase_at(std::int64_t index, const Safetensors* before,
                                          bool resumed);
  std::unique_ptr<TrainingPhase> first_phase(const RunState* state);
  void run_phase();
  void enter_next_phase();
  bool train_epoch(Progress& progress);   // false: to stop, for the reason in ending_.end
  bool finish_epoch(Progress& progress);  // the same, in the middle of evaluation
  // What the ranks tell each other after a step.
  struct Told {
    std::int64_t energy_uj = 0;
    std::int64_t unscored_images = 0;
    std::uint64_t data_flops = 0;
    bool stop = false, save = false, share_books = false;
    Told& operator+=(const Told& other);
  };
  // All ranks come to the same, after the same step; it books what `own` says and sets energy_uj_.
  Told agree(const StepReport& own = {});
  bool must_stop() { return agree().stop; }  // a signal came or the budget is used up
  bool over_budget();
  bool counts_joules() const;
  void predict(Progress& progress);
  double relative_flops(std::int64_t epoch) const;  // of a step then to one now
  ProgressFields energy_fields() const;
  Flops flops() const { return Flops(flops_beside_) += energy_->flops(); }  // of the whole run
  EpochRow row_of(const EpochReport& report, double seconds, energy::MicroJoules used) const;
  bool time_to_save() const;
  void check_same_weights() const;
  void tell_trouble(Progress& progress);  // that energy files cannot be written
  void save();
  void summarize(RunSummary& summary);

  const PhaseConfig& phase_config() const;
  const RunData& phase_data() const;
  std::string title() const;  // "epoch 2/5"

  const Config config_;
  const PhaseData data_;
  const RunOptions options_;
  const std::optional<InitialWeights> init_;  // of a run that begins
  StopSignals signals_;
  Position position_;
  std::unique_ptr<RunEnergy> energy_;  // outlives the phase, whose loaders report to it
  std::unique_ptr<TrainingPhase> phase_;
  MetricsLog log_;
  StepsLog steps_;
  Flops flops_beside_;  // of earlier parts and of loaders; evaluations to be done again taken off
  std::vector<std::string> notes_;   // for the user, before the first epoch
  std::vector<double> step_joules_;  // until the forecast is made
  double last_joules_ = 0;
  std::int64_t energy_uj_ = 0;       // as of the last agree() that counted
  std::vector<double> epoch_flops_;  // expected, of a step of each; none: no forecast is to be made
  std::int64_t saved_ns_ = 0;        // when the state was
  std::int64_t shared_ns_ = 0;       // when the first rank got the books of all
  RunEnding ending_;
};

}  // namespace hg
