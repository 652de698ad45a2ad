#include "tensor/ops/optimizer.h"

#include <algorithm>
#include <cmath>

#include "tensor/cpu/update.h"

namespace hg {

std::int64_t UpdateRanges::of(std::int64_t elements) const {
  if (all()) return elements;
  std::int64_t changed = 0;
  for (const auto& [first, second] : ranges) changed += second - first;
  return elements / period * changed;
}

namespace ops {
namespace {

TensorSpecs updated(const Op& op, In in, int states) {
  require(in.size() > static_cast<std::size_t>(states), op.name(),
          "expected {} tensors to update and one or more gradients, got {} inputs", states,
          in.size());
  expect_float(op, in);
  TensorSpecs specs;
  for (int i = 0; i < static_cast<int>(in.size()); ++i) {
    expect_shape(op, in, i, in[0].shape());
    if (i >= states) continue;
    specs.push_back(in[0].spec());
    specs.back().alias_of = i;
    specs.back().in_place = true;
  }
  return specs;
}

void check_positive(const Op& op, std::string_view what, double value) {
  require(std::isfinite(value) && value >= 0, op.name(), "{} must be 0 or more, got {}", what,
          value);
}

void check_scale(const Op& op, double grad_scale) {
  require(std::isfinite(grad_scale), op.name(), "grad_scale must be finite, got {}", grad_scale);
}

void check_ranges(const Op& op, const UpdateRanges& part, const Tensor& p) {
  if (part.all()) return;
  require(part.period > 0 && p.numel() % part.period == 0, op.name(),
          "a period of {} does not divide {}", part.period, p);
  std::int64_t last = 0;
  for (const auto& [first, second] : part.ranges) {
    require(first >= last && first < second && second <= part.period, op.name(),
            "range {} to {} after {} in a period of {}", first, second, last, part.period);
    last = second;
  }
}

// `flops` for each element that is changed; only those are read and written.
Cost update_cost(In in, In out, const UpdateRanges& part, std::uint64_t flops) {
  const std::int64_t changed = part.of(out[0].numel());
  const std::uint64_t bytes = static_cast<std::uint64_t>(changed) * size_of(out[0].dtype());
  return {.flops_mm = 0,
          .flops_ew = flops * static_cast<std::uint64_t>(changed),
          .bytes_read = in.size() * bytes,
          .bytes_written = out.size() * bytes};
}

// body(begin, end) for pieces of what is changed of n elements.
void for_changed(std::int64_t n, const UpdateRanges& part, auto body) {
  if (part.all()) return cpu::parallel_for(n, cpu::kElementGrain, body);
  const std::int64_t periods = n / part.period;
  const std::int64_t grain = std::max<std::int64_t>(
      1, cpu::kElementGrain / std::max<std::int64_t>(1, part.of(part.period)));
  cpu::parallel_each(periods, grain, [&](std::int64_t period) {
    for (const auto& [first, second] : part.ranges)
      body(period * part.period + first, period * part.period + second);
  });
}

// Additions of further gradients and the multiplication by grad_scale.
std::uint64_t flops_of_sum(In in, int states, double grad_scale) {
  return in.size() - static_cast<std::size_t>(states) - 1 + (grad_scale != 1);
}

// step, as of cpu::update_piece(), on what is changed of the first kStates inputs.
template <std::size_t kStates, class Step>
void update_in_place(In in, double grad_scale, const UpdateRanges& part, Step step) {
  dispatch_float(in[0].dtype(), "optimizer", [&]<class T>() {
    const auto grads = cpu::pointers<T>(in.subspan(kStates));
    const auto at = cpu::states_of<T, kStates>(in);
    for_changed(in[0].numel(), part, [&](std::int64_t begin, std::int64_t end) {
      cpu::update_piece<T, kStates>(at, grads, grad_scale, begin, end, step);
    });
  });
}

auto adamw_update(const AdamWOptions& o) {
  const double decay = 1 - o.lr * o.weight_decay, beta1 = o.beta1, beta2 = o.beta2, eps = o.eps;
  const double c1 = 1 - std::pow(beta1, o.step), c2 = 1 - std::pow(beta2, o.step);
  const double rate = o.lr / c1, root = 1 / std::sqrt(c2);
  return [=]<class P>(P* state, P g) {
    using cpu::splat;
    P &p = state[0], &m = state[1], &v = state[2];
    m = ei::pmadd(splat<P>(beta1), m, ei::pmul(splat<P>(1 - beta1), g));
    v = ei::pmadd(splat<P>(beta2), v, ei::pmul(ei::pmul(splat<P>(1 - beta2), g), g));
    const P bound = ei::pmadd(ei::psqrt(v), splat<P>(root), splat<P>(eps));
    const P move = ei::pdiv(ei::pmul(splat<P>(rate), m), bound);
    p = ei::psub(ei::pmul(p, splat<P>(decay)), move);
  };
}

// Of parameters of these shapes: p, m, v and so many gradients.
std::vector<SampleInput> adamw_inputs(std::initializer_list<Shape> shapes, std::size_t grads) {
  using S = SampleInput;
  std::vector<S> all;
  for (const Shape& shape : shapes) {
    all.insert(all.end(), {S::uniform(shape), S::uniform(shape), S::uniform(shape, 0.1, 1)});
    all.insert(all.end(), grads, S::uniform(shape));
  }
  return all;
}

}  // namespace

TensorSpecs AdamW::infer(In in) const {
  check_positive(*this, "lr", options.lr);
  check_positive(*this, "eps", options.eps);
  check_positive(*this, "weight_decay", options.weight_decay);
  for (const double beta : {options.beta1, options.beta2})
    require(beta >= 0 && beta < 1, name(), "beta {} is not in [0, 1)", beta);
  require(options.step >= 1, name(), "steps count from 1, got {}", options.step);
  check_scale(*this, options.grad_scale);
  TensorSpecs specs = updated(*this, in, 3);
  check_ranges(*this, options.ranges, in[0]);
  return specs;
}

// decay 1; m 3; v 4; sqrt, divide by sqrt(c2), add eps; times lr / c1, divide, subtract
CostParts AdamW::cost(In in, In out) const {
  return update_cost(in, out, options.ranges, 14 + flops_of_sum(in, 3, options.grad_scale));
}

void AdamW::cpu(In in, Out) const {
  update_in_place<3>(in, options.grad_scale, options.ranges, adamw_update(options));
}

Samples AdamW::samples() {
  return {
      sample(AdamW({.lr = 0.1, .weight_decay = 0.05}), adamw_inputs({{3, 197}}, 1)),
      sample(AdamW({.lr = 0.1, .step = 7}), adamw_inputs({{1}}, 2)),
      sample(AdamW({.lr = 0.1, .step = 1000, .grad_scale = 0.3}), adamw_inputs({{5, 71, 101}}, 3)),
      sample(AdamW({.grad_scale = 2}), adamw_inputs({{197}}, 1)),
      sample(AdamW({.lr = 0.1, .ranges = {40, {{3, 4}, {7, 40}}}}), adamw_inputs({{5, 80}}, 2)),
      sample(AdamW({.lr = 0.1, .ranges = {17, {}}}), adamw_inputs({{17}}, 1)),
      sample(AdamW({}), adamw_inputs({{0, 3}}, 1))};
}

AdamW AdamWAll::of(std::size_t parameter) const {
  AdamWOptions own = options;
  own.weight_decay = weight_decays[parameter];
  return AdamW(own);
}

TensorSpecs AdamWAll::infer(In in) const {
  const std::size_t inputs = kStates + copies;
  require(!in.empty() && in.size() == inputs * weight_decays.size(), name(),
          "expected {} inputs for each of {} parameters, got {}", inputs, weight_decays.size(),
          in.size());
  require(options.ranges.all(), name(), "expected to change all of every parameter");
  expect_float(*this, in);
  TensorSpecs specs;
  for (std::size_t i = 0; i < weight_decays.size(); ++i)
    for (TensorSpec spec : of(i).infer(inputs_of(in, i))) {
      spec.alias_of += static_cast<int>(inputs * i);
      specs.push_back(spec);
    }
  return specs;
}

CostParts AdamWAll::cost(In in, In out) const {
  Cost sum;
  for (std::size_t i = 0; i < weight_decays.size(); ++i)
    sum += of(i).cost(inputs_of(in, i), out.subspan(kStates * i, kStates)).total();
  return sum;
}

void AdamWAll::cpu(In in, Out) const {
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    cpu::Blocks(in, kStates + copies)
        .for_each([&](std::int64_t, std::size_t i, std::int64_t begin, std::int64_t end) {
          const In mine = inputs_of(in, i);
          cpu::update_piece<T, kStates>(cpu::states_of<T, kStates>(mine),
                                        cpu::pointers<T>(mine.subspan(kStates)), options.grad_scale,
                                        begin, end, adamw_update(of(i).options));
        });
  });
}

