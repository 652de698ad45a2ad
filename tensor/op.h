// What an op is: shape rules, kernels, gradient and cost of one operation, declared together.
// Parameters are typed members of the subclass; tensors come in through run() (tensor/run.h).
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "tensor/cost.h"
#include "tensor/sample.h"
#include "tensor/tensor.h"

namespace hg {

using In = std::span<const Tensor>;
using Out = std::span<const Tensor>;  // handles are fixed, contents are written
class CudaStream;

// A set of inputs or outputs, by index.
struct Indices {
  static constexpr std::size_t kMost = 64;
  std::uint64_t bits = 0;
  constexpr Indices() = default;
  constexpr Indices(std::initializer_list<int> members) {
    for (const int i : members) bits |= std::uint64_t{1} << i;
  }
  static constexpr Indices all() {
    Indices every;
    every.bits = ~std::uint64_t{0};
    return every;
  }
  constexpr bool has(std::size_t i) const { return i < kMost && (bits >> i & 1) != 0; }
};

// What a gradient needs to keep from the forward call; the rest is kept as shapes only.
struct Saved {
  Indices in = Indices::all(), out = Indices::all();
};

struct GradArgs {
  In in, out;    // of the forward call; hollow where Op::saved() did not ask for the contents
  In grad_out;   // one per output; undefined where no gradient arrived (at least one is defined)
  Indices need;  // inputs whose gradient is wanted
  // Of each input: undefined, or gradients that grad() may add to in place. It returns them then.
  In sums = {};

  bool needs(int i) const { return need.has(static_cast<std::size_t>(i)); }
  Tensor sum(int i) const { return sums.empty() ? Tensor() : sums[static_cast<std::size_t>(i)]; }
  // grad_out[i], or zeros in its place.
  Tensor grad_or_zeros(int i) const;
};

Tensors joined(In first, In second);
inline Tensors joined(std::initializer_list<Tensor> first, In second) {
  return joined(In(first.begin(), first.size()), second);
}

class Op {
 public:
  virtual ~Op() = default;
  virtual std::string_view name() const = 0;
  // Output specs. All validation of shapes, types and parameters happens here, before any
  // allocation.
  virtual TensorSpecs infer(In in) const = 0;
  virtual CostParts cost(In in, In out) const = 0;
  virtual void cpu(In in, Out out) const = 0;
  virtual void cuda(In in, Out out, CudaStream& stream) const;
  // One gradient per input, undefined where args.needs(i) is false. Calls other ops.
  virtual Tensors grad(const GradArgs& args) const = 0;

  virtual Saved saved() const { return {}; }
  // Outputs kept for grad() or for information only: no gradient ever flows into them.
  virtual Indices auxiliary_outputs() const { return {}; }
  // Inputs that may come as strided views; everything else must be contiguous.
  virtual Indices strided_inputs() const { return {}; }
  // Why grad() can't be called; empty for a differentiable op.
  virtual std::string_view not_differentiable() const { return {}; }
  virtual std::shared_ptr<const Op> clone() const = 0;

 protected:
  using S = SampleInput;  // for samples()
};

// What every op class of tensor/ops declares: HG_DECLARE_OP("softmax"). All but cuda() are defined
// in the stem's .cpp file, cuda() in its .cu file.
//
// cuda() is declared in every build, so that what is compiled here doesn't depend on the device:
// where no .cu file is compiled, tensor/ops/absent.cpp stands in and throws as Op::cuda does, and
// tests link kernels compiled for an emulated device instead (tests/cuda_emu).
#define HG_DECLARE_OP(op_name)                                  \
  std::string_view name() const override { return op_name; }    \
  TensorSpecs infer(In in) const override;                      \
  CostParts cost(In in, In out) const override;                 \
  void cpu(In in, Out out) const override;                      \
  void cuda(In in, Out out, CudaStream& stream) const override; \
  static Samples samples()
#define HG_DECLARE_DIFFERENTIABLE_OP(op_name)        \
  Tensors grad(const GradArgs& args) const override; \
  HG_DECLARE_OP(op_name)

// Base of every concrete op: class Softmax final : public OpOf<Softmax>.
template <class Derived>
class OpOf : public Op {
 public:
  std::shared_ptr<const Op> clone() const final {
    return std::allocate_shared<Derived>(CachedAllocator<Derived>{},
                                         static_cast<const Derived&>(*this));
  }
};

// Base of an op without a gradient; Derived::kNotDifferentiable states the reason.
template <class Derived>
class NonDifferentiable : public OpOf<Derived> {
 public:
  std::string_view not_differentiable() const final { return Derived::kNotDifferentiable; }
  Tensors grad(const GradArgs&) const final {
    fail(this->name(), "not differentiable: {}", not_differentiable());
  }
};

// Base of an op that computes the gradient of another: class SoftmaxBackward final : public
// GradientOp<SoftmaxBackward>.
template <class Derived>
class GradientOp : public NonDifferentiable<Derived> {
 public:
  static constexpr std::string_view kNotDifferentiable =
      "it is itself a gradient, and second derivatives are not provided";
};

// Bytes of whole tensors, for Op::cost.
std::uint64_t bytes_of(In tensors);
inline std::uint64_t count(const Tensor& t) { return static_cast<std::uint64_t>(t.numel()); }
// The common cost: all inputs read, all outputs written, so many elementwise FLOPs.
inline Cost elementwise_cost(In in, In out, std::uint64_t flops) {
  return {
      .flops_mm = 0, .flops_ew = flops, .bytes_read = bytes_of(in), .bytes_written = bytes_of(out)};
}

// Checks for Op::infer; each throws Error with the op's name and the offending shapes.
void expect_inputs(const Op& op, In in, std::size_t count);
// All f32 or all f64, but i64 where `integers` says so; expect_floats(): so many of them.
void expect_float(const Op& op, In in, Indices integers = {});
void expect_floats(const Op& op, In in, std::size_t count, Indices integers = {});
void expect_dtype(const Op& op, In in, int i, DType dtype);
void expect_shape(const Op& op, In in, int i, const Shape& expected);
void expect_rank(const Op& op, In in, int i, int rank);
void expect_rank_at_least(const Op& op, In in, int i, int rank);

}  // namespace hg
