#include "tensor/ops/cross_entropy.h"

#include "tensor/cpu/elementwise.h"

namespace hg::ops {
namespace {

// `logits` and `labels` are the places of the inputs.
void check(const Op& op, In in, int logits, int labels, const CrossEntropyOptions& options) {
  expect_rank(op, in, logits, 2);
  const Tensor& x = in[logits];
  expect_shape(op, in, labels, {x.dim(0)});
  require(x.dim(1) > 0, op.name(), "no classes in {}", x);
  require(options.label_smoothing >= 0 && options.label_smoothing < 1, op.name(),
          "label smoothing must be in [0, 1), got {}", options.label_smoothing);
  require(options.denominator >= 0, op.name(), "negative denominator {}", options.denominator);
  require(options.denominator > 0 || x.dim(0) > 0, op.name(), "mean over the rows of empty {}", x);
}

void check_labels(const Op& op, const Tensor& labels, std::int64_t classes) {
  const std::int64_t* label = labels.data<std::int64_t>();
  for (std::int64_t r = 0; r < labels.numel(); ++r)
    require(label[r] >= 0 && label[r] < classes, op.name(),
            "label {} of row {} is out of range for {} classes", label[r], r, classes);
}

double denominator_of(const CrossEntropyOptions& options, std::int64_t rows) {
  return static_cast<double>(options.denominator > 0 ? options.denominator : rows);
}

// With d = x - max x: log sum exp(d) - (1 - e) d_label - e mean(d)
template <class T>
T loss_row(std::int64_t n, const T* x, std::int64_t label, T smoothing, T& logsumexp) {
  const T m = cpu::row_max(n, x);
  const auto shift = ei::pset1<cpu::Packet<T>>(m);
  const T log_sum =
      std::log(cpu::row_sum([&](auto v) { return cpu::vexp(ei::psub(v, shift)); }, n, x));
  logsumexp = m + log_sum;
  const T hit = log_sum - (1 - smoothing) * (x[label] - m);
  if (smoothing == 0) return hit;
  const T sum = cpu::row_sum([&](auto v) { return ei::psub(v, shift); }, n, x);
  return hit - smoothing / static_cast<T>(n) * sum;
}

// dx = scale (exp(x - logsumexp) - t)
template <class T>
void backward_row(std::int64_t n, const T* x, std::int64_t label, T smoothing, T logsumexp, T scale,
                  T* dx) {
  using P = cpu::Packet<T>;
  const P shift = ei::pset1<P>(logsumexp), factor = ei::pset1<P>(scale);
  const P floor = ei::pset1<P>(smoothing / static_cast<T>(n));
  const auto from = [&](P v, P target) {
    return ei::pmul(ei::psub(cpu::vexp(ei::psub(v, shift)), target), factor);
  };
  cpu::map([&](P v) { return from(v, floor); }, n, dx, x);
  const P target = ei::padd(floor, ei::pset1<P>(1 - smoothing));
  dx[label] = ei::pfirst(from(ei::pset1<P>(x[label]), target));
}

}  // namespace

TensorSpecs CrossEntropy::infer(In in) const {
  expect_floats(*this, in, 2, {1});
  check(*this, in, 0, 1, options);
  return {in[0].spec({1}), in[0].spec({in[0].dim(0)})};
}

// max, subtract, exp, add; times the target, add
CostParts CrossEntropy::cost(In in, In out) const {
  return elementwise_cost(in, out, 6 * count(in[0]));
}

void CrossEntropy::cpu(In in, Out out) const {
  const std::int64_t rows = in[0].dim(0), n = in[0].dim(1);
  check_labels(*this, in[1], n);
  const std::int64_t* label = in[1].data<std::int64_t>();
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    const T* x = in[0].data<T>();
    T* const logsumexp = out[1].data<T>();
    CachedVector<T> losses(static_cast<std::size_t>(rows));
    cpu::parallel_each(rows, cpu::row_grain(n), [&](std::int64_t r) {
      losses[r] =
          loss_row(n, x + r * n, label[r], static_cast<T>(options.label_smoothing), logsumexp[r]);
    });
    *out[0].data<T>() =
        cpu::row_sum(rows, losses.data()) / static_cast<T>(denominator_of(options, rows));
  });
}

Tensors CrossEntropy::grad(const GradArgs& args) const {
  Tensors grads(2);
  grads[0] = run_one(CrossEntropyBackward(options),
                     {args.grad_out[0], args.in[0], args.in[1], args.out[1]});
  return grads;
}

namespace {
constexpr CrossEntropyOptions kSampleOptions[] = {{0, 0}, {0.1, 0}, {0.25, 512}};
}  // namespace

Samples CrossEntropy::samples() {
  Samples all;
  for (const CrossEntropyOptions& options : kSampleOptions)
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 197}, Shape{197, 10}, Shape{20, 1000}})
      all.push_back(sample(CrossEntropy(options),
                           {S::uniform(shape, -4, 4), S::integers({shape[0]}, shape[1])}));
  all.push_back(sample(CrossEntropy({0, 8}), {S::uniform({0, 3}), S::integers({0}, 3)}));
  return all;
}

TensorSpecs CrossEntropyBackward::infer(In in) const {
  expect_floats(*this, in, 4, {2});
  check(*this, in, 1, 2, options);
  expect_shape(*this, in, 0, {1});
  expect_shape(*this, in, 3, {in[1].dim(0)});
  return {in[1].spec()};
}

// subtract, exp, subtract, multiply
CostParts CrossEntropyBackward::cost(In in, In out) const {
  return elementwise_cost(in, out, 4 * count(out[0]));
}

void CrossEntropyBackward::cpu(In in, Out out) const {
  const std::int64_t rows = in[1].dim(0), n = in[1].dim(1);
  check_labels(*this, in[2], n);
  const std::int64_t* label = in[2].data<std::int64_t>();
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    const T scale = *in[0].data<T>() / static_cast<T>(denominator_of(options, rows));
    const T *x = in[1].data<T>(), *logsumexp = in[3].data<T>();
    T* const dx = out[0].data<T>();
    cpu::parallel_each(rows, cpu::row_grain(n), [&](std::int64_t r) {
      backward_row(n, x + r * n, label[r], static_cast<T>(options.label_smoothing), logsumexp[r],
                   scale, dx + r * n);
    });
  });
}

Samples CrossEntropyBackward::samples() {
  Samples all;
  for (const CrossEntropyOptions& options : kSampleOptions)
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 197}, Shape{197, 10}})
      all.push_back(sample(CrossEntropyBackward(options),
                           {S::uniform({1}, 50, 100), S::uniform(shape, -4, 4),
                            S::integers({shape[0]}, shape[1]), S::uniform({shape[0]}, 4, 5)}));
  all.push_back(sample(CrossEntropyBackward({0, 8}), {S::uniform({1}), S::uniform({0, 3}),
                                                      S::integers({0}, 3), S::uniform({0})}));
  return all;
}

}  // namespace hg::ops