Samples AdamWAll::samples() {
  return {sample(AdamWAll({.lr = 0.1, .step = 3}, {0.05, 0, 0.01, 0.02, 0}, 1),
                 adamw_inputs({{3, 197}, {1}, {0, 3}, {7, 701}, {1024}}, 1)),
          sample(AdamWAll({.lr = 0.1, .grad_scale = 0.3}, {0.05}, 1), adamw_inputs({{1025}}, 1)),
          sample(AdamWAll({.lr = 0.1, .step = 9, .grad_scale = 0.3}, {0.05, 0}, 3),
                 adamw_inputs({{91, 97}, {5}}, 3))};
}

TensorSpecs Sgd::infer(In in) const {
  check_positive(*this, "lr", options.lr);
  check_positive(*this, "momentum", options.momentum);
  check_positive(*this, "weight_decay", options.weight_decay);
  require(!options.nesterov || options.momentum > 0, name(), "nesterov needs a momentum");
  check_scale(*this, options.grad_scale);
  TensorSpecs specs = updated(*this, in, states());
  check_ranges(*this, options.ranges, in[0]);
  return specs;
}

// decay 2; lr times, subtract; momentum 2; nesterov 2
CostParts Sgd::cost(In in, In out) const {
  const std::uint64_t flops = 4 + (options.momentum != 0 ? 2 : 0) + (options.nesterov ? 2 : 0);
  return update_cost(in, out, options.ranges,
                     flops + flops_of_sum(in, states(), options.grad_scale));
}

