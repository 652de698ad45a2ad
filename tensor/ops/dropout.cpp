#include "tensor/ops/dropout.h"

#include "tensor/cpu/drop.h"
#include "tensor/cpu/elementwise.h"

namespace hg::ops {

TensorSpecs Dropout::infer(In in) const {
  expect_floats(*this, in, 1);
  require(probability >= 0 && probability < 1, name(), "probability {} is not in [0, 1)",
          probability);
  return {in[0].spec()};
}

// the multiplication
CostParts Dropout::cost(In in, In out) const { return elementwise_cost(in, out, count(out[0])); }

void Dropout::cpu(In in, Out out) const {
  const cpu::DropRule rule{key, probability};
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    cpu::parallel_for(in[0].numel(), cpu::kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      cpu::drop(rule, first + static_cast<std::uint64_t>(begin), end - begin,
                in[0].data<T>() + begin, out[0].data<T>() + begin);
    });
  });
}

// dx = dy mask / (1 - p)
Tensors Dropout::grad(const GradArgs& args) const { return {run_one(*this, {args.grad_out[0]})}; }

Samples Dropout::samples() {
  constexpr std::uint64_t kKey = 0x0123456789abcdef, kFar = (std::uint64_t{1} << 34) - 10;
  return {sample(Dropout(0.1, kKey, 0), {S::uniform({3, 197})}),
          sample(Dropout(0.5, kKey, 7), {S::uniform({1})}),
          sample(Dropout(0.25, kKey, 2), {S::uniform({5, 70, 101})}),
          sample(Dropout(0.75, kKey, kFar), {S::uniform({61})}),  // the block passes 2^32
          sample(Dropout(0, kKey, 1), {S::uniform({2, 3})}),
          sample(Dropout(0.5, kKey, 0), {S::uniform({0, 3})})};
}

}  // namespace hg::ops
