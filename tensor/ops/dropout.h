// dropout: y = x mask / (1 - p). The mask is drawn anew from the stream wherever it is needed and
// never stored: element i is kept if draw first + i is not below p, on any device and any thread.
#pragma once

#include "tensor/random.h"
#include "tensor/run.h"

namespace hg {
namespace ops {

class Dropout final : public OpOf<Dropout> {
 public:
  Dropout(double probability, std::uint64_t key, std::uint64_t first)
      : probability(probability), key(key), first(first) {}
  HG_DECLARE_DIFFERENTIABLE_OP("dropout");
  Saved saved() const override { return {.in = {}, .out = {}}; }

  const double probability;        // of an element to become 0; in [0, 1)
  const std::uint64_t key, first;  // of the stream, and the position of the first draw
};

}  // namespace ops

// Takes one draw per element from the stream; p = 0 returns x itself.
inline Tensor dropout(const Tensor& x, double p, RandomStream& stream) {
  const ops::Dropout op(p, stream.key(), stream.position());
  const Tensor y = p == 0 ? x : run_one(op, {x});
  stream.take(static_cast<std::uint64_t>(x.numel()));
  return y;
}

}  // namespace hg
