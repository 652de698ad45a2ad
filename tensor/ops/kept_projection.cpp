#include "tensor/ops/kept_projection.h"

#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/gemm.h"
#include "tensor/cpu/scratch.h"

namespace hg::ops {
namespace {

struct Sizes {
  const Supports& supports;
  std::int64_t batch, heads, n, e, d;

  Sizes(const Supports& supports, const Tensor& x, const Tensor& weight)
      : supports(supports),
        batch(x.dim(0)),
        heads(supports.heads()),
        n(x.dim(1)),
        e(x.dim(2)),
        d(weight.dim(0) / (3 * heads)) {}
  std::int64_t width() const { return heads * d; }
  const PairSupport& of(std::int64_t b) const { return supports.of_image(b); }
  std::int64_t first_row(std::int64_t b, std::int64_t h) const {  // in k and v
    return supports.kept(b) + of(b).first_key(h);
  }
  // Row of the weight where head h of q (0), k (1) or v (2) begins.
  std::int64_t weight_row(int which, std::int64_t h) const { return which * width() + h * d; }
  std::uint64_t outputs() const {
    return static_cast<std::uint64_t>(batch * n * width() + 2 * supports.kept(batch) * d);
  }
  // Rows of the weight that some token is multiplied with.
  std::uint64_t used_rows() const {
    std::int64_t rows = batch * n > 0 ? width() : 0;
    for (std::int64_t h = 0; h < heads; ++h) {
      std::int64_t kept = 0;
      for (std::int64_t b = 0; b < batch; ++b) kept += of(b).kept(h);
      if (kept > 0) rows += 2 * d;
    }
    return static_cast<std::uint64_t>(rows);
  }
};

// The kept rows of one (image, head) of x: in place where all are, else copied.
template <class T>
class KeptRows {
 public:
  KeptRows(const Sizes& s, const T* x, std::int64_t b, std::int64_t h)
      : in_place_(s.of(b).keeps_all(h)),
        count_(s.of(b).kept(h)),
        width_(s.e),
        copy_(in_place_ ? 1 : std::max<std::int64_t>(1, count_ * s.e)),
        data_(in_place_ ? x + b * s.n * s.e : copy_) {
    if (in_place_) return;
    const std::uint16_t* const tokens = s.of(b).kept_tokens(h);
    for (std::int64_t r = 0; r < count_; ++r)
      std::copy_n(x + (b * s.n + tokens[r]) * s.e, s.e, copy_ + r * s.e);
  }
  std::int64_t count() const { return count_; }
  cpu::Matrix<T> matrix() const { return {data_, width_, 1}; }

 private:
  bool in_place_;
  std::int64_t count_, width_;
  cpu::Scratch<T> copy_;
  const T* data_;
};

// Weights of k and v of every head, packed for products with rows on their left.
template <class T>
class PackedHeads {
 public:
  // transposed: rows [., E] -> [., D]; else rows [., D] -> [., E]
  PackedHeads(const Sizes& s, const T* weight, bool transposed)
      : heads_(s.heads),
        columns_(transposed ? s.d : s.e),
        inner_(transposed ? s.e : s.d),
        packed_(2 * s.heads * cpu::packed_size<T>(columns_, inner_)) {
    for (int which : {1, 2})
      for (std::int64_t h = 0; h < heads_; ++h) {
        const cpu::Matrix<T> rows{weight + s.weight_row(which, h) * s.e, s.e, 1};
        cpu::pack_b<T>(columns_, inner_, transposed ? rows.transposed() : rows, at(which, h));
      }
  }
  // (add to) c [rows, columns] = a times the weights
  void multiply(int which, std::int64_t h, std::int64_t rows, cpu::Matrix<T> a, T* c,
                const cpu::Epilogue<T>& epilogue) const {
    if (rows > 0)
      cpu::gemm_packed<T>(rows, columns_, inner_, a, at(which, h), c, columns_, epilogue);
  }

