// Applies a step's gradients to parameters: AdamW, SGD or Muon, with clipping of the whole
// gradient's norm. Where ranks share the model, each updates and keeps the moments of what it owns.
#pragma once

#include "nn/layers/parameter.h"
#include "tensor/figure.h"
#include "tensor/ops/optimizer.h"
#include "train/config/config.h"
#include "train/step/owners.h"
#include "train/store/safetensors.h"

namespace hg {

class Optimizer {
 public:
  // What is not among `trained` has no moments and never changes. `sharing`: the ranks that have
  // replicas, all of which call what follows; none: this one is alone.
  Optimizer(std::vector<nn::Parameter> trained, const TrainConfig& train, Ranks* sharing = nullptr);

  // gradients: [part][trained parameter], summed in this order. A parameter that got no gradient
  // stays as it is, its moments too, and so does what is outside its ranges ([trained parameter];
  // empty: all is inside). False, and nothing is changed, if the loss that the gradients are of, or
  // their norm (which is known where it is clipped), is not finite. Of a step on a device, this is
  // where the host waits.
  bool step(const std::vector<Tensors>& gradients, double learning_rate,
            const std::vector<UpdateRanges>& ranges = {}, const Figure& loss = 0);

  std::int64_t steps() const { return steps_; }
  // Moments as "adamw.m.NAME", "adamw.v.NAME", "sgd.momentum.NAME" or "muon.momentum.NAME". Of
  // shared parameters rank 0 gets all, and another rank its own.
  NamedTensors state() const;
  void load(const Safetensors& file, std::int64_t steps, const std::string& source);

 private:
  using Rule = TrainConfig::Optimizer;
  struct Slot {
    Rule rule;
    Tensor first, second;  // m and v, or the momentum alone
  };
  struct Moment {
    std::string name;
    std::size_t parameter;
    const Tensor& value;  // undefined: another rank keeps it
  };
  std::vector<Moment> moments() const;
  bool owns(std::size_t i) const { return !sharing_ || owners_[i] == sharing_->rank(); }
  double norm_over_ranks(In own, int copies, const CachedVector<std::size_t>& of) const;
  double clipping(const std::vector<Tensors>& gradients) const;
  double decay_of(std::size_t i) const { return trained_[i].decay ? train_.weight_decay : 0; }
  AdamWOptions adamw_options(double learning_rate, double grad_scale) const;
  void update(std::size_t i, In gradients, double learning_rate, double grad_scale,
              const UpdateRanges& ranges);

  const std::vector<nn::Parameter> trained_;
  TrainConfig train_;
  Ranks* const sharing_;
  const CachedVector<int> owners_;  // [trained parameter], where ranks share them
  std::vector<Slot> slots_;
  std::int64_t steps_ = 0;
};

}  // namespace hg
