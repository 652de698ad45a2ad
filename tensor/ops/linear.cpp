#include "tensor/ops/linear.h"

#include "tensor/cpu/gemm.h"
#include "tensor/observer.h"
#include "tensor/ops/broadcast.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/unary.h"
#include "tensor/ops/view.h"

namespace hg {
namespace ops {
namespace {

Tensor as_rows(const Tensor& t) { return reshape(t, {t.numel() / t.dim(-1), t.dim(-1)}); }

}  // namespace

TensorSpecs Linear::infer(In in) const {
  require(in.size() == 2 || in.size() == 3, name(), "expected 2 or 3 inputs, got {}", in.size());
  expect_float(*this, in);
  expect_rank_at_least(*this, in, 0, 1);
  expect_rank(*this, in, 1, 2);
  require(in[0].dim(-1) == in[1].dim(1) && in[0].dim(-1) > 0 && in[1].dim(0) > 0, name(),
          "cannot apply weight {} to {}", in[1].shape(), in[0].shape());
  if (in.size() == 3) expect_shape(*this, in, 2, {in[1].dim(0)});
  TensorSpec spec = in[0].spec();
  spec.shape[spec.shape.rank() - 1] = in[1].dim(0);
  if (keep_pre) return {spec, spec};
  return {spec};
}

CostParts Linear::cost(In in, In out) const {
  const std::uint64_t outputs = count(out[0]);
  if (outputs == 0) return Cost{};  // no row: nothing is read
  const CostPart product{"product",
                         {.flops_mm = 2 * outputs * static_cast<std::uint64_t>(in[0].dim(-1)),
                          .flops_ew = 0,
                          .bytes_read = in[0].bytes() + in[1].bytes(),
                          .bytes_written = bytes_of(out)}};
  const CostPart bias{"bias", in.size() == 3 ? Cost{0, outputs, in[2].bytes(), 0} : Cost{}};
  const CostPart activation{"gelu", gelu ? Cost{0, 5 * outputs, 0, 0} : Cost{}};
  return {product, bias, activation};
}

void Linear::cpu(In in, Out out) const {
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    const std::int64_t inner = in[1].dim(1), width = in[1].dim(0);
    cpu::Epilogue<T> epilogue;
    epilogue.bias = in.size() == 3 ? in[2].data<T>() : nullptr;
    epilogue.gelu = gelu;
    epilogue.pre = keep_pre ? out[1].data<T>() : nullptr;
    cpu::gemm<T>(in[0].numel() / inner, width, inner, {in[0].data<T>(), inner, 1},
                 {in[1].data<T>(), 1, inner}, out[0].data<T>(), width, epilogue);
  });
}

// dpre = dy gelu'(pre); dx = dpre W; dW = dpre^T x; db = sum of dpre's rows
Tensors Linear::grad(const GradArgs& args) const {
  require(!gelu || keep_pre, name(), "its gradient needs keep_pre");
  const Tensor dpre = gelu
                          ? run_one(UnaryBackward(UnaryKind::gelu), {args.grad_out[0], args.out[1]})
                          : args.grad_out[0];
  Tensors grads(args.in.size());
  if (args.needs(0)) grads[0] = reshape(matmul(as_rows(dpre), args.in[1]), args.in[0].shape());
  if (args.needs(1))
    grads[1] = matmul_into(args.sum(1), transpose(as_rows(dpre)), as_rows(args.in[0]));
  if (args.in.size() == 3 && args.needs(2)) grads[2] = sum_leading(dpre, 1);
  return grads;
}

Samples Linear::samples() {
  return {sample(Linear(), {S::uniform({1, 1}), S::uniform({1, 1})}),
          sample(Linear(), {S::uniform({2, 197, 3}), S::uniform({5, 3}), S::uniform({5})}),
          sample(Linear(), {S::uniform({7}), S::uniform({3, 7}), S::uniform({3})}),
          sample(Linear(), {S::uniform({4, 6}), S::uniform({1, 6}), S::uniform({1})}),
          sample(Linear(true, true), {S::uniform({3, 17}), S::uniform({33, 17}), S::uniform({33})}),
          sample(Linear(true, true), {S::uniform({2, 3, 5}), S::uniform({4, 5})}),
          sample(Linear(), {S::uniform({0, 5}), S::uniform({3, 5}), S::uniform({3})})};
}

}  // namespace ops

Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return run_one(ops::Linear(true, recording({x, weight, bias})), {x, weight, bias});
}

}  // namespace hg
