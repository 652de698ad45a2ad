#include "tensor/ops/reduce.h"

#include <limits>

#include "tensor/cpu/reduce.h"
#include "tensor/ops/view.h"

namespace hg::ops {
namespace {

using Kind = Reduce::Kind;

bool keeps_values(Kind kind) { return kind == Kind::max || kind == Kind::logsumexp; }

Shape reduced(Shape shape, int axis, bool keepdim) {
  if (keepdim)
    shape[axis] = 1;
  else
    shape.erase(axis);
  return shape;
}

// A reduction of one row, and of rows into columns: to[c] = over r of x[r * stride + c].
struct Sum {
  template <class T>
  static T row(std::int64_t n, const T* x) {
    return cpu::row_sum(n, x);
  }
  template <class T>
  static void columns(std::int64_t rows, std::int64_t width, std::int64_t stride, const T* x,
                      T* to) {
    cpu::sum_rows(rows, width, stride, x, to);
  }
};

struct Max {
  template <class T>
  static T row(std::int64_t n, const T* x) {
    return cpu::row_max(n, x);
  }
  template <class T>
  static void columns(std::int64_t rows, std::int64_t width, std::int64_t stride, const T* x,
                      T* to) {
    std::copy_n(x, width, to);
    cpu::combine_rows(rows - 1, width, stride, x + stride, to,
                      [](auto a, auto b) { return ei::pmax<Eigen::PropagateNaN>(a, b); });
  }
};

// Partial results combine by logsumexp as well. An infinite maximum is not subtracted: inf - inf
// would turn a row of -inf into NaN.
struct LogSumExp {
  template <class T>
  static T row(std::int64_t n, const T* x) {
    const T m = cpu::row_max(n, x), shift = std::isinf(m) ? T{0} : m;
    const auto offset = ei::pset1<cpu::Packet<T>>(shift);
    const auto term = [&](auto v) { return cpu::vexp(ei::psub(v, offset)); };
    return shift + std::log(cpu::row_sum(term, n, x));
  }
  template <class T>
  static void columns(std::int64_t rows, std::int64_t width, std::int64_t stride, const T* x,
                      T* to) {
    using P = cpu::Packet<T>;
    const P infinity = ei::pset1<P>(std::numeric_limits<T>::infinity());
    const auto finite = [&](P m) {
      return ei::pselect(ei::pcmp_eq(ei::pabs(m), infinity), cpu::splat<P>(0), m);
    };
    T sum[cpu::kStripWidth] = {};
    Max::columns(rows, width, stride, x, to);
    cpu::map(finite, width, to, to);
    for (std::int64_t r = 0; r < rows; ++r)
      cpu::map([](P s, P v, P m) { return ei::padd(s, cpu::vexp(ei::psub(v, m))); }, width, sum,
               sum, x + r * stride, to);
    cpu::map([](P m, P s) { return ei::padd(m, cpu::vlog(s)); }, width, to, to, sum);
  }
};

template <class Reducer, class T>
void reduce(const AxisView& view, const T* x, T* y, Reducer) {
  const auto row = [](std::int64_t n, const T* part) { return Reducer::row(n, part); };
  const auto columns = [](std::int64_t rows, std::int64_t width, std::int64_t stride, const T* part,
                          T* to) { Reducer::columns(rows, width, stride, part, to); };
  if (view.inner == 1) {
    const auto piece = [&](std::int64_t at, std::int64_t n) { return row(n, x + at); };
    return cpu::reduce_rows(view.outer, view.n, y, piece, row);
  }
  const auto strip = [&](std::int64_t at, std::int64_t rows, std::int64_t width, T* to) {
    columns(rows, width, view.inner, x + at, to);
  };
  cpu::reduce_columns(view, y, strip, columns);
}

}  // namespace

TensorSpecs Reduce::infer(In in) const {
  expect_floats(*this, in, 1);
  TensorSpec spec = in[0].spec();
  const int along = normalize_axis(axis, spec.shape, name());
  require(kind == Kind::sum || spec.shape[along] > 0, name(), "axis {} of {} is empty", axis,
          in[0]);
  spec.shape = reduced(spec.shape, along, keepdim);
  return {spec};
}

// add or compare; logsumexp: max, subtract, exp, add
CostParts Reduce::cost(In in, In out) const {
  return elementwise_cost(in, out, (kind == Kind::logsumexp ? 4 : 1) * count(in[0]));
}

void Reduce::cpu(In in, Out out) const {
  const AxisView view = around(in[0].shape(), normalize_axis(axis, in[0].shape(), name()));
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    const T* const x = in[0].data<T>();
    T* const y = out[0].data<T>();
    const std::int64_t size = out[0].numel();
    if (in[0].numel() == 0) return void(std::fill_n(y, size, T{0}));
    if (kind == Kind::max) return reduce(view, x, y, Max());
    if (kind == Kind::logsumexp) return reduce(view, x, y, LogSumExp());
    reduce(view, x, y, Sum());
    const auto n = ei::pset1<cpu::Packet<T>>(static_cast<T>(view.n));
    if (kind == Kind::mean) cpu::map([&](auto v) { return ei::pdiv(v, n); }, size, y, y);
  });
}

