// One phase of a run. A run is a list of phases, each made from the weights that the one before it
// left; the Trainer takes it through its epochs and keeps the files.
#pragma once

#include "train/config/phase_kind.h"
#include "train/phases/epoch_report.h"
#include "train/step/open_data.h"
#include "train/store/checkpoint.h"

namespace hg {

// What a phase is made of beside weights.
struct PhaseSetting {
  const Config& config;
  std::size_t index;  // among config.phases
  const RunData& data;
  // Told what a loader's thread has worked on (LoaderOptions::on_work).
  std::function<void(Split, std::int64_t start_ns, std::int64_t end_ns)> on_loading;
  std::string weights_source = "state.safetensors";  // of the weights it begins with, for messages

  const PhaseConfig& phase() const { return config.phases[index]; }
  LoaderOptions loading(Split split) const;  // as the configuration says
  std::uint64_t seed() const;  // of shuffling, augmentation and dropout: every phase has its own
};

struct StepReport {
  std::int64_t images = 0;
  double loss = 0;      // mean over the images
  double sparsity = 0;  // ... and of it the sparsity term, without its weight
  double learning_rate = 0;
  std::int64_t tokens = 0;           // of all images
  std::int64_t unscored_images = 0;  // whose patches were not chosen by score, for want of one
  std::uint64_t data_flops = 0;      // done for them in the loader's thread
};

// What is not said otherwise is that of a phase without training steps.
class TrainingPhase {
 public:
  virtual ~TrainingPhase() = default;

  virtual std::int64_t batches() const { return 0; }  // of an epoch
  virtual std::int64_t steps() const { return 0; }    // of the optimizer so far, in this phase

  // An epoch: started at batch `first`, then step() until it gives none, then finish_epoch().
  virtual void start_epoch(std::int64_t /*epoch*/, std::int64_t /*first*/) {}
  virtual std::optional<StepReport> step() { return std::nullopt; }
  // Evaluates, asking `stop` now and then; none: it said yes.
  virtual std::optional<EpochReport> finish_epoch(const std::function<bool()>& stop) = 0;

  virtual ModelWeights weights() const = 0;
  virtual std::int64_t trained_parameters() const { return 0; }  // elements of those it trains
  virtual NamedTensors moments() const { return {}; }
  virtual void load_moments(const RunState&) {}
};

}  // namespace hg
