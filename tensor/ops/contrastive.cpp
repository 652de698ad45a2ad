#include "tensor/ops/contrastive.h"

#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/scratch.h"
#include "tensor/ops/label_pairs.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/view.h"
#include "tensor/run.h"

namespace hg {
namespace ops {
namespace {

using Form = ContrastiveOptions::Form;

// `s` and `labels` are the places of the inputs.
void check(const Op& op, In in, int s, int labels, const ContrastiveOptions& o) {
  expect_labelled_pairs(op, in, s, labels);
  require(o.temperature > 0, op.name(), "temperature must be positive, got {}", o.temperature);
  require(o.beta >= 0, op.name(), "negative beta {}", o.beta);
  require(o.tau_plus >= 0 && o.tau_plus < 1, op.name(), "tau_plus must be in [0, 1), got {}",
          o.tau_plus);
}

std::int64_t logsumexps_of(const ContrastiveOptions& o) { return o.form == Form::all ? 1 : 2; }

// Row i of s without its diagonal: similarities to the positives first, then to the negatives.
template <class T>
void split(std::int64_t rows, std::int64_t i, const std::int64_t* label, const T* s, T* positive,
           T* negative) {
  for (std::int64_t j = 0; j < rows; ++j)
    if (j != i) *(label[j] == label[i] ? positive++ : negative++) = s[j];
}

template <class T>
void join(std::int64_t rows, std::int64_t i, const std::int64_t* label, const T* positive,
          const T* negative, T* s) {
  for (std::int64_t j = 0; j < rows; ++j)
    s[j] = j == i ? T{0} : *(label[j] == label[i] ? positive++ : negative++);
}

template <class T>
T logsumexp(std::int64_t n, const T* x, T scale, T largest) {
  using P = cpu::Packet<T>;
  const T shift = scale * largest;
  const P factor = ei::pset1<P>(scale), offset = ei::pset1<P>(-shift);
  return shift +
         std::log(cpu::row_sum([&](P v) { return cpu::vexp(ei::pmadd(v, factor, offset)); }, n, x));
}

// What stands against each positive of an anchor in the form `hard`.
template <class T>
class Opponent {
 public:
  using P = cpu::Packet<T>;

  Opponent(const ContrastiveOptions& o, std::int64_t negatives, const T* lse)
      : debias_(o.tau_plus > 0) {
    const T log_m = std::log(static_cast<T>(negatives)), log_g = lse[0] - lse[1] + log_m;
    log_g_ = ei::pset1<P>(log_g);
    log_rest_ = ei::pset1<P>(log_g - static_cast<T>(std::log1p(-o.tau_plus)));
    floor_ = ei::pset1<P>(log_m - static_cast<T>(1 / o.temperature));
    false_ = ei::pset1<P>(static_cast<T>(o.tau_plus) * static_cast<T>(negatives));
  }

  // ln G_p - t
  P lead(P t) const {
    P left;
    return ei::psub(log_g_at(t, left), t);
  }

  // With w = G_p / (e^t + G_p): -w where the floor holds, and G is without influence; else
  // w G / (G - tau_plus M e^t), by which t falls and ln G rises.
  P force(P t) const {
    P left;
    const P log_g = log_g_at(t, left), w = cpu::vsigmoid(ei::psub(log_g, t));
    if (!debias_) return w;
    return ei::pselect(ei::pcmp_le(log_g, floor_), ei::pnegate(w), ei::pdiv(w, left));
  }

 private:
  // ln G_p; left: the share of G that is not thought to be of false negatives.
  P log_g_at(P t, P& left) const {
    if (!debias_) return log_g_;
    const P zero = ei::pzero(t), one = cpu::splat<P>(1);
    left = ei::psub(one, ei::pmul(false_, cpu::vexp(ei::psub(t, log_g_))));
    return ei::pmax(ei::padd(cpu::vlog(ei::pmax(left, zero)), log_rest_), floor_);
  }