Tensors Reduce::grad(const GradArgs& args) const {
  const Tensor& dy = args.grad_out[0];
  const ReduceBackward backward(*this, args.in[0].shape());
  if (keeps_values(kind)) return {run_one(backward, {dy, args.in[0], args.out[0]})};
  return {run_one(backward, {dy})};
}

Saved Reduce::saved() const {
  if (keeps_values(kind)) return {.in = {0}, .out = {0}};
  return {.in = {}, .out = {}};
}

Samples Reduce::samples() {
  Samples all;
  for (const Kind kind : {Kind::sum, Kind::mean, Kind::max, Kind::logsumexp}) {
    const auto add = [&](int axis, bool keepdim, const Shape& shape) {
      all.push_back(sample(Reduce(kind, axis, keepdim), {S::uniform(shape, -4, 4)}));
    };
    add(0, false, {1});
    add(-1, false, {3, 197});
    add(1, true, {2, 197, 3});
    add(0, false, {5, 2, 17});
    add(-1, true, {0, 3});
    add(1, false, {2, 3, 0});
    add(0, false, {17000});
    add(0, false, {1000, 33});
    add(1, true, {2, 5, 1030});
  }
  all.push_back(sample(Reduce(Kind::sum, 1), {S::uniform({2, 0, 3})}));
  return all;
}

namespace {

// dx[o][j][i] = f(dy[o][i], y[o][i], x[o][j][i]), or without x.
template <class T, class F, class... X>
void spread(const AxisView& view, T* dx, F f, const T* dy, const T* y, const X*... x) {
  const std::int64_t n = view.n, inner = view.inner;
  if (inner == 1)
    return cpu::for_pieces(
        view.outer, n, [&](std::int64_t o, std::int64_t begin, std::int64_t end) {
          const auto g = ei::pset1<cpu::Packet<T>>(dy[o]), value = ei::pset1<cpu::Packet<T>>(y[o]);
          T* const to = dx + o * n + begin;
          cpu::map([&](auto... v) { return f(g, value, v...); }, end - begin, to,
                   x + o * n + begin...);
        });
  cpu::for_pieces(view.outer * n, inner, [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
    const std::int64_t from = r / n * inner + begin, to = r * inner + begin;
    cpu::map(f, end - begin, dx + to, dy + from, y + from, x + to...);
  });
}

// The first maximal element of a row, or the first NaN where there is one.
template <class T>
std::int64_t first_max(std::int64_t n, const T* x, T y) {
  std::int64_t j = 0;
  while (j < n && x[j] != y && x[j] == x[j]) ++j;
  return j;
}

template <class T>
void max_backward_rows(const AxisView& view, const T* dy, const T* x, const T* y, T* dx) {
  const std::int64_t n = view.n;
  cpu::parallel_for(view.outer, cpu::row_grain(n), [&](std::int64_t begin, std::int64_t end) {
    std::fill_n(dx + begin * n, (end - begin) * n, T{0});
    for (std::int64_t o = begin; o < end; ++o) {
      const std::int64_t j = first_max(n, x + o * n, y[o]);
      if (j < n) dx[o * n + j] = dy[o];
    }
  });
}

// Row by row; `rest` holds dy where the maximum has not been met yet and 0 elsewhere.
template <class T>
void max_backward_columns(const AxisView& view, const T* dy, const T* x, const T* y, T* dx) {
  using P = cpu::Packet<T>;
  constexpr std::int64_t kWidth = 256;
  const std::int64_t n = view.n, inner = view.inner, strips = cpu::blocks_of(inner, kWidth);
  const P zero = cpu::splat<P>(0);
  const auto hit = [](P v, P m) { return ei::por(ei::pcmp_eq(v, m), ei::pcmp_lt_or_nan(v, v)); };
  const auto take = [&](P g, P v, P m) { return ei::pselect(hit(v, m), g, zero); };
  const auto leave = [&](P g, P v, P m) { return ei::pselect(hit(v, m), zero, g); };
  cpu::parallel_each(view.outer * strips, 1, [&](std::int64_t t) {
    const std::int64_t o = t / strips, column = t % strips * kWidth;
    const std::int64_t width = std::min(kWidth, inner - column), at = o * inner + column;
    T rest[kWidth];
    std::copy_n(dy + at, width, rest);
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t row = (o * n + j) * inner + column;
      cpu::map(take, width, dx + row, rest, x + row, y + at);
      cpu::map(leave, width, rest, rest, x + row, y + at);
    }
  });
}

