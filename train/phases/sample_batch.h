// Batches that no data set is needed for, in the shape that a phase's steps have.
#pragma once

#include "data/loader.h"
#include "data/patch_select.h"
#include "train/config/phase_kind.h"

namespace hg {

enum class Contents { none, random };  // none: images to be counted, not computed

// Where [select] drops patches, so does the batch; on the host.
Batch sample_batch(const Config& config, const BatchShape& shape,
                   const std::optional<PatchSelection>& selection, Contents contents);

}  // namespace hg
