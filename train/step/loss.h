// What a step minimises: cross-entropy, the distance to a teacher, and the terms of [loss] that
// attention layers record.
#pragma once

#include "nn/vit.h"
#include "train/config/config.h"

namespace hg {

// A record that asks the layers for what the loss is made of.
nn::PassRecord record_for(const LossConfig& loss);

// What images are said to show.
struct Targets {
  Tensor labels;     // [B]
  Tensor teacher{};  // its logits [B, classes], not learnt through; undefined: there is none
};

// Of some images' logits and the record of their pass: their share of the mean over `batch` images
// (0: these are all).
Tensor training_loss(const Tensor& logits, const Targets& targets, const nn::PassRecord& record,
                     const LossConfig& loss, std::int64_t batch = 0);

// How many of [B] are 1.
std::int64_t count_boxes(const Tensor& has_box);

// A loss by class and, added to it, these images' share of the box loss; `all_boxes` are those of
// the batch, 0 if it has none.
Tensor with_box_loss(const Tensor& loss, const Tensor& predicted, const Tensor& boxes,
                     const Tensor& has_box, std::int64_t all_boxes);

}  // namespace hg
