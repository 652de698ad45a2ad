// Whether a run fits into the machine's memory, before it begins.
#pragma once

#include "train/config/config.h"

namespace hg {

// The least that training takes on each rank: weights, gradients and its share of the moments,
// activations of an image on each thread, and two batches of images. 0: it cannot be told.
double memory_needed(const Config& config);

// Throws UsageError, with the figure, if the machine has less.
void check_memory(const Config& config);

}  // namespace hg
