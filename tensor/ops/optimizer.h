// Optimizer steps: one pass over a parameter, its state and its gradients, updated in place. A
// parameter may come with several gradients (of threads or groups of images); they are added in the
// order given and multiplied by grad_scale.
#pragma once

#include <utility>

#include "tensor/run.h"

namespace hg {

// The part of a parameter that a step changes: elements whose index modulo `period` lies in one of
// the ranges [first, second). The rest, its state too, is neither read nor written.
struct UpdateRanges {
  std::int64_t period = 0;  // divides the parameter's size; 0: all of it
  CachedVector<std::pair<std::int64_t, std::int64_t>> ranges{};  // ascending, apart

  bool all() const { return period == 0; }
  std::int64_t of(std::int64_t elements) const;  // how many are changed
};

// g = grad_scale sum_k g_k;   p (1 - lr weight_decay) - lr (m / c1) / (sqrt(v / c2) + eps),
// m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2,   c = 1 - beta^step
struct AdamWOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
  std::int64_t step = 1;  // counts from 1
  double grad_scale = 1;
  UpdateRanges ranges{};
};

// g = grad_scale sum_k g_k + weight_decay p;   p - lr d,   buffer = momentum buffer + g,
// d = buffer; g without momentum; g + momentum buffer with Nesterov
struct SgdOptions {
  double lr = 1e-2, momentum = 0, weight_decay = 0;
  bool nesterov = false;
  double grad_scale = 1;
  UpdateRanges ranges{};
};

namespace ops {

inline constexpr std::string_view kUpdatesInputs = "it updates its inputs in place";

// p, m, v, g_0, g_1, .. -> p, m, v
class AdamW final : public NonDifferentiable<AdamW> {
 public:
  static constexpr std::string_view kNotDifferentiable = kUpdatesInputs;
  explicit AdamW(const AdamWOptions& options) : options(options) {}
  HG_DECLARE_OP("adamw");

  const AdamWOptions options;
};

// p, m, v and `copies` gradients of one parameter after the other -> p, m, v of each: what AdamW
// does to them one by one, in one loop or launch. Each has its own weight decay, and all of it is
// changed.
class AdamWAll final : public NonDifferentiable<AdamWAll> {
 public:
  static constexpr std::string_view kNotDifferentiable = kUpdatesInputs;
  AdamWAll(const AdamWOptions& options, CachedVector<double> weight_decays, std::size_t copies)
      : options(options), weight_decays(std::move(weight_decays)), copies(copies) {}
  HG_DECLARE_OP("adamw_all");

  static constexpr std::size_t kStates = 3;
  In inputs_of(In in, std::size_t parameter) const {
    return in.subspan((kStates + copies) * parameter, kStates + copies);
  }
  AdamW of(std::size_t parameter) const;  // the step of this one

  const AdamWOptions options;
  const CachedVector<double> weight_decays;
  const std::size_t copies;
};

// p, buffer (with momentum only), g_0, g_1, .. -> p, buffer
class Sgd final : public NonDifferentiable<Sgd> {
 public:
  static constexpr std::string_view kNotDifferentiable = kUpdatesInputs;
  explicit Sgd(const SgdOptions& options) : options(options) {}
  HG_DECLARE_OP("sgd");

  int states() const { return options.momentum != 0 ? 2 : 1; }

  const SgdOptions options;
};

// Any number of gradients, `copies` consecutive ones of each parameter -> [1], the Euclidean norm
// of all parameters' sums.
class GradNorm final : public NonDifferentiable<GradNorm> {
 public:
  static constexpr std::string_view kNotDifferentiable = "it measures gradients";
  explicit GradNorm(int copies, CachedVector<double>* squares = nullptr)
      : copies(copies), squares(squares) {}
  HG_DECLARE_OP("grad_norm");

  const int copies;
  CachedVector<double>* const squares;  // where each parameter's sum of squares goes; CPU alone
};

}  // namespace ops

// Updates p, m and v in place. m and v start as zeros; options.step counts the calls from 1.
inline void adamw_step(const AdamWOptions& options, const Tensor& p, const Tensor& m,
                       const Tensor& v, In grads) {
  run(ops::AdamW(options), joined({p, m, v}, grads));
}
// p, m, v and as many gradients of every parameter, and their weight decays in place of that of the
// options.
inline void adamw_step_all(const AdamWOptions& options, const CachedVector<double>& weight_decays,
                           std::size_t copies, In tensors) {
  run(ops::AdamWAll(options, weight_decays, copies), tensors);
}
// Updates p in place by a gradient, or by the sum of several: {&gradients[p], 1}. `buffer` starts
// as zeros; without momentum it isn't used and may be undefined.
inline void sgd_step(const SgdOptions& options, const Tensor& p, const Tensor& buffer, In grads) {
  const ops::Sgd op(options);
  run(op, op.states() == 1 ? joined({p}, grads) : joined({p, buffer}, grads));
}
// [1]; with `copies` gradients of each parameter, of their sums.
inline Tensor grad_norm(In grads, int copies = 1) { return run(ops::GradNorm(copies), grads)[0]; }
// The squares of each parameter's norm, whose sum in this order is that of grad_norm(). On the CPU.
CachedVector<double> grad_squares(In grads, int copies);
// The grad_scale that brings gradients of this norm down to max_norm; 1 if they are below it or if
// max_norm <= 0 (off). Throws if the norm is not finite.
double clip_scale(double norm, double max_norm);

}  // namespace hg
