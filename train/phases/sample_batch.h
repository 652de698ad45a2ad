// What is counted or timed without weights and data: a model, and batches in the shape that a
// phase's steps have.
#pragma once

#include "data/loader.h"
#include "data/patch_select.h"
#include "nn/vit.h"
#include "train/config/phase_kind.h"

namespace hg {

// With model.attention = "fiak_pruned" and a phase that prunes, random priors, pruned as it says,
// stand for learned ones.
nn::VitOptions options_to_measure(const Config& config);

enum class Contents { none, random };  // none: images to be counted, not computed

// Where [select] drops patches, so does the batch; on the host.
Batch sample_batch(const Config& config, const BatchShape& shape,
                   const std::optional<PatchSelection>& selection, Contents contents);

}  // namespace hg
