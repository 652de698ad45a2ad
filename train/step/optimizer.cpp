#include "train/step/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "tensor/base/enum_names.h"
#include "tensor/base/usage_error.h"
#include "tensor/observer.h"
#include "tensor/ops/optimizer.h"
#include "tensor/transfer.h"
#include "train/step/muon.h"

namespace hg {
namespace {

// The gradients of parameter i, in the order of the parts.
Tensors gradients_of(const std::vector<Tensors>& gradients, std::size_t i) {
  Tensors all;
  for (const Tensors& part : gradients)
    if (part[i].defined()) all.push_back(part[i]);
  return all;
}

TrainConfig::Optimizer rule_for(const nn::Parameter& p, TrainConfig::Optimizer asked) {
  using Rule = TrainConfig::Optimizer;
  return asked == Rule::muon && !suits_muon(p) ? Rule::adamw : asked;
}

// Of its first moment in a state.
std::string first_name(TrainConfig::Optimizer rule) {
  return fmt::format("{}.{}.", enum_name(rule),
                     rule == TrainConfig::Optimizer::adamw ? "m" : "momentum");
}

}  // namespace

Optimizer::Optimizer(std::vector<nn::Parameter> trained, const TrainConfig& train, Ranks* sharing)
    : trained_(std::move(trained)),
      train_(train),
      sharing_(sharing),
      owners_(sharing ? owners_of(trained_, sharing->size()) : CachedVector<int>()) {
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    const nn::Parameter& p = trained_[i];
    Slot slot{rule_for(p, train.optimizer), {}, {}};
    const auto zeros = [&] {
      return owns(i) ? Tensor::zeros(p.value.shape(), DType::f32, p.value.device()) : Tensor();
    };
    if (slot.rule != Rule::sgd || train.momentum > 0) slot.first = zeros();
    if (slot.rule == Rule::adamw) slot.second = zeros();
    slots_.push_back(slot);
  }
}

bool Optimizer::step(const std::vector<Tensors>& gradients, double learning_rate,
                     const std::vector<UpdateRanges>& ranges, const Figure& loss) {
  const PhaseScope phase(Phase::optimizer);
  const Scope scope("optimizer");
  if (loss.here() && !std::isfinite(loss)) return false;
  const double grad_scale = clipping(gradients);
  if (!std::isfinite(grad_scale) || !std::isfinite(loss)) return false;
  ++steps_;
  Tensors together;  // p, m, v, gradients of each: many are so small that it is loops and launches
                     // that take the time
  CachedVector<double> decays;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Tensors mine = gradients_of(gradients, i);
    if (mine.empty()) continue;
    const UpdateRanges part = ranges.empty() ? UpdateRanges{} : ranges[i];
    const Tensor& p = trained_[i].value;
    if (slots_[i].rule == Rule::adamw && mine.size() == gradients.size() && part.all()) {
      together.insert(together.end(), {p, slots_[i].first, slots_[i].second});
      together.insert(together.end(), mine.begin(), mine.end());
      decays.push_back(decay_of(i));
    } else {
      update(i, mine, learning_rate, grad_scale, part);
    }
  }
  if (!decays.empty())
    adamw_step_all(adamw_options(learning_rate, grad_scale), decays, gradients.size(), together);
  if (sharing_) gather_values(*sharing_, trained_);
  return true;
}

double Optimizer::clipping(const std::vector<Tensors>& gradients) const {
  if (train_.grad_clip <= 0) return 1;
  Tensors all;
  CachedVector<std::size_t> of;  // these parameters
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Tensors mine = gradients_of(gradients, i);
    if (mine.empty()) continue;
    require(mine.size() == gradients.size(), trained_[i].name,
            "expected a gradient from each part of the batch, or from none");
    all.insert(all.end(), mine.begin(), mine.end());
    of.push_back(i);
  }
  const int copies = static_cast<int>(gradients.size());
  const double norm =
      sharing_ ? norm_over_ranks(all, copies, of) : double{Figure::of(grad_norm(all, copies))};
  return std::isfinite(norm) ? clip_scale(norm, train_.grad_clip) : norm;
}

