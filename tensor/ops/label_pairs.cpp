#include "tensor/ops/label_pairs.h"

#include <algorithm>

#include "tensor/transfer.h"

namespace hg {

LabelPairs count_pairs(const Tensor& labels) {
  const Tensor here = on_host(labels);
  const std::int64_t* const label = here.data<std::int64_t>();
  CachedVector<std::int64_t> sorted(label, label + labels.numel());
  std::sort(sorted.begin(), sorted.end());
  LabelPairs pairs;
  const std::int64_t rows = labels.numel();
  for (auto begin = sorted.begin(); begin != sorted.end();) {
    const auto end = std::upper_bound(begin, sorted.end(), *begin);
    const std::int64_t same = end - begin;
    begin = end;
    if (same == 1 || same == rows) continue;
    pairs.anchors += same;
    pairs.positives += same * (same - 1);
    pairs.negatives += same * (rows - same);
  }
  return pairs;
}

AnchorPairs::AnchorPairs(std::int64_t rows, const std::int64_t* label, std::int64_t anchor)
    : positives(std::count(label, label + rows, label[anchor]) - 1),
      negatives(rows - 1 - positives) {}

void expect_labelled_pairs(const Op& op, In in, int similarities, int labels) {
  expect_rank(op, in, labels, 1);
  const std::int64_t rows = in[labels].dim(0);
  expect_shape(op, in, similarities, {rows, rows});
}

}  // namespace hg
