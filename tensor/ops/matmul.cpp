#include "tensor/ops/matmul.h"

#include "tensor/cpu/gemm.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/scratch.h"
#include "tensor/ops/permute.h"
#include "tensor/ops/view.h"

namespace hg::ops {
namespace {

// How the call splits into products of m x k by k x n.
struct Plan {
  std::int64_t batch, m, k, n;
  bool shared;  // one b for the whole batch
};

Plan plan_of(const Tensor& a, const Tensor& b) {
  Plan plan{a.shape().product(0, a.rank() - 2), a.dim(-2), a.dim(-1), b.dim(-1), b.rank() == 2};
  if (plan.shared && a.contiguous()) {  // the batch is just more rows
    plan.m *= plan.batch;
    plan.batch = 1;
  }
  return plan;
}

template <class T>
cpu::Matrix<T> matrix_of(const Tensor& t, std::int64_t index) {
  const std::int64_t block = t.dim(-2) * t.dim(-1);
  return {t.data<T>() + index * block, t.strides()[t.rank() - 2], t.strides()[t.rank() - 1]};
}

template <class T>
void multiply(const Plan& plan, const Tensor& a, const Tensor& b, const Tensor& out) {
  const auto [batch, m, k, n, shared] = plan;
  T* const c = out.data<T>();
  const auto side_b = [&](std::int64_t i) { return matrix_of<T>(b, plan.shared ? 0 : i); };
  if (batch < cpu::threads()) {
    for (std::int64_t i = 0; i < batch; ++i)
      cpu::gemm<T>(m, n, k, matrix_of<T>(a, i), side_b(i), c + i * m * n, n);
    return;
  }
  cpu::parallel_for(batch, 1, [&, m = m, n = n, k = k](std::int64_t i, std::int64_t) {
    const cpu::Scratch<T> scratch(cpu::gemm_scratch<T>(n, k));
    cpu::gemm_serial<T>(m, n, k, matrix_of<T>(a, i), side_b(i), c + i * m * n, n, scratch);
  });
}

Cost product_cost(In in, In out, std::uint64_t additions) {
  if (count(out[0]) == 0) return {};  // no output: nothing is read
  return {.flops_mm = 2 * count(out[0]) * static_cast<std::uint64_t>(in[0].dim(-1)),
          .flops_ew = additions,
          .bytes_read = bytes_of(in),
          .bytes_written = bytes_of(out)};
}

}  // namespace

TensorSpecs Matmul::infer(In in) const {
  expect_floats(*this, in, 2);
  expect_rank_at_least(*this, in, 0, 2);
  expect_rank_at_least(*this, in, 1, 2);
  const Shape &a = in[0].shape(), &b = in[1].shape();
  const bool leading_fit = b.rank() == 2 || a.slice(0, a.rank() - 2) == b.slice(0, b.rank() - 2);
  require(leading_fit && a[a.rank() - 1] == b[b.rank() - 2], name(), "cannot multiply {} by {}", a,
          b);
  TensorSpec spec = in[0].spec();
  spec.shape[spec.shape.rank() - 1] = b.back();
  return {spec};
}

CostParts Matmul::cost(In in, In out) const { return product_cost(in, out, 0); }

void Matmul::cpu(In in, Out out) const {
  dispatch_float(out[0].dtype(), name(),
                 [&]<class T>() { multiply<T>(plan_of(in[0], in[1]), in[0], in[1], out[0]); });
}

// da = dy b^T, db = a^T dy; a shared b gets the sum over the batch, which is one product over all
// rows.
Tensors Matmul::grad(const GradArgs& args) const {
  const Tensor &a = args.in[0], &b = args.in[1], &dy = args.grad_out[0];
  Tensors grads(2);
  if (args.needs(0)) grads[0] = matmul(dy, transpose(b));
  if (!args.needs(1)) return grads;
  if (b.rank() == 2 && a.rank() > 2) {
    const Tensor rows = reshape(contiguous(a), {a.numel() / a.dim(-1), a.dim(-1)});
    grads[1] = matmul(transpose(rows), reshape(dy, {dy.numel() / dy.dim(-1), dy.dim(-1)}));
  } else {
    grads[1] = matmul(transpose(a), dy);
  }
  return grads;
}

Samples Matmul::samples() {
  return {sample(Matmul(), {S::uniform({1, 1}), S::uniform({1, 1})}),
          sample(Matmul(), {S::uniform({3, 197}), S::uniform({197, 5})}),
          sample(Matmul(), {S::uniform({197, 3}), S::transposed_view({3, 17})}),
          sample(Matmul(), {S::transposed_view({19, 7}), S::uniform({7, 33})}),
          sample(Matmul(), {S::transposed_view({2, 3, 4}), S::transposed_view({2, 4, 5})}),
          sample(Matmul(), {S::uniform({2, 3, 4, 5}), S::uniform({2, 3, 5, 6})}),
          sample(Matmul(), {S::uniform({3, 2, 4}), S::uniform({4, 5})}),
          sample(Matmul(), {S::transposed_view({3, 2, 4}), S::transposed_view({4, 5})}),
          sample(Matmul(), {S::uniform({0, 4}), S::uniform({4, 5})}),
          sample(Matmul(), {S::uniform({2, 3, 0}), S::uniform({2, 0, 5})}),
          sample(Matmul(), {S::uniform({50, 300}), S::uniform({300, 40})}, 1e-5)};
}

TensorSpecs MatmulAdd::infer(In in) const {
  expect_floats(*this, in, 3);
  for (int i = 0; i < 3; ++i) expect_rank(*this, in, i, 2);
  require(in[0].dim(1) == in[1].dim(0), name(), "cannot multiply {} by {}", in[0].shape(),
          in[1].shape());
  expect_shape(*this, in, 2, {in[0].dim(0), in[1].dim(1)});
  TensorSpec spec = in[2].spec();
  spec.alias_of = 2;
  spec.in_place = true;
  return {spec};
}

CostParts MatmulAdd::cost(In in, In out) const { return product_cost(in, out, count(out[0])); }

void MatmulAdd::cpu(In in, Out out) const {
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    cpu::gemm<T>(in[0].dim(0), in[1].dim(1), in[0].dim(1), matrix_of<T>(in[0], 0),
                 matrix_of<T>(in[1], 0), out[0].data<T>(), out[0].dim(1), {.accumulate = true});
  });
}

Samples MatmulAdd::samples() {
  return {
      sample(MatmulAdd(), {S::uniform({1, 1}), S::uniform({1, 1}), S::uniform({1, 1})}),
      sample(MatmulAdd(), {S::uniform({3, 197}), S::uniform({197, 5}), S::uniform({3, 5})}),
      sample(MatmulAdd(), {S::transposed_view({19, 7}), S::uniform({7, 33}), S::uniform({19, 33})}),
      sample(MatmulAdd(), {S::uniform({67, 3}), S::transposed_view({3, 17}), S::uniform({67, 17})}),
      sample(MatmulAdd(), {S::uniform({2, 0}), S::uniform({0, 5}), S::uniform({2, 5})}),
      sample(MatmulAdd(), {S::uniform({0, 4}), S::uniform({4, 5}), S::uniform({0, 5})}),
      sample(MatmulAdd(),
             {S::transposed_view({50, 700}), S::uniform({700, 40}), S::uniform({50, 40})}, 1e-5)};
}

}  // namespace hg::ops
