#include "tensor/ops/layer_norm.h"

#include "tensor/cpu/reduce.h"

namespace hg::ops {
namespace {

// Two passes: the mean first, so that the variance is a sum of squares of small numbers.
template <class T>
void layer_norm_row(std::int64_t n, const T* x, const T* gamma, const T* beta, T eps, T* y, T& mean,
                    T& rstd) {
  using P = cpu::Packet<T>;
  mean = cpu::row_sum(n, x) / static_cast<T>(n);
  const P m = ei::pset1<P>(mean);
  const T squares = cpu::row_sum(
      [&](P v) {
        const P d = ei::psub(v, m);
        return ei::pmul(d, d);
      },
      n, x);
  rstd = T{1} / std::sqrt(squares / static_cast<T>(n) + eps);
  const P s = ei::pset1<P>(rstd);
  cpu::map([&](P v, P g, P b) { return ei::pmadd(ei::pmul(ei::psub(v, m), s), g, b); }, n, y, x,
           gamma, beta);
}

// body(load, store) for each packet of a row of n: load(p) and store(p, v) act on its part of the
// row p, padded with 0 at the end.
template <class T, class Body>
void for_packets(std::int64_t n, Body body) {
  using P = cpu::Packet<T>;
  std::int64_t i = 0;
  for (; i + cpu::kLanes<T> <= n; i += cpu::kLanes<T>)
    body([i](const T* p) { return ei::ploadu<P>(p + i); },
         [i](T* p, P v) { ei::pstoreu(p + i, v); });
  if (i < n)
    body([=](const T* p) { return cpu::load_padded(p + i, n - i); },
         [=](T* p, P v) { cpu::store_partly(p + i, n - i, v); });
}

// With h = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - h mean(g h));
// dgamma += dy h; dbeta += dy.
template <class T>
void layer_norm_backward_row(std::int64_t n, const T* dy, const T* x, const T* gamma, T mean,
                             T rstd, T* dx, T* dgamma, T* dbeta) {
  using P = cpu::Packet<T>;
  const P m = ei::pset1<P>(mean), s = ei::pset1<P>(rstd);
  P sum = cpu::splat<P>(0), dot = sum;
  for_packets<T>(n, [&](auto load, auto store) {
    const P d = load(dy), w = load(gamma), dh = ei::pmul(d, ei::pmul(ei::psub(load(x), m), s));
    sum = ei::pmadd(d, w, sum);
    dot = ei::pmadd(dh, w, dot);
    store(dgamma, ei::padd(load(dgamma), dh));
    store(dbeta, ei::padd(load(dbeta), d));
  });
  const P a = ei::pset1<P>(ei::predux(sum) / static_cast<T>(n));
  const P b = ei::pset1<P>(ei::predux(dot) / static_cast<T>(n));
  cpu::map(
      [&](P d, P v, P w) {
        const P h = ei::pmul(ei::psub(v, m), s);
        return ei::pmul(s, ei::psub(ei::psub(ei::pmul(d, w), a), ei::pmul(h, b)));
      },
      n, dx, dy, x, gamma);
}

}  // namespace

TensorSpecs LayerNorm::infer(In in) const {
  expect_floats(*this, in, 3);
  expect_rank_at_least(*this, in, 0, 1);
  const Shape& shape = in[0].shape();
  const std::int64_t width = shape.back();
  require(width > 0, name(), "the last axis of {} is empty", in[0]);
  require(eps > 0, name(), "eps must be positive, got {}", eps);
  expect_shape(*this, in, 1, {width});
  expect_shape(*this, in, 2, {width});
  const TensorSpec rows = in[0].spec(shape.slice(0, shape.rank() - 1));
  return {in[0].spec(), rows, rows};
}

// add; subtract, square, add; scale, multiply, add
CostParts LayerNorm::cost(In in, In out) const {
  return elementwise_cost(in, out, 7 * count(out[0]));
}

void LayerNorm::cpu(In in, Out out) const {
  const std::int64_t n = in[1].numel();
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    const T *x = in[0].data<T>(), *gamma = in[1].data<T>(), *beta = in[2].data<T>();
    T *y = out[0].data<T>(), *mean = out[1].data<T>(), *rstd = out[2].data<T>();
    cpu::parallel_each(out[1].numel(), cpu::row_grain(n), [&](std::int64_t r) {
      layer_norm_row(n, x + r * n, gamma, beta, static_cast<T>(eps), y + r * n, mean[r], rstd[r]);
    });
  });
}

