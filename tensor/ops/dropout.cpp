#include "tensor/ops/dropout.h"

#include <algorithm>
#include <cmath>

#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/philox.h"
#include "tensor/run.h"

namespace hg {
namespace ops {
namespace {

// y[i] = x[i] * (scale or 0) for n elements whose draws start at `position`. A draw's upper 24 bits
// are its uniform number, so `threshold` = p 2^24.
template <class T>
void drop(std::int64_t n, const T* x, T* y, std::uint64_t key, std::uint64_t position,
          std::uint32_t threshold, T scale) {
  std::uint32_t draws[cpu::kPhiloxDraws];
  std::int64_t skip = static_cast<std::int64_t>(position % 4);
  std::uint64_t block = position / 4;
  for (std::int64_t done = 0; done < n; block += cpu::kPhiloxBlocks, skip = 0) {
    cpu::draw_blocks(key, block, draws);
    const std::int64_t now = std::min(n - done, cpu::kPhiloxDraws - skip);
    for (std::int64_t i = 0; i < now; ++i)
      y[done + i] = x[done + i] * (draws[skip + i] >> 8 >= threshold ? scale : T{0});
    done += now;
  }
}

}  // namespace

TensorSpecs Dropout::infer(In in) const {
  expect_inputs(*this, in, 1);
  expect_float(*this, in);
  require(probability >= 0 && probability < 1, name(), "probability {} is not in [0, 1)",
          probability);
  return {in[0].spec()};
}

// the multiplication
CostParts Dropout::cost(In in, In out) const { return elementwise_cost(in, out, count(out[0])); }

void Dropout::cpu(In in, Out out) const {
  const auto threshold = static_cast<std::uint32_t>(std::ceil(probability * 0x1p24));
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    const T scale = static_cast<T>(1 / (1 - probability));
    cpu::parallel_for(in[0].numel(), cpu::kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      drop(end - begin, in[0].data<T>() + begin, out[0].data<T>() + begin, key,
           first + static_cast<std::uint64_t>(begin), threshold, scale);
    });
  });
}

// dx = dy mask / (1 - p)
Tensors Dropout::grad(const GradArgs& args) const { return {run_one(*this, {args.grad_out[0]})}; }

Samples Dropout::samples() {
  using S = SampleInput;
  constexpr std::uint64_t kKey = 0x0123456789abcdef, kFar = (std::uint64_t{1} << 34) - 10;
  return {sample(Dropout(0.1, kKey, 0), {S::uniform({3, 197})}),
          sample(Dropout(0.5, kKey, 7), {S::uniform({1})}),
          sample(Dropout(0.25, kKey, 2), {S::uniform({5, 70, 101})}),
          sample(Dropout(0.75, kKey, kFar), {S::uniform({61})}),  // the block passes 2^32
          sample(Dropout(0, kKey, 1), {S::uniform({2, 3})}),
          sample(Dropout(0.5, kKey, 0), {S::uniform({0, 3})})};
}

}  // namespace ops

Tensor dropout(const Tensor& x, double p, RandomStream& stream) {
  const ops::Dropout op(p, stream.key(), stream.position());
  const Tensor y = p == 0 ? x : run_one(op, {x});
  stream.take(static_cast<std::uint64_t>(x.numel()));
  return y;
}

}  // namespace hg