// What grad_norm() gives of all gradients together: added in the same order, rounded as there.
double Optimizer::norm_over_ranks(In own, int copies, const CachedVector<std::size_t>& of) const {
  std::vector<double> squares(slots_.size());
  const CachedVector<double> mine = grad_squares(own, copies);
  for (std::size_t i = 0; i < of.size(); ++i) squares[of[i]] = mine[i];
  const std::string_view bytes(reinterpret_cast<const char*>(squares.data()),
                               squares.size() * sizeof(double));
  std::vector<double> all(squares.size());
  for (const std::string& theirs : sharing_->gather(bytes))
    for (std::size_t i = 0; i < all.size(); ++i) {
      double square;
      std::memcpy(&square, theirs.data() + i * sizeof square, sizeof square);
      all[i] += square;  // 0 from all but its owner
    }
  return static_cast<float>(std::sqrt(std::accumulate(all.begin(), all.end(), 0.0)));
}

AdamWOptions Optimizer::adamw_options(double learning_rate, double grad_scale) const {
  return {.lr = learning_rate,
          .beta1 = train_.beta1,
          .beta2 = train_.beta2,
          .eps = train_.epsilon,
          .weight_decay = train_.weight_decay,
          .step = steps_,
          .grad_scale = grad_scale};
}

void Optimizer::update(std::size_t i, In gradients, double learning_rate, double grad_scale,
                       const UpdateRanges& ranges) {
  const nn::Parameter& p = trained_[i];
  if (slots_[i].rule == Rule::adamw) {
    AdamWOptions options = adamw_options(learning_rate, grad_scale);
    options.weight_decay = decay_of(i);
    options.ranges = ranges;
    adamw_step(options, p.value, slots_[i].first, slots_[i].second, gradients);
  } else if (slots_[i].rule == Rule::muon) {
    require(ranges.all(), "muon", "expected to change all of {}", p.name);
    muon_step({learning_rate, decay_of(i), grad_scale}, p.value, slots_[i].first, gradients);
  } else {
    SgdOptions options;
    options.lr = learning_rate;
    options.momentum = train_.momentum;
    options.weight_decay = decay_of(i);
    options.grad_scale = grad_scale;
    options.ranges = ranges;
    sgd_step(options, p.value, slots_[i].first, gradients);
  }
}

// As a state names them, in its order.
std::vector<Optimizer::Moment> Optimizer::moments() const {
  std::vector<Moment> all;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.rule != Rule::sgd || train_.momentum > 0)
      all.push_back({first_name(slot.rule) + trained_[i].name, i, slot.first});
    if (slot.rule == Rule::adamw) all.push_back({"adamw.v." + trained_[i].name, i, slot.second});
  }
  return all;
}

NamedTensors Optimizer::state() const {
  NamedTensors state;
  std::vector<Ranks::Sent> sent;
  std::vector<Ranks::Received> received;
  for (const auto& [name, i, value] : moments()) {
    if (owns(i)) {
      state.emplace_back(name, value);
      if (sharing_ && !sharing_->first()) sent.push_back({0, value.raw(), value.bytes()});
    } else if (sharing_->first()) {
      const Tensor& here =
          state.emplace_back(name, Tensor::empty(trained_[i].value.shape())).second;
      received.push_back({owners_[i], here.raw(), here.bytes()});
    }
  }
  if (sharing_) sharing_->swap(sent, received, Ranks::Work::wait);
  return state;
}

void Optimizer::load(const Safetensors& file, std::int64_t steps, const std::string& source) {
  for (const auto& [name, i, mine] : moments()) {
    const Tensor& like = trained_[i].value;
    const auto found = file.tensors.find(name);
    usage_require(found != file.tensors.end(), source, "{} is missing, expected {}", name, like);
    usage_require(found->second.shape() == like.shape() && found->second.dtype() == DType::f32,
                  source, "{} is {}, expected {}", name, found->second, like);
    if (mine.defined()) copy_into(mine, found->second);
  }
  steps_ = steps;
}

}  // namespace hg
