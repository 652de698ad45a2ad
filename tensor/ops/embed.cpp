#include "tensor/ops/embed.h"

#include <algorithm>

#include "tensor/cpu/elementwise.h"
#include "tensor/run.h"

namespace hg {
namespace ops {
namespace {

namespace ei = Eigen::internal;

template <class T>
void add_rows(std::int64_t n, const T* a, const T* b, T* y) {
  cpu::map(
      n, y, [](auto p, auto q) { return ei::padd(p, q); }, a, b);
}

}  // namespace

TensorSpecs EmbedTokens::infer(In in) const {
  expect_inputs(*this, in, 3);
  expect_float(*this, in);
  expect_rank(*this, in, 0, 3);
  TensorSpec spec = in[0].spec();
  spec.shape[1] += 1;
  expect_shape(*this, in, 1, {1, 1, spec.shape[2]});
  expect_shape(*this, in, 2, {1, spec.shape[1], spec.shape[2]});
  return {spec};
}

CostParts EmbedTokens::cost(In in, In out) const {
  if (count(out[0]) == 0) return Cost{};  // no image: nothing is read
  return elementwise_cost(in, out, count(out[0]));
}

void EmbedTokens::cpu(In in, Out out) const {
  const std::int64_t width = in[0].dim(2), patches = in[0].dim(1) * width;
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    const T *x = in[0].data<T>(), *cls = in[1].data<T>(), *positions = in[2].data<T>();
    cpu::parallel_for(in[0].dim(0), 1, [&](std::int64_t b, std::int64_t) {
      T* const y = out[0].data<T>() + b * (patches + width);
      add_rows(width, cls, positions, y);
      add_rows(patches, x + b * patches, positions + width, y + width);
    });
  });
}

Tensors EmbedTokens::grad(const GradArgs& args) const {
  return run(EmbedTokensBackward(), {args.grad_out[0]});
}

Samples EmbedTokens::samples() {
  using S = SampleInput;
  const auto of = [](std::int64_t b, std::int64_t n, std::int64_t e) {
    return sample(EmbedTokens(),
                  {S::uniform({b, n, e}), S::uniform({1, 1, e}), S::uniform({1, n + 1, e})});
  };
  return {of(1, 1, 1), of(3, 196, 5), of(2, 4, 197), of(0, 3, 2)};
}

TensorSpecs EmbedTokensBackward::infer(In in) const {
  expect_inputs(*this, in, 1);
  expect_float(*this, in);
  expect_rank(*this, in, 0, 3);
  const Shape& s = in[0].shape();
  require(s[1] > 0, name(), "{} has no class token", in[0]);
  TensorSpec patches = in[0].spec(), cls = patches, positions = patches;
  patches.shape[1] -= 1;
  cls.shape = {1, 1, s[2]};
  positions.shape = {1, s[1], s[2]};
  return {patches, cls, positions};
}

// dpositions adds up over the images; dcls is its first row
CostParts EmbedTokensBackward::cost(In in, In out) const {
  return elementwise_cost(in, out, count(in[0]));
}

void EmbedTokensBackward::cpu(In in, Out out) const {
  const Shape& s = in[0].shape();
  const std::int64_t batch = s[0], width = s[2], row = s[1] * width;
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    const T* dy = in[0].data<T>();
    T *dpatches = out[0].data<T>(), *dpositions = out[2].data<T>();
    cpu::parallel_for(row, 4096, [&](std::int64_t begin, std::int64_t end) {
      std::fill(dpositions + begin, dpositions + end, T{0});
      for (std::int64_t b = 0; b < batch; ++b) {
        const T* from = dy + b * row;
        add_rows(end - begin, dpositions + begin, from + begin, dpositions + begin);
        const std::int64_t first = std::max(begin, width);
        if (first < end)
          std::copy(from + first, from + end, dpatches + b * (row - width) + first - width);
      }
    });
    std::copy_n(dpositions, width, out[1].data<T>());
  });
}

Samples EmbedTokensBackward::samples() {
  using S = SampleInput;
  return {sample(EmbedTokensBackward(), {S::uniform({3, 197, 5})}),
          sample(EmbedTokensBackward(), {S::uniform({1, 1, 1})}),
          sample(EmbedTokensBackward(), {S::uniform({2, 50, 192})})};
}

}  // namespace ops

Tensor embed_tokens(const Tensor& patches, const Tensor& cls, const Tensor& positions) {
  return run_one(ops::EmbedTokens(), {patches, cls, positions});
}

}  // namespace hg
