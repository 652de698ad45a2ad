#include "tensor/ops/broadcast.h"

#include "tensor/cpu/reduce.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/view.h"

namespace hg::ops {
namespace {

using Kind = Broadcast::Kind;

constexpr std::int64_t kPatternLength = 512;

// y = f(x, b). A narrow b is first repeated into a pattern of many packets.
template <class T, class F>
void broadcast(std::int64_t size, std::int64_t width, const T* x, const T* b, T* y, F f) {
  if (size == 0) return;
  const std::int64_t copies = std::max<std::int64_t>(1, kPatternLength / width);
  const std::int64_t length = copies * width;
  CachedVector<T> pattern;
  if (copies > 1) {
    pattern.resize(static_cast<std::size_t>(length));
    for (std::int64_t k = 0; k < copies; ++k) std::copy_n(b, width, pattern.data() + k * width);
    b = pattern.data();
  }
  cpu::for_pieces(cpu::blocks_of(size, length), length,
                  [&](std::int64_t row, std::int64_t begin, std::int64_t end) {
                    const std::int64_t at = row * length + begin;
                    const std::int64_t n = std::min(end - begin, size - at);
                    if (n > 0) cpu::map(f, n, y + at, x + at, b + begin);
                  });
}

}  // namespace

TensorSpecs Broadcast::infer(In in) const {
  expect_floats(*this, in, 2);
  const int leading = in[0].rank() - in[1].rank();
  require(leading >= 0 && in[0].shape().slice(leading, in[0].rank()) == in[1].shape(), name(),
          "{} does not end in the axes of {}", in[0], in[1]);
  return {in[0].spec()};
}

CostParts Broadcast::cost(In in, In out) const { return elementwise_cost(in, out, count(out[0])); }

void Broadcast::cpu(In in, Out out) const {
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    const auto apply = [&](auto f) {
      broadcast(out[0].numel(), in[1].numel(), in[0].data<T>(), in[1].data<T>(), out[0].data<T>(),
                f);
    };
    if (kind == Kind::add)
      apply([](auto a, auto b) { return ei::padd(a, b); });
    else
      apply([](auto a, auto b) { return ei::pmul(a, b); });
  });
}

// add: dy, sum of dy    mul: dy b, sum of dy x
Tensors Broadcast::grad(const GradArgs& args) const {
  const Tensor& dy = args.grad_out[0];
  const int rank = args.in[1].rank();
  Tensors grads(2);
  if (args.needs(0)) grads[0] = kind == Kind::add ? dy : mul_leading(dy, args.in[1]);
  if (args.needs(1))
    grads[1] = kind == Kind::add ? sum_leading(dy, rank) : dot_leading(dy, args.in[0], rank);
  return grads;
}

Saved Broadcast::saved() const {
  if (kind == Kind::mul) return {.in = {0, 1}, .out = {}};
  return {.in = {}, .out = {}};
}

Samples Broadcast::samples() {
  Samples all;
  for (const Kind kind : {Kind::add, Kind::mul}) {
    const auto add = [&](const Shape& x, const Shape& b) {
      all.push_back(sample(Broadcast(kind), {S::uniform(x), S::uniform(b)}));
    };
    add({1}, {1});
    add({3, 197}, {197});
    add({2, 5, 3}, {5, 3});
    add({197, 3}, {3});
    add({2, 3}, {2, 3});
    add({5, 7}, {});
    add({0, 3}, {3});
    add({3, 0}, {0});
    add({2, 16500}, {16500});
  }
  return all;
}

