// triplet: mean over anchors (tensor/ops/label_pairs.h) of max(0, margin + d_ip - d_in), with
// distances d = sqrt(max(2 - 2 s, 1e-12)) of similarities s_ij = z_i . z_j; p is the farthest
// positive.
#pragma once

#include "tensor/op.h"
#include "tensor/random.h"

namespace hg {

struct TripletOptions {
  // hard: the nearest negative; semi_hard: the nearest that is farther than the positive, else the
  // nearest; random: any, drawn from a stream of its own
  enum class Negatives { hard, semi_hard, random };
  double margin = 0.2;
  Negatives negatives = Negatives::hard;
};

namespace ops {

// inputs s [M,M], whose diagonal is never read, and labels i64 [M]; outputs loss [1] and the
// auxiliary i64 [M,2], positive and negative of each anchor; of a row that is none, the row itself
class Triplet final : public OpOf<Triplet> {
 public:
  // Random negatives: row i takes draw first + i of the stream of `key`.
  explicit Triplet(const TripletOptions& options, std::uint64_t key = 0, std::uint64_t first = 0)
      : options(options), key(key), first(first) {}
  HG_DECLARE_DIFFERENTIABLE_OP("triplet");
  Saved saved() const override { return {.in = {0}, .out = {1}}; }
  Indices auxiliary_outputs() const override { return {1}; }

  const TripletOptions options;
  const std::uint64_t key, first;
};

// inputs dy [1], s, and the rows chosen by the forward; output ds [M,M]
class TripletBackward final : public GradientOp<TripletBackward> {
 public:
  explicit TripletBackward(double margin) : margin(margin) {}
  HG_DECLARE_OP("triplet_backward");

  const double margin;
};

}  // namespace ops

// z [M,D], rows of length 1; labels i64 [M]. Random negatives take one draw a row from the stream.
Tensor triplet_loss(const Tensor& z, const Tensor& labels, const TripletOptions& options,
                    RandomStream& stream);

}  // namespace hg