Tensors LayerNorm::grad(const GradArgs& args) const {
  return run(LayerNormBackward(),
             {args.grad_out[0], args.in[0], args.in[1], args.out[1], args.out[2]});
}

Samples LayerNorm::samples() {
  Samples all;
  for (const Shape& shape :
       {Shape{3, 197}, Shape{2, 5, 64}, Shape{7, 1}, Shape{3}, Shape{0, 3}, Shape{300, 67}})
    all.push_back(sample(LayerNorm(shape.back() == 1 ? 0.1 : 1e-6),
                         {S::uniform(shape, -1, 2), S::uniform({shape.back()}, 0.5, 2),
                          S::uniform({shape.back()})}));
  return all;
}

TensorSpecs LayerNormBackward::infer(In in) const {
  expect_floats(*this, in, 5);
  expect_rank_at_least(*this, in, 0, 1);
  const Shape& shape = in[0].shape();
  const Shape rows = shape.slice(0, shape.rank() - 1);
  require(shape.back() > 0, name(), "the last axis of {} is empty", in[0]);
  expect_shape(*this, in, 1, shape);
  expect_shape(*this, in, 2, {shape.back()});
  expect_shape(*this, in, 3, rows);
  expect_shape(*this, in, 4, rows);
  return {in[1].spec(), in[2].spec(), in[2].spec()};
}

// h: subtract, scale; g: multiply; mean(g): add; mean(g h): multiply, add;
// dx: multiply, subtract, subtract, scale; dgamma: multiply, add; dbeta: add
CostParts LayerNormBackward::cost(In in, In out) const {
  return elementwise_cost(in, out, 13 * count(out[0]));
}

// Each block of rows sums its own dgamma and dbeta, [blocks, 2, D]; blocks are added in order.
void LayerNormBackward::cpu(In in, Out out) const {
  const std::int64_t n = in[2].numel(), rows = in[3].numel();
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    const T *dy = in[0].data<T>(), *x = in[1].data<T>(), *gamma = in[2].data<T>();
    const T *mean = in[3].data<T>(), *rstd = in[4].data<T>();
    T* const dx = out[0].data<T>();
    const std::int64_t size = std::max(cpu::row_grain(n), cpu::blocks_of(rows, cpu::kMaxBlocks));
    const std::int64_t blocks = cpu::blocks_of(rows, size);
    CachedVector<T> partials(static_cast<std::size_t>(blocks * 2 * n));
    cpu::parallel_for(rows, size, [&](std::int64_t begin, std::int64_t end) {
      T* const dgamma = partials.data() + begin / size * 2 * n;
      for (std::int64_t r = begin; r < end; ++r)
        layer_norm_backward_row(n, dy + r * n, x + r * n, gamma, mean[r], rstd[r], dx + r * n,
                                dgamma, dgamma + n);
    });
    cpu::sum_rows(blocks, n, 2 * n, partials.data(), out[1].data<T>());
    cpu::sum_rows(blocks, n, 2 * n, partials.data() + n, out[2].data<T>());
  });
}

Samples LayerNormBackward::samples() {
  Samples all;
  for (const Shape& shape :
       {Shape{3, 197}, Shape{2, 5, 64}, Shape{7, 1}, Shape{3}, Shape{0, 3}, Shape{1500, 67}}) {
    const Shape rows = shape.slice(0, shape.rank() - 1);
    all.push_back(
        sample(LayerNormBackward(),
               {S::uniform(shape), S::uniform(shape, -1, 2), S::uniform({shape.back()}, 0.5, 2),
                S::uniform(rows, 0, 1), S::uniform(rows, 0.5, 1.5)}));
  }
  return all;
}

}  // namespace hg::ops