 private:
  T* at(int which, std::int64_t h) const {
    return packed_ + ((which - 1) * heads_ + h) * cpu::packed_size<T>(columns_, inner_);
  }
  std::int64_t heads_, columns_, inner_;
  cpu::Scratch<T> packed_;
};

template <class T>
void project(const Sizes& s, const T* x, const T* weight, const T* bias, T* q, T* k, T* v) {
  cpu::gemm<T>(s.batch * s.n, s.width(), s.e, {x, s.e, 1}, {weight, 1, s.e}, q, s.width(),
               {.bias = bias});
  const PackedHeads<T> packed(s, weight, true);
  cpu::parallel_each(s.batch * s.heads, 1, [&](std::int64_t task) {
    const std::int64_t b = task / s.heads, h = task % s.heads;
    const KeptRows<T> rows(s, x, b, h);
    for (int which : {1, 2}) {
      packed.multiply(which, h, rows.count(), rows.matrix(),
                      (which == 1 ? k : v) + s.first_row(b, h) * s.d,
                      {.bias = bias ? bias + s.weight_row(which, h) : nullptr});
    }
  });
}

// What arrives at q, k and v.
template <class T>
struct Arrived {
  const T *q, *k, *v;
  const T* of(int which) const { return which == 1 ? k : v; }
};

template <class T>
void input_gradient(const Sizes& s, const Arrived<T>& grad, const T* weight, T* dx) {
  cpu::gemm<T>(s.batch * s.n, s.e, s.width(), {grad.q, s.width(), 1}, {weight, s.e, 1}, dx, s.e);
  const PackedHeads<T> packed(s, weight, false);
  cpu::parallel_each(s.batch, 1, [&](std::int64_t b) {
    const cpu::Scratch<T> sums(s.n * s.e);
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const bool all = s.of(b).keeps_all(h);
      const std::int64_t rows = s.of(b).kept(h);
      T* const to = all ? dx + b * s.n * s.e : sums;
      for (int which : {1, 2})
        packed.multiply(which, h, rows, {grad.of(which) + s.first_row(b, h) * s.d, s.d, 1}, to,
                        {.accumulate = all || which == 2});
      for (std::int64_t r = 0; r < rows && !all; ++r)
        cpu::add_row<T>(s.e, sums + r * s.e, dx + (b * s.n + s.of(b).kept_tokens(h)[r]) * s.e);
    }
  });
}

template <class T>
void weight_gradient(const Sizes& s, const Arrived<T>& grad, const T* x, T* dw) {
  cpu::gemm<T>(s.width(), s.e, s.batch * s.n, {grad.q, 1, s.width()}, {x, s.e, 1}, dw, s.e);
  cpu::parallel_each(s.heads, 1, [&](std::int64_t h) {
    const cpu::Scratch<T> packed(cpu::gemm_scratch<T>(s.e, std::max<std::int64_t>(1, s.n)));
    for (int which : {1, 2}) std::fill_n(dw + s.weight_row(which, h) * s.e, s.d * s.e, T{0});
    for (std::int64_t b = 0; b < s.batch; ++b) {
      const KeptRows<T> rows(s, x, b, h);
      for (int which : {1, 2})
        cpu::gemm_serial<T>(s.d, s.e, rows.count(),
                            {grad.of(which) + s.first_row(b, h) * s.d, 1, s.d}, rows.matrix(),
                            dw + s.weight_row(which, h) * s.e, s.e, packed, {.accumulate = true});
    }
  });
}

template <class T>
void add_rows(std::int64_t rows, std::int64_t width, std::int64_t stride, const T* x, T* sum) {
  for (std::int64_t r = 0; r < rows; ++r) cpu::add_row(width, x + r * stride, sum);
}

template <class T>
void bias_gradient(const Sizes& s, const Arrived<T>& grad, T* db) {
  std::fill_n(db, 3 * s.width(), T{0});
  cpu::parallel_each(s.heads, 1, [&](std::int64_t h) {
    add_rows(s.batch * s.n, s.d, s.width(), grad.q + h * s.d, db + h * s.d);
    for (int which : {1, 2})
      for (std::int64_t b = 0; b < s.batch; ++b)
        add_rows(s.of(b).kept(h), s.d, s.d, grad.of(which) + s.first_row(b, h) * s.d,
                 db + s.weight_row(which, h));
  });
}

void check_operands(const Op& op, const Supports& supports, const Tensor& x, const Tensor& weight) {
  require(x.rank() == 3 && x.dim(2) > 0, op.name(), "expected x [B, N, E], got {}", x);
  supports.check(op, x);
  const std::int64_t heads = supports.heads();
  require(weight.rank() == 2 && weight.dim(1) == x.dim(2) && weight.dim(0) > 0 &&
              weight.dim(0) % (3 * heads) == 0,
          op.name(), "weight {} does not make q, k and v of {} heads from {}", weight, heads, x);
}

std::shared_ptr<const PairSupport> sample_support(std::int64_t heads, std::int64_t tokens) {
  return std::make_shared<const PairSupport>(
      heads, tokens, [tokens](std::int64_t h, std::int64_t, PairSupport::Row& keys) {
        for (std::int64_t j = 0; j < tokens; ++j)
          if (h == 0 || (j + h) % 3 != 0) keys.push_back(static_cast<std::uint16_t>(j));
      });
}

struct ProjectionSample {
  Supports supports;
  std::int64_t batch, n, e, d;
  bool bias;
};
std::vector<ProjectionSample> projection_samples() {
  return {{{PairSupport::whole(1, 1)}, 1, 1, 1, 1, true},
          {{sample_support(3, 7)}, 2, 7, 5, 3, true},
          {{sample_support(2, 197)}, 1, 197, 3, 2, false},
          {{sample_support(2, 6), PairSupport::whole(2, 6)}, 2, 6, 9, 8, true},
          {{sample_support(2, 4)}, 0, 4, 3, 2, true}};
}

}  // namespace