namespace {

// sum[c] = the sum over the rows of x[r * stride + c] z[r * stride + c], two rows at a time.
template <class T>
void dot_rows(std::int64_t rows, std::int64_t width, std::int64_t stride, const T* x, const T* z,
              T* sum) {
  using P = cpu::Packet<T>;
  std::fill_n(sum, width, T{0});
  const auto one = [](P s, P a, P b) { return ei::pmadd(a, b, s); };
  const auto two = [](P s, P a, P b, P c, P d) { return ei::pmadd(c, d, ei::pmadd(a, b, s)); };
  for (; rows >= 2; rows -= 2, x += 2 * stride, z += 2 * stride)
    cpu::map(two, width, sum, sum, x, z, x + stride, z + stride);
  if (rows > 0) cpu::map(one, width, sum, sum, x, z);
}

// One column: a row of its own.
template <class T>
void sum_leading_row(std::int64_t n, const T* x, const T* z, T* sum) {
  const auto product = [](auto a, auto b) { return ei::pmul(a, b); };
  const auto piece = [&](std::int64_t at, std::int64_t length) {
    return z ? cpu::row_sum(product, length, x + at, z + at) : cpu::row_sum(length, x + at);
  };
  cpu::reduce_rows(1, n, sum, piece,
                   [](std::int64_t length, const T* part) { return cpu::row_sum(length, part); });
}

template <class T>
void sum_leading_columns(std::int64_t n, std::int64_t inner, const T* x, const T* z, T* sum) {
  const auto strip = [&](std::int64_t at, std::int64_t rows, std::int64_t width, T* to) {
    if (z)
      dot_rows(rows, width, inner, x + at, z + at, to);
    else
      cpu::sum_rows(rows, width, inner, x + at, to);
  };
  cpu::reduce_columns(AxisView{1, n, inner}, sum, strip,
                      [](std::int64_t rows, std::int64_t width, std::int64_t stride, const T* part,
                         T* to) { cpu::sum_rows(rows, width, stride, part, to); });
}

}  // namespace

TensorSpecs SumLeading::infer(In in) const {
  expect_floats(*this, in, product ? 2 : 1);
  if (product) expect_shape(*this, in, 1, in[0].shape());
  const int rank = in[0].rank();
  require(trailing_rank >= 0 && trailing_rank <= rank, name(), "{} has no {} trailing axes", in[0],
          trailing_rank);
  return {in[0].spec(in[0].shape().slice(rank - trailing_rank, rank))};
}

// add; of a product: multiply, add
CostParts SumLeading::cost(In in, In out) const {
  return elementwise_cost(in, out, (product ? 2 : 1) * count(in[0]));
}

void SumLeading::cpu(In in, Out out) const {
  const std::int64_t width = out[0].numel();
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    T* const sum = out[0].data<T>();
    const T* const x = in[0].data<T>();
    const T* const z = product ? in[1].data<T>() : nullptr;
    if (in[0].numel() == 0) return void(std::fill_n(sum, width, T{0}));
    const std::int64_t n = in[0].numel() / width;
    if (width == 1) return sum_leading_row(n, x, z, sum);
    sum_leading_columns(n, width, x, z, sum);
  });
}

// dy repeated over the leading axes; of a product: times the other factor
Tensors SumLeading::grad(const GradArgs& args) const {
  const Tensor& dy = args.grad_out[0];
  Tensors grads(args.in.size());
  if (product) {
    if (args.needs(0)) grads[0] = mul_leading(args.in[1], dy);
    if (args.needs(1)) grads[1] = mul_leading(args.in[0], dy);
    return grads;
  }
  const Shape& shape = args.in[0].shape();
  const Shape rows{shape.product(0, shape.rank() - trailing_rank), dy.numel()};
  const ReduceBackward repeat(Reduce(Reduce::Kind::sum, 0), rows);
  grads[0] = reshape(run_one(repeat, {reshape(dy, {dy.numel()})}), shape);
  return grads;
}

Saved SumLeading::saved() const {
  if (product) return {.in = {0, 1}, .out = {}};
  return {.in = {}, .out = {}};
}

Samples SumLeading::samples() {
  Samples all;
  const auto add = [&](int trailing_rank, const Shape& shape, double tolerance = 2e-6) {
    all.push_back(sample(SumLeading(trailing_rank), {S::uniform(shape)}, tolerance));
    all.push_back(
        sample(SumLeading(trailing_rank, true), {S::uniform(shape), S::uniform(shape)}, tolerance));
  };
  add(1, {1});
  add(1, {3, 197});
  add(2, {197, 5, 3});
  add(1, {2, 3, 1});
  add(0, {5, 7});
  add(1, {0, 3});
  add(1, {3, 0});
  add(0, {17000}, 2e-5);  // thousands of terms that nearly cancel
  add(1, {2, 500, 33});
  add(1, {5, 1030});
  return all;
}

}  // namespace hg::ops
