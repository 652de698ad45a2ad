// The pairs of a batch (tensor/ops/label_pairs.h) on the device.
#pragma once

#include "tensor/cuda/along_axis.h"

namespace hg::cuda {

// The pairs of one row.
struct Anchor {
  const std::int64_t* label;
  std::int64_t self;
  __device__ bool is_positive(int j) const { return j != self && label[j] == label[self]; }
  __device__ bool is_negative(int j) const { return label[j] != label[self]; }
};

// The mean of losses over the anchors; 0 if there are none. is_anchor(j): whether row j is one.
template <class IsAnchor>
struct MeanOfAnchors {
  const float* losses;
  IsAnchor is_anchor;
  float* loss;
  __device__ void operator()(const auto& row, std::int64_t) const {
    const float anchors = row_sum(row, is_anchor);
    const float sum = row_sum(row, [&](int j) { return losses[j]; });
    if (row.leads()) *loss = anchors == 0 ? 0 : sum / anchors;
  }
};

}  // namespace hg::cuda
