// What a kind of phase says of itself. Each kind stands in its own file of train/phases; the one
// table of them is train/phases/registry.cpp.
#pragma once

#include <memory>

#include "data/dataset.h"
#include "train/config/config.h"
#include "train/config/load.h"

namespace hg {

class Learner;
class TrainingPhase;
struct LearnerSetting;
struct LoaderOptions;
struct PhaseSetting;
struct RunData;
struct Safetensors;

// The batch of a step, for those who make one up.
struct BatchShape {
  std::int64_t images = 0;   // views of images count each
  std::int64_t classes = 1;  // labels are 0, 1, ... classes - 1, and again
  std::int64_t views = 1;    // of an image: so many follow each other
};

struct PhaseKind {
  std::string_view name;        // as in [[phase]] kind
  bool learns_classes = false;  // so that the terms of [loss] act in it
  bool finds_boxes = false;     // its images need boxes, its model a box head
  bool prunes = false;
  std::string_view heads = "";  // beginnings of names of parameters that only training uses

  // Fills in and checks keys of the phase when a configuration is read; none: nothing to do.
  void (*resolve)(Config& config, std::size_t index, const Origins& origins) = nullptr;
  // Throws UsageError for what the phase cannot do when a run begins, and for what it cannot do
  // with its data.
  void (*check)(const Config& config, std::size_t index) = nullptr;
  void (*check_data)(const Config& config, std::size_t index, const RunData& data) = nullptr;
  // Parameters that it begins anew, by the beginnings of their names; none: it keeps all.
  std::vector<std::string> (*new_parts)(const Config& config, const PhaseConfig& phase) = nullptr;

  // How batches are made; none: as the configuration says.
  LoaderOptions (*loading)(const PhaseSetting& setting, Split split) = nullptr;
  BatchShape (*shape)(const Config& config, const PhaseConfig& phase) = nullptr;
  // A phase that learns from batches has a learner, another makes itself.
  std::unique_ptr<Learner> (*learner)(const LearnerSetting& setting) = nullptr;
  std::unique_ptr<TrainingPhase> (*phase)(const PhaseSetting& setting, const Safetensors* before,
                                          bool resumed) = nullptr;
};

const std::vector<const PhaseKind*>& phase_kinds();
const PhaseKind& kind_of(const PhaseConfig& phase);

// Epochs, and so rows of metrics.csv, of a phase; one without training steps counts as one.
std::int64_t epochs_of(const PhaseConfig& phase);
// Whether an evaluation follows that epoch, counted from 0: one of every train.eval_every, and the
// last.
bool is_evaluated(const PhaseConfig& phase, std::int64_t epoch);
// Whether a phase of the run is of such a kind: any_phase(config, &PhaseKind::prunes).
bool any_phase(const Config& config, bool PhaseKind::*trait);
// A run that ends with a phase that finds boxes is a detector: its boxes count beside its classes.
bool detects(const Config& config);
// Whether the parameter belongs to a head that only a phase of training uses.
bool is_training_head(std::string_view parameter);

}  // namespace hg