  bool debias_;
  P log_g_, log_rest_, floor_, false_;
};

// max(x, 0) + log(1 + exp(-|x|))
template <class P>
P softplus(P x) {
  const P small = cpu::vexp(ei::pnegate(ei::pabs(x)));
  return ei::padd(ei::pmax(x, ei::pzero(x)), cpu::vlog(ei::padd(small, cpu::splat<P>(1))));
}

// x: positives, then negatives
template <class T>
T loss_of(const ContrastiveOptions& o, const AnchorPairs& pairs, const T* x, T* lse) {
  using P = cpu::Packet<T>;
  const auto [p, n] = pairs;
  const T scale = static_cast<T>(1 / o.temperature);
  if (o.form == Form::all) {
    lse[0] = logsumexp(p + n, x, scale, cpu::row_max(p + n, x));
    return lse[0] - scale * cpu::row_sum(p, x) / static_cast<T>(p);
  }
  const T largest = cpu::row_max(n, x + p);
  lse[0] = logsumexp(n, x + p, static_cast<T>((o.beta + 1) / o.temperature), largest);
  lse[1] = logsumexp(n, x + p, static_cast<T>(o.beta / o.temperature), largest);
  const Opponent<T> opponent(o, n, lse);
  const P factor = ei::pset1<P>(scale);
  const T sum =
      cpu::row_sum([&](P v) { return softplus(opponent.lead(ei::pmul(v, factor))); }, p, x);
  return sum / static_cast<T>(p);
}

// x becomes weight (exp(t - LSE) - [positive] / p) / tau
template <class T>
void all_gradient(const ContrastiveOptions& o, const AnchorPairs& pairs, const T* lse, T weight,
                  T* x) {
  using P = cpu::Packet<T>;
  const P factor = ei::pset1<P>(static_cast<T>(1 / o.temperature)), shift = ei::pset1<P>(-lse[0]);
  const P scale = ei::pset1<P>(weight / static_cast<T>(o.temperature));
  const P target = ei::pset1<P>(T{1} / static_cast<T>(pairs.positives));
  const auto softmax = [&](P v) { return cpu::vexp(ei::pmadd(v, factor, shift)); };
  cpu::map([&](P v) { return ei::pmul(ei::psub(softmax(v), target), scale); }, pairs.positives, x,
           x);
  T* const negative = x + pairs.positives;
  cpu::map([&](P v) { return ei::pmul(softmax(v), scale); }, pairs.negatives, negative, negative);
}

// With the forces f_p: -weight f_p / (p tau) for positives; for negatives, of their sum f,
// weight f / (p tau) ((beta + 1) softmax((beta + 1) t) - beta softmax(beta t))
template <class T>
void hard_gradient(const ContrastiveOptions& o, const AnchorPairs& pairs, const T* lse, T weight,
                   T* x) {
  using P = cpu::Packet<T>;
  const auto [p, n] = pairs;
  const Opponent<T> opponent(o, n, lse);
  const T tau = static_cast<T>(o.temperature), scale = weight / (static_cast<T>(p) * tau);
  const P inverse = ei::pset1<P>(1 / tau), down = ei::pset1<P>(-scale);
  cpu::map([&](P v) { return opponent.force(ei::pmul(v, inverse)); }, p, x, x);
  const T force = cpu::row_sum([&](P f) { return ei::pmax(f, ei::pzero(f)); }, p, x);
  cpu::map([&](P f) { return ei::pmul(ei::pabs(f), down); }, p, x, x);
  const T beta = static_cast<T>(o.beta);
  const P sharp = ei::pset1<P>((beta + 1) / tau), flat = ei::pset1<P>(beta / tau);
  const P sharp_shift = ei::pset1<P>(-lse[0]), flat_shift = ei::pset1<P>(-lse[1]);
  const P up = ei::pset1<P>(scale * force * (beta + 1)), back = ei::pset1<P>(-scale * force * beta);
  const auto slope = [&](P v) {
    const P a = cpu::vexp(ei::pmadd(v, sharp, sharp_shift));
    return ei::pmadd(a, up, ei::pmul(cpu::vexp(ei::pmadd(v, flat, flat_shift)), back));
  };
  cpu::map(slope, n, x + p, x + p);
}

// Every anchor's row, split, to body(i, pairs, x); other rows to skip(i).
template <class T, class Body, class Skip>
void for_anchors(const Tensor& s, const Tensor& labels, Body body, Skip skip) {
  const std::int64_t rows = labels.dim(0);
  const std::int64_t* const label = labels.data<std::int64_t>();
  cpu::parallel_for(rows, cpu::row_grain(rows), [&](std::int64_t begin, std::int64_t end) {
    const cpu::Scratch<T> x(rows);
    for (std::int64_t i = begin; i < end; ++i) {
      const AnchorPairs pairs(rows, label, i);
      if (!pairs.used()) {
        skip(i);
        continue;
      }
      split<T>(rows, i, label, s.data<T>() + i * rows, x, x + pairs.positives);
      body(i, pairs, static_cast<T*>(x));
    }
  });
}

std::uint64_t unsigned_of(std::int64_t n) { return static_cast<std::uint64_t>(n); }

}  // namespace

TensorSpecs Contrastive::infer(In in) const {
  expect_floats(*this, in, 2, {1});
  check(*this, in, 0, 1, options);
  return {in[0].spec({1}), in[0].spec({in[0].dim(0), logsumexps_of(options)})};
}

// all: max, scale, subtract, exp, add; positives once more add. hard: of negatives max and twice
// scale, subtract, exp, add; of positives scale, subtract, softplus (7), add, and with tau_plus
// subtract, exp, multiply, subtract, max, log, add, max.
CostParts Contrastive::cost(In in, In out) const {
  const LabelPairs pairs = count_pairs(in[1]);
  const std::int64_t of_positive = options.tau_plus > 0 ? 18 : 10;
  const std::int64_t flops = options.form == Form::all
                                 ? 5 * pairs.all() + pairs.positives
                                 : 9 * pairs.negatives + of_positive * pairs.positives;
  return Cost{.flops_ew = unsigned_of(flops),
              .bytes_read = unsigned_of(pairs.all()) * size_of(in[0].dtype()) + in[1].bytes(),
              .bytes_written = bytes_of(out)};
}

void Contrastive::cpu(In in, Out out) const {
  const std::int64_t rows = in[1].dim(0), width = logsumexps_of(options);
  const std::int64_t anchors = count_pairs(in[1]).anchors;
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    T* const lse = out[1].data<T>();
    CachedVector<T> losses(static_cast<std::size_t>(rows), T{0});
    for_anchors<T>(
        in[0], in[1],
        [&](std::int64_t i, const AnchorPairs& pairs, const T* x) {
          losses[i] = loss_of(options, pairs, x, lse + i * width);
        },
        [&](std::int64_t i) { std::fill_n(lse + i * width, width, T{0}); });
    *out[0].data<T>() =
        anchors == 0 ? T{0} : cpu::row_sum(rows, losses.data()) / static_cast<T>(anchors);
  });
}

