// Which pairs of a batch a contrastive loss is made of: of an anchor, the other rows with its label
// are positives, rows with another label negatives. Rows that lack either are no anchors.
#pragma once

#include "tensor/op.h"

namespace hg {

struct LabelPairs {
  std::int64_t anchors = 0, positives = 0, negatives = 0;  // the latter two over all anchors

  std::int64_t all() const { return positives + negatives; }
};
LabelPairs count_pairs(const Tensor& labels);  // i64 [M], any values

// The pairs of one anchor.
struct AnchorPairs {
  std::int64_t positives, negatives;

  AnchorPairs(std::int64_t rows, const std::int64_t* label, std::int64_t anchor);
  bool used() const { return positives > 0 && negatives > 0; }
};

// For ops on similarities [M,M] and labels i64 [M], by their places among the inputs: throws unless
// they fit.
void expect_labelled_pairs(const Op& op, In in, int similarities, int labels);

// Sizes to test such ops on; labels are drawn from 0 .. labels - 1.
struct LabelledSize {
  std::int64_t rows, labels;
};
inline constexpr LabelledSize kLabelledSizes[] = {{1, 1},   {3, 2},   {7, 1}, {12, 4},
                                                  {197, 9}, {40, 40}, {0, 1}};

}  // namespace hg