TensorSpecs KeptProjection::infer(In in) const {
  require(in.size() == 2 || in.size() == 3, name(), "expected 2 or 3 inputs, got {}", in.size());
  expect_float(*this, in);
  check_operands(*this, supports, in[0], in[1]);
  if (in.size() == 3) expect_shape(*this, in, 2, {in[1].dim(0)});
  const Sizes s(supports, in[0], in[1]);
  const TensorSpec kept = in[0].spec({s.supports.kept(s.batch), s.d});
  return {in[0].spec({s.batch, s.n, s.width()}), kept, kept};
}

CostParts KeptProjection::cost(In in, In out) const {
  const Sizes s(supports, in[0], in[1]);
  const std::uint64_t outputs = s.outputs(), rows = s.used_rows(), size = size_of(in[0].dtype());
  const auto inner = static_cast<std::uint64_t>(s.e);
  return {{"product", {2 * outputs * inner, 0, in[0].bytes() + rows * inner * size, bytes_of(out)}},
          {"bias", in.size() == 3 ? Cost{0, outputs, rows * size, 0} : Cost{}}};
}

void KeptProjection::cpu(In in, Out out) const {
  const Sizes s(supports, in[0], in[1]);
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    project<T>(s, in[0].data<T>(), in[1].data<T>(), in.size() == 3 ? in[2].data<T>() : nullptr,
               out[0].data<T>(), out[1].data<T>(), out[2].data<T>());
  });
}