Tensors Contrastive::grad(const GradArgs& args) const {
  Tensors grads(2);
  grads[0] = run_one(ContrastiveBackward(options),
                     {args.grad_out[0], args.in[0], args.in[1], args.out[1]});
  return grads;
}

namespace {

constexpr ContrastiveOptions kSampleOptions[] = {{Form::all, 0.5, 0, 0},
                                                 {Form::hard, 0.5, 0, 0},
                                                 {Form::hard, 0.5, 1, 0},
                                                 {Form::hard, 0.7, 2, 0.1},
                                                 {Form::hard, 0.5, 1, 0.6}};  // often at the floor

}  // namespace

Samples Contrastive::samples() {
  Samples all;
  for (const ContrastiveOptions& options : kSampleOptions)
    for (const auto& [rows, labels] : kLabelledSizes)
      all.push_back(sample(Contrastive(options),
                           {S::uniform({rows, rows}), S::integers({rows}, labels)}, 4e-6));
  return all;
}

TensorSpecs ContrastiveBackward::infer(In in) const {
  expect_floats(*this, in, 4, {2});
  check(*this, in, 1, 2, options);
  expect_shape(*this, in, 0, {1});
  expect_shape(*this, in, 3, {in[2].dim(0), logsumexps_of(options)});
  return {in[1].spec()};
}

// all: scale, subtract, exp, multiply; positives also subtract. hard: of negatives twice scale,
// subtract, exp, multiply, and add; of positives scale, subtract, sigmoid (4), max, add, abs,
// multiply, and with tau_plus the eight of the forward and divide.
CostParts ContrastiveBackward::cost(In in, In out) const {
  const LabelPairs pairs = count_pairs(in[2]);
  const std::int64_t of_positive = options.tau_plus > 0 ? 19 : 10;
  const std::int64_t flops = options.form == Form::all
                                 ? 4 * pairs.all() + pairs.positives
                                 : 9 * pairs.negatives + of_positive * pairs.positives;
  const std::int64_t floats = 1 + pairs.all() + pairs.anchors * logsumexps_of(options);
  return Cost{.flops_ew = unsigned_of(flops),
              .bytes_read = unsigned_of(floats) * size_of(in[1].dtype()) + in[2].bytes(),
              .bytes_written = bytes_of(out)};
}

void ContrastiveBackward::cpu(In in, Out out) const {
  const std::int64_t rows = in[2].dim(0), width = logsumexps_of(options);
  const std::int64_t* const label = in[2].data<std::int64_t>();
  const std::int64_t anchors = count_pairs(in[2]).anchors;
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    const T weight = *in[0].data<T>() / static_cast<T>(anchors);
    const T* const lse = in[3].data<T>();
    T* const ds = out[0].data<T>();
    for_anchors<T>(
        in[1], in[2],
        [&](std::int64_t i, const AnchorPairs& pairs, T* x) {
          (options.form == Form::all ? all_gradient<T> : hard_gradient<T>)(options, pairs,
                                                                           lse + i * width, weight,
                                                                           x);
          join<T>(rows, i, label, x, x + pairs.positives, ds + i * rows);
        },
        [&](std::int64_t i) { std::fill_n(ds + i * rows, rows, T{0}); });
  });
}

Samples ContrastiveBackward::samples() {
  Samples all;
  for (const ContrastiveOptions& options : kSampleOptions)
    for (const auto& [rows, labels] : kLabelledSizes)
      all.push_back(
          sample(ContrastiveBackward(options),
                 {S::uniform({1}, 50, 100), S::uniform({rows, rows}), S::integers({rows}, labels),
                  S::uniform({rows, logsumexps_of(options)}, 5, 6)},
                 1e-5));
  return all;
}

}  // namespace ops

Tensor contrastive_loss(const Tensor& z, const Tensor& labels, const ContrastiveOptions& options) {
  return run_one(ops::Contrastive(options), {matmul(z, transpose(z)), labels});
}

}  // namespace hg