void Sgd::cpu(In in, Out) const {
  using cpu::splat;
  const auto& o = options;
  if (states() == 1)
    return update_in_place<1>(in, o.grad_scale, o.ranges, [=]<class P>(P* state, P g) {
      const P d = ei::pmadd(splat<P>(o.weight_decay), state[0], g);
      state[0] = ei::pmadd(splat<P>(-o.lr), d, state[0]);
    });
  update_in_place<2>(in, o.grad_scale, o.ranges, [=]<class P>(P* state, P g) {
    P &p = state[0], &buffer = state[1];
    P d = ei::pmadd(splat<P>(o.weight_decay), p, g);
    buffer = ei::pmadd(splat<P>(o.momentum), buffer, d);
    d = o.nesterov ? ei::pmadd(splat<P>(o.momentum), buffer, d) : buffer;
    p = ei::pmadd(splat<P>(-o.lr), d, p);
  });
}

Samples Sgd::samples() {
  const auto inputs = [](const Shape& shape, std::size_t count) {
    return std::vector<SampleInput>(count, SampleInput::uniform(shape));
  };
  const double momentum = 0.9, weight_decay = 0.05;
  return {sample(Sgd({.lr = 0.1}), inputs({3, 197}, 2)),
          sample(Sgd({.lr = 0.1, .weight_decay = weight_decay, .grad_scale = 0.3}), inputs({1}, 3)),
          sample(Sgd({.lr = 0.1, .momentum = momentum, .weight_decay = weight_decay}),
                 inputs({5, 71, 101}, 5)),
          sample(Sgd({.lr = 0.1, .momentum = momentum, .nesterov = true, .grad_scale = 3}),
                 inputs({197}, 3)),
          sample(Sgd({.lr = 0.1, .momentum = momentum, .ranges = {9, {{0, 2}, {5, 8}}}}),
                 inputs({9, 3}, 3)),
          sample(Sgd({}), inputs({0, 3}, 2))};
}

TensorSpecs GradNorm::infer(In in) const {
  require(copies >= 1, name(), "copies must be 1 or more, got {}", copies);
  const auto group = static_cast<std::size_t>(copies);
  require(!in.empty() && in.size() % group == 0, name(), "{} gradients do not make groups of {}",
          in.size(), copies);
  expect_float(*this, in);
  for (std::size_t i = 0; i < in.size(); ++i)
    expect_shape(*this, in, static_cast<int>(i), in[i / group * group].shape());
  return {TensorSpec{in[0].dtype(), {1}, in[0].device()}};
}

// per element of a parameter: add the copies, square, add
CostParts GradNorm::cost(In in, In out) const {
  const auto group = static_cast<std::size_t>(copies);
  std::uint64_t elements = 0;
  for (std::size_t i = 0; i < in.size(); i += group) elements += count(in[i]);
  return elementwise_cost(in, out, (group + 1) * elements);
}

void GradNorm::cpu(In in, Out out) const {
  const auto group = static_cast<std::size_t>(copies);
  const cpu::Blocks blocks(in, group);
  CachedVector<double> sums(static_cast<std::size_t>(blocks.count()));
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    const auto grads = cpu::pointers<T>(in);
    blocks.for_each([&](std::int64_t block, std::size_t i, std::int64_t begin, std::int64_t end) {
      sums[block] = cpu::sum_of_squares<T>(std::span(grads).subspan(i * group, group), begin, end);
    });
    CachedVector<double> of_parameter(in.size() / group);
    for (std::size_t i = 0; i < of_parameter.size(); ++i)
      for (std::int64_t b = blocks.first(i); b < blocks.first(i + 1); ++b)
        of_parameter[i] += sums[static_cast<std::size_t>(b)];
    double sum = 0;
    for (const double s : of_parameter) sum += s;
    *out[0].data<T>() = static_cast<T>(std::sqrt(sum));
    if (squares) *squares = std::move(of_parameter);
  });
}

Samples GradNorm::samples() {
  return {sample(GradNorm(1), {S::uniform({3, 197})}),
          sample(GradNorm(1),
                 {S::uniform({1}), S::uniform({2, 3}), S::uniform({0}), S::uniform({181, 200})}),
          sample(GradNorm(2), {S::uniform({5, 7}), S::uniform({5, 7}), S::uniform({129, 131}),
                               S::uniform({129, 131})}),
          sample(GradNorm(3), std::vector<S>(3, S::uniform({17})))};
}

}  // namespace ops

CachedVector<double> grad_squares(In grads, int copies) {
  CachedVector<double> squares;
  if (!grads.empty()) run(ops::GradNorm(copies, &squares), grads);
  return squares;
}

double clip_scale(double norm, double max_norm) {
  require(std::isfinite(norm), "clip_scale", "gradient norm is {}", norm);
  return max_norm <= 0 || norm <= max_norm ? 1 : max_norm / (norm + 1e-6);
}

}  // namespace hg
