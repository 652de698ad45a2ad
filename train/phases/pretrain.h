// Masks of pretraining.
#pragma once

#include <span>

#include "nn/masked_patches.h"

namespace hg {

// Draws the patches to mask: of each image, uniformly and without replacement. For images of those
// indices, each with `patches` patches; a function of key and index.
nn::PatchMask draw_masks(std::uint64_t key, std::span<const std::int64_t> images,
                         std::int64_t patches, std::int64_t masked);

}  // namespace hg
