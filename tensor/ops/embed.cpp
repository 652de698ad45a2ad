#include "tensor/ops/embed.h"

#include <algorithm>

#include "tensor/cpu/elementwise.h"
#include "tensor/ops/gather.h"

namespace hg::ops {
namespace {

template <class T>
void add_rows(std::int64_t n, const T* a, const T* b, T* y) {
  cpu::map([](auto p, auto q) { return ei::padd(p, q); }, n, y, a, b);
}

// keep, the last of `inputs` inputs, where it is there
const std::int64_t* ids_of(In in, std::size_t inputs) {
  return in.size() == inputs ? in[inputs - 1].data<std::int64_t>() : nullptr;
}

void expect_keep(const Op& op, In in, std::size_t i, const Shape& expected) {
  expect_dtype(op, in, static_cast<int>(i), DType::i64);
  expect_shape(op, in, static_cast<int>(i), expected);
}

// Columns of a table that one chunk adds up; a row of a chunk is a few cache lines.
constexpr std::int64_t kColumns = 64;

}  // namespace

TensorSpecs EmbedTokens::infer(In in) const {
  if (in.size() != 4) expect_inputs(*this, in, 3);
  expect_float(*this, in.first(3));
  expect_rank(*this, in, 0, 3);
  TensorSpec spec = in[0].spec();
  spec.shape[1] += 1;
  expect_shape(*this, in, 1, {1, 1, spec.shape[2]});
  if (in.size() == 3) {
    expect_shape(*this, in, 2, {1, spec.shape[1], spec.shape[2]});
    return {spec};
  }
  expect_keep(*this, in, 3, {in[0].dim(0), in[0].dim(1)});
  expect_rank(*this, in, 2, 3);
  require(in[2].dim(1) > 0, name(), "{} has no position of the class token", in[2]);
  expect_shape(*this, in, 2, {1, in[2].dim(1), spec.shape[2]});
  return {spec};
}

// of positions, those in use are read
CostParts EmbedTokens::cost(In in, In out) const {
  if (count(out[0]) == 0) return Cost{};  // no image: nothing is read
  Cost cost = elementwise_cost(in, out, count(out[0]));
  if (in.size() == 4) {
    const std::int64_t unused =
        in[2].dim(1) - 1 - static_cast<std::int64_t>(distinct_rows(in[3], 1, in[2].dim(1) - 1));
    cost.bytes_read -= static_cast<std::uint64_t>(unused * in[2].dim(2)) * size_of(in[2].dtype());
  }
  return cost;
}

void EmbedTokens::cpu(In in, Out out) const {
  const std::int64_t k = in[0].dim(1), width = in[0].dim(2), patches = k * width;
  if (in.size() == 4) check_ids(*this, in[3], in[2].dim(1) - 1);
  const std::int64_t* keep = ids_of(in, 4);
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    const T *x = in[0].data<T>(), *cls = in[1].data<T>(), *positions = in[2].data<T>();
    cpu::parallel_each(in[0].dim(0), 1, [&](std::int64_t b) {
      T* const y = out[0].data<T>() + b * (patches + width);
      add_rows(width, cls, positions, y);
      if (!keep) return add_rows(patches, x + b * patches, positions + width, y + width);
      for (std::int64_t i = 0; i < k; ++i)
        add_rows(width, x + b * patches + i * width, positions + (keep[b * k + i] + 1) * width,
                 y + (i + 1) * width);
    });
  });
}

Tensors EmbedTokens::grad(const GradArgs& args) const {
  const EmbedTokensBackward backward(args.in[2].dim(1));
  if (args.in.size() == 3) return run(backward, {args.grad_out[0]});
  Tensors grads = run(backward, {args.grad_out[0], args.in[3]});
  grads.emplace_back();
  return grads;
}

Samples EmbedTokens::samples() {
  const auto of = [](std::int64_t b, std::int64_t n, std::int64_t e) {
    return sample(EmbedTokens(),
                  {S::uniform({b, n, e}), S::uniform({1, 1, e}), S::uniform({1, n + 1, e})});
  };
  const auto kept = [](std::int64_t b, std::int64_t k, std::int64_t n, std::int64_t e) {
    return sample(EmbedTokens(), {S::uniform({b, k, e}), S::uniform({1, 1, e}),
                                  S::uniform({1, n + 1, e}), S::integers({b, k}, n)});
  };
  return {of(1, 1, 1),      of(3, 196, 5),        of(2, 4, 197),
          of(0, 3, 2),      kept(3, 138, 196, 5), kept(2, 3, 4, 197),
          kept(1, 1, 1, 1), kept(2, 0, 3, 2),     kept(0, 2, 3, 2)};
}

TensorSpecs EmbedTokensBackward::infer(In in) const {
  if (in.size() != 2) expect_inputs(*this, in, 1);
  expect_float(*this, in.first(1));
  expect_rank(*this, in, 0, 3);
  const Shape& s = in[0].shape();
  require(s[1] > 0, name(), "{} has no class token", in[0]);
  if (in.size() == 2)
    expect_keep(*this, in, 1, {s[0], s[1] - 1});
  else
    require(positions == s[1], name(), "{} positions for {}", positions, in[0]);
  require(positions > 0, name(), "{} positions, expected 1 or more", positions);
  return {in[0].spec({s[0], s[1] - 1, s[2]}), in[0].spec({1, 1, s[2]}),
          in[0].spec({1, positions, s[2]})};
}

// dpositions adds up over the images; dcls is its first row
CostParts EmbedTokensBackward::cost(In in, In out) const {
  return elementwise_cost(in, out, count(in[0]));
}

// Row by row, so that a position's sum goes over the images in their order, whatever was kept.
void EmbedTokensBackward::cpu(In in, Out out) const {
  const std::int64_t batch = in[0].dim(0), tokens = in[0].dim(1), width = in[0].dim(2);
  if (in.size() == 2) check_ids(*this, in[1], positions - 1);
  const std::int64_t* keep = ids_of(in, 2);
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    T *dpatches = out[0].data<T>(), *dpositions = out[2].data<T>();
    const auto add_columns = [&](std::int64_t begin, std::int64_t end) {
      const T* dy = in[0].data<T>() + begin;
      for (std::int64_t p = 0; p < positions; ++p)
        std::fill_n(dpositions + p * width + begin, end - begin, T{0});
      for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t t = 0; t < tokens; ++t, dy += width) {
          const std::int64_t patch = b * (tokens - 1) + t - 1;
          const std::int64_t position = t > 0 && keep ? keep[patch] + 1 : t;
          T* const sum = dpositions + position * width + begin;
          add_rows(end - begin, sum, dy, sum);
          if (t > 0) std::copy_n(dy, end - begin, dpatches + patch * width + begin);
        }
    };
    cpu::parallel_for(width, kColumns, add_columns);
    std::copy_n(dpositions, width, out[1].data<T>());
  });
}

Samples EmbedTokensBackward::samples() {
  const auto kept = [](std::int64_t b, std::int64_t k, std::int64_t n, std::int64_t e) {
    return sample(EmbedTokensBackward(n + 1), {S::uniform({b, k + 1, e}), S::integers({b, k}, n)});
  };
  return {sample(EmbedTokensBackward(197), {S::uniform({3, 197, 5})}),
          sample(EmbedTokensBackward(1), {S::uniform({1, 1, 1})}),
          sample(EmbedTokensBackward(50), {S::uniform({2, 50, 192})}),
          kept(3, 138, 196, 5),
          kept(2, 3, 4, 130),
          kept(1, 1, 1, 1)};
}

}  // namespace hg::ops
