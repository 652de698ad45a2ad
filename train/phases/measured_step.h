// A configuration's training step, or its pass over test images, on random data of its shape: to be
// timed or profiled.
#pragma once

#include "train/phases/learner.h"
#include "train/step/optimizer.h"

namespace hg {

class Measured {
 public:
  virtual ~Measured() = default;
  virtual void operator()() = 0;
  double timed_ms();      // does it once
  std::uint64_t flops();  // the same
  std::int64_t batch() const { return batch_.size(); }
  Device device() const { return batch_.images.device(); }
  virtual const std::string& phase() const = 0;  // its kind

 protected:
  explicit Measured(Batch batch) : batch_(std::move(batch)) {}
  Batch batch_;
};

class MeasuredStep final : public Measured {
 public:
  // Of that phase; none: the first that learns classes, else the first that learns anything. A run
  // that only prunes is measured as in supervised training. Throws UsageError, naming --phase, for
  // a phase that is not there or has no steps.
  explicit MeasuredStep(const Config& config, std::optional<std::int64_t> phase = {});

  void operator()() override;            // forward, backward and update
  double loss() const { return loss_; }  // of the last step, before its update
  const nn::Vit& model() const { return learner_->model(); }
  std::int64_t lanes() const;  // of its batch
  std::int64_t trained_parameters() const { return learner_->trained_count(); }
  const std::string& phase() const override { return phase_; }

 private:
  MeasuredStep(const Config& config, std::size_t index);

  const std::string phase_;
  const std::unique_ptr<Learner> learner_;
  Optimizer optimizer_;
  double loss_ = 0;
};

// The logits of a batch of test images.
class MeasuredPass final : public Measured {
 public:
  explicit MeasuredPass(const Config& config);
  void operator()() override;
  const std::string& phase() const override { return phase_; }

 private:
  const std::string phase_ = "eval";
  const nn::Vit model_;
};

}  // namespace hg
