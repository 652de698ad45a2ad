// How a phase learns from a batch, told once: `train` feeds it the loader's batches, `bench` and
// `hgprof` random ones, `info` one without contents. A kind of phase derives from it.
#pragma once

#include "train/config/phase_kind.h"
#include "train/phases/epoch_report.h"
#include "train/step/groups.h"
#include "train/step/open_data.h"
#include "train/store/model.h"

namespace hg {

struct LearnerSetting {
  const Config& config;
  std::size_t index;  // among config.phases
  nn::VitOptions options;
  const RunData* data = nullptr;        // none: batches are made up
  bool hollow = false;                  // parameters without contents, to be counted
  const Safetensors* before = nullptr;  // weights to begin with; none: random ones
  bool resumed = false;                 // they are this phase's own, out of a checkpoint

  const PhaseConfig& phase() const { return config.phases[index]; }
};

class Learner {
 public:
  virtual ~Learner() = default;
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;

  // Loss and gradients.
  virtual Batchwise learn_from(const Batch& batch) = 0;
  // Learns once more from a batch whose loss or gradient is not finite, and throws, naming the
  // first op, of forward or backward, and the layer that gave such a value.
  [[noreturn]] void explain(const Batch& batch);
  // Judges the model on test images, asking `stop` now and then; none: it said yes.
  virtual std::optional<EpochReport> judge(Loader& test, const std::function<bool()>& stop) = 0;
  virtual std::int64_t tokens_per_image(const Batch& batch) const;
  // The images of a batch that this rank works on, in training or when it judges.
  std::pair<std::int64_t, std::int64_t> needed_images(const Batch& batch, Split split) const;

  const nn::Vit& model() const { return model_; }
  const std::vector<nn::Parameter>& trained() const { return trained_; }
  std::int64_t trained_count() const;  // elements of those

 protected:
  explicit Learner(const LearnerSetting& setting);
  // To be called once, by the kind's constructor, when its heads are in model_.heads(): takes the
  // weights to begin with, except those that begin anew, and chooses what is trained: all but what
  // `freeze` names (both as for trained_parameters()).
  void take_up(const LearnerSetting& setting, const std::vector<std::string>& freeze,
               const std::vector<std::string>& anew = {});

  GroupStep step_on(const Batch& batch) const;  // to run passes in
  // "12 of 34 parameters trained"; empty if all are.
  std::string trained_note() const;

  nn::Vit model_;
  std::vector<nn::Parameter> trained_;
  FrozenParts frozen_;
};

// What a phase freezes that does not learn classes: the classifier's head, too.
std::vector<std::string> frozen_with_head(const PhaseConfig& phase);

}  // namespace hg
