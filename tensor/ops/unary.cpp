#include "tensor/ops/unary.h"

#include "tensor/cpu/elementwise.h"

namespace hg::ops {
namespace {

// The functions that rows are written in, on packets; a double stands for a packet of equal lanes.
namespace rows {
using namespace cpu;

template <class P>
P lift(P, double c) {
  return splat<P>(c);
}
template <class P>
P lift(P, P v) {
  return v;
}
auto vmul(auto x, auto c) { return ei::pmul(x, lift(x, c)); }
auto vsub(double c, auto x) { return ei::psub(lift(x, c), x); }
auto vdiv(auto x, auto y) { return ei::pdiv(x, y); }
auto vsqrt(auto x) { return ei::psqrt(x); }
auto vabs(auto x) { return ei::pabs(x); }
auto vmax(auto x, double c) { return ei::pmax<Eigen::PropagateNaN>(x, lift(x, c)); }
auto vmin(auto x, double c) { return ei::pmin<Eigen::PropagateNaN>(x, lift(x, c)); }
auto vselect_positive(auto x, auto value) { return ei::pand(ei::pcmp_lt(lift(x, 0.0), x), value); }
auto vselect_between(auto x, double low, double high, auto value) {
  return ei::pand(ei::pand(ei::pcmp_le(lift(x, low), x), ei::pcmp_le(x, lift(x, high))), value);
}
auto vsign(auto x) {
  const auto one = lift(x, 1.0);
  return ei::psub(vselect_positive(x, one), vselect_positive(ei::pnegate(x), one));
}
auto velu1(auto x) {
  const auto one = lift(x, 1.0);
  return ei::pselect(ei::pcmp_lt(lift(x, 0.0), x), ei::padd(x, one), vexp(x));
}
}  // namespace rows

enum class Keeps { nothing, x, y };

struct Row {
  std::string_view name, backward_name;
  std::uint64_t flops, backward_flops;
  Keeps keeps;
};

const Row& row_of(UnaryKind kind) {
  static constexpr Row kRows[] = {
#define HG_UNARY(kind, f, flops, df, backward_flops, keeps) \
  {#kind, #kind "_backward", flops, backward_flops, Keeps::keeps},
#include "tensor/ops/unary_rows.inc"
#undef HG_UNARY
  };
  return kRows[static_cast<int>(kind)];
}

void check_range(const Op& op, UnaryKind kind, double a, double b) {
  require(kind != UnaryKind::clamp || a <= b, op.name(), "empty range [{}, {}]", a, b);
}

}  // namespace

std::string_view Unary::name_of(UnaryKind kind) { return row_of(kind).name; }

TensorSpecs Unary::infer(In in) const {
  expect_floats(*this, in, 1);
  check_range(*this, kind, a, b);
  return {in[0].spec()};
}

CostParts Unary::cost(In in, In out) const {
  return elementwise_cost(in, out, row_of(kind).flops * count(out[0]));
}

void Unary::cpu(In in, Out out) const {
  using namespace rows;
  switch (kind) {
#define HG_UNARY(kind, f, ...) \
  case UnaryKind::kind:        \
    return cpu::elementwise<1>(in, out[0], [a = a, b = b](auto x) { return (void)a, (void)b, f; });
#include "tensor/ops/unary_rows.inc"
#undef HG_UNARY
  }
}

Tensors Unary::grad(const GradArgs& args) const {
  const UnaryBackward backward(kind, a, b);
  const Tensor& dy = args.grad_out[0];
  switch (row_of(kind).keeps) {
    case Keeps::nothing:
      return {run_one(backward, {dy})};
    case Keeps::x:
      return {run_one(backward, {dy, args.in[0]})};
    case Keeps::y:
      return {run_one(backward, {dy, args.out[0]})};
  }
  return {};
}

Saved Unary::saved() const {
  const Keeps keeps = row_of(kind).keeps;
  Saved kept{.in = {}, .out = {}};
  if (keeps == Keeps::x) kept.in = {0};
  if (keeps == Keeps::y) kept.out = {0};
  return kept;
}

namespace {
constexpr UnaryKind kAllKinds[] = {
#define HG_UNARY(kind, ...) UnaryKind::kind,
#include "tensor/ops/unary_rows.inc"
#undef HG_UNARY
};
bool needs_positive(UnaryKind kind) { return kind == UnaryKind::log || kind == UnaryKind::sqrt; }
}  // namespace

Samples Unary::samples() {
  Samples all;
  for (const UnaryKind kind : kAllKinds) {
    const double low = needs_positive(kind) ? 0.5 : -3;
    for (const Shape& shape : {Shape{1}, Shape{3, 197}, Shape{2, 3, 5}})
      all.push_back(sample(Unary(kind, -0.7, 1.1), {SampleInput::uniform(shape, low, 3)}));
  }
  return all;
}

std::string_view UnaryBackward::name_of(UnaryKind kind) { return row_of(kind).backward_name; }

TensorSpecs UnaryBackward::infer(In in) const {
  expect_floats(*this, in, row_of(kind).keeps == Keeps::nothing ? 1 : 2);
  if (in.size() == 2) expect_shape(*this, in, 1, in[0].shape());
  check_range(*this, kind, a, b);
  return {in[0].spec()};
}

CostParts UnaryBackward::cost(In in, In out) const {
  return elementwise_cost(in, out, row_of(kind).backward_flops * count(out[0]));
}

void UnaryBackward::cpu(In in, Out out) const {
  using namespace rows;
  // `kept` is x or y, whichever the row keeps; a row that keeps neither names neither.
  const auto apply = [&](Keeps keeps, auto f) {
    if (keeps == Keeps::nothing)
      cpu::elementwise<1>(in, out[0], [f](auto g) { return f(g, g); });
    else
      cpu::elementwise<2>(in, out[0], f);
  };
  switch (kind) {
#define HG_UNARY(kind, f, flops, df, backward_flops, keeps)        \
  case UnaryKind::kind:                                            \
    return apply(Keeps::keeps, [a = a, b = b](auto g, auto kept) { \
      const auto x = kept, y = kept;                               \
      return (void)a, (void)b, (void)x, (void)y, df;               \
    });
#include "tensor/ops/unary_rows.inc"
#undef HG_UNARY
  }
}

Samples UnaryBackward::samples() {
  Samples all;
  for (const UnaryKind kind : kAllKinds)
    for (const Shape& shape : {Shape{1}, Shape{3, 197}}) {
      std::vector<SampleInput> inputs{SampleInput::uniform(shape)};
      if (row_of(kind).keeps != Keeps::nothing)
        inputs.push_back(SampleInput::uniform(shape, needs_positive(kind) ? 0.5 : -3, 3));
      all.push_back(sample(UnaryBackward(kind, -0.7, 1.1), std::move(inputs)));
    }
  return all;
}

}  // namespace hg::ops