template <class T>
void backward(Kind kind, const AxisView& view, In in, T* dx) {
  const T* const dy = in[0].data<T>();
  const T* const x = keeps_values(kind) ? in[1].data<T>() : nullptr;
  const T* const y = keeps_values(kind) ? in[2].data<T>() : dy;
  const auto inverse = ei::pset1<cpu::Packet<T>>(T{1} / static_cast<T>(view.n));
  switch (kind) {
    case Kind::sum:
      return spread(
          view, dx, [](auto g, auto) { return g; }, dy, y);
    case Kind::mean:
      return spread(
          view, dx, [&](auto g, auto) { return ei::pmul(g, inverse); }, dy, y);
    case Kind::max:
      if (view.inner == 1) return max_backward_rows(view, dy, x, y, dx);
      return max_backward_columns(view, dy, x, y, dx);
    case Kind::logsumexp:
      return spread(
          view, dx, [](auto g, auto m, auto v) { return ei::pmul(g, cpu::vexp(ei::psub(v, m))); },
          dy, y, x);
  }
}

}  // namespace

TensorSpecs ReduceBackward::infer(In in) const {
  const bool kept = keeps_values(forward.kind);
  expect_floats(*this, in, kept ? 3 : 1);
  const int axis = normalize_axis(forward.axis, shape, name());
  const Shape small = reduced(shape, axis, forward.keepdim);
  require(forward.kind == Kind::sum || shape[axis] > 0, name(), "axis {} of {} is empty", axis,
          shape);
  expect_shape(*this, in, 0, small);
  if (kept) expect_shape(*this, in, 1, shape);
  if (kept) expect_shape(*this, in, 2, small);
  return {in[0].spec(shape)};
}

// sum, mean: dy is scaled once per row and repeated    max: compare
// logsumexp: subtract, exp, multiply
CostParts ReduceBackward::cost(In in, In out) const {
  constexpr std::uint64_t kFlops[] = {0, 0, 1, 3};
  return elementwise_cost(in, out, kFlops[static_cast<int>(forward.kind)] * count(out[0]));
}

// sum: dy    mean: dy / n    max: dy at the first maximal element    logsumexp: dy exp(x - y)
void ReduceBackward::cpu(In in, Out out) const {
  const AxisView view = around(shape, normalize_axis(forward.axis, shape, name()));
  dispatch_float(out[0].dtype(), name(),
                 [&]<class T>() { backward(forward.kind, view, in, out[0].data<T>()); });
}

Samples ReduceBackward::samples() {
  Samples all;
  for (const Kind kind : {Kind::sum, Kind::mean, Kind::max, Kind::logsumexp}) {
    const auto add = [&](int axis, bool keepdim, const Shape& shape) {
      const Reduce forward(kind, axis, keepdim);
      const Shape small = reduced(shape, normalize_axis(axis, shape, "sample"), keepdim);
      std::vector<SampleInput> inputs{S::uniform(small)};
      // max: every element is maximal, and the first one takes the gradient
      const double x_low = kind == Kind::max ? 0.5 : -1;
      if (keeps_values(kind)) inputs.push_back(S::uniform(shape, x_low, 0.5));
      if (keeps_values(kind)) inputs.push_back(S::uniform(small, 0.5, -x_low + 1));
      all.push_back(sample(ReduceBackward(forward, shape), std::move(inputs)));
    };
    add(0, false, {1});
    add(-1, false, {3, 197});
    add(1, true, {2, 197, 3});
    add(0, false, {5, 2, 17});
    add(-1, true, {0, 3});
    add(0, false, {40000});
    add(0, false, {700, 33});
  }
  all.push_back(sample(ReduceBackward(Reduce(Kind::sum, 1), {2, 0, 3}), {S::uniform({2, 3})}));
  return all;
}

}  // namespace hg::ops