// dx = dq W_q + dk W_k + dv W_v, dW and db likewise, of kept tokens
Tensors KeptProjection::grad(const GradArgs& args) const {
  const KeptProjectionBackward::Wants wants{args.needs(0), args.needs(1),
                                            args.in.size() == 3 && args.needs(2)};
  const Tensors got = run(KeptProjectionBackward(supports, wants),
                          {{args.grad_or_zeros(0), args.grad_or_zeros(1), args.grad_or_zeros(2),
                            args.in[0], args.in[1]}});
  Tensors grads(args.in.size());
  std::size_t next = 0;
  for (const auto& [i, wanted] : {std::pair{0, wants.x}, {1, wants.weight}, {2, wants.bias}})
    if (wanted) grads[i] = got[next++];
  return grads;
}

Samples KeptProjection::samples() {
  Samples all;
  for (const ProjectionSample& p : projection_samples()) {
    const std::int64_t rows = 3 * p.supports.heads() * p.d;
    std::vector<S> inputs{S::uniform({p.batch, p.n, p.e}), S::uniform({rows, p.e})};
    if (p.bias) inputs.push_back(S::uniform({rows}));
    all.push_back(sample(KeptProjection(p.supports), inputs));
  }
  return all;
}

TensorSpecs KeptProjectionBackward::infer(In in) const {
  expect_floats(*this, in, 5);
  check_operands(*this, supports, in[3], in[4]);
  const Sizes s(supports, in[3], in[4]);
  expect_shape(*this, in, 0, {s.batch, s.n, s.width()});
  for (const int i : {1, 2}) expect_shape(*this, in, i, {s.supports.kept(s.batch), s.d});
  TensorSpecs specs;
  if (wants.x) specs.push_back(in[3].spec());
  if (wants.weight) specs.push_back(in[4].spec());
  if (wants.bias) specs.push_back(in[4].spec({in[4].dim(0)}));
  return specs;
}

// a product for x and one for the weight, one addition an element for the bias
CostParts KeptProjectionBackward::cost(In in, In out) const {
  const Sizes s(supports, in[3], in[4]);
  const std::uint64_t arrived = s.outputs(), inner = static_cast<std::uint64_t>(s.e);
  const std::uint64_t products = (wants.x ? 1 : 0) + (wants.weight ? 1 : 0);
  const std::uint64_t bias = wants.bias ? out[out.size() - 1].bytes() : 0;
  std::uint64_t read = products > 0 ? bytes_of(in.first(3)) : 0;
  if (wants.x) read += s.used_rows() * inner * size_of(in[4].dtype());
  if (wants.weight) read += in[3].bytes();
  return {{"product", {2 * products * arrived * inner, 0, read, bytes_of(out) - bias}},
          {"bias",
           {0, wants.bias ? arrived : 0, wants.bias && products == 0 ? bytes_of(in.first(3)) : 0,
            bias}}};
}

void KeptProjectionBackward::cpu(In in, Out out) const {
  const Sizes s(supports, in[3], in[4]);
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    const Arrived<T> grad{in[0].data<T>(), in[1].data<T>(), in[2].data<T>()};
    std::size_t next = 0;
    if (wants.x) input_gradient<T>(s, grad, in[4].data<T>(), out[next++].data<T>());
    if (wants.weight) weight_gradient<T>(s, grad, in[3].data<T>(), out[next++].data<T>());
    if (wants.bias) bias_gradient<T>(s, grad, out[next].data<T>());
  });
}

Samples KeptProjectionBackward::samples() {
  Samples all;
  for (const ProjectionSample& p : projection_samples())
    for (const Wants& wants : {Wants{true, true, p.bias}, Wants{p.bias, false, false},
                               Wants{false, p.bias, false}, Wants{false, false, true}}) {
      const std::int64_t heads = p.supports.heads();
      const std::int64_t kept = p.supports.kept(p.batch);
      all.push_back(sample(KeptProjectionBackward(p.supports, wants),
                           {S::uniform({p.batch, p.n, heads * p.d}), S::uniform({kept, p.d}),
                            S::uniform({kept, p.d}), S::uniform({p.batch, p.n, p.e}),
                            S::uniform({3 * heads * p.d, p.e})}));
    }
  return all;
}

}  // namespace hg::ops
