// Positions of one grid of patches for another, and the projection of one size of patches for
// another.
#pragma once

#include "tensor/tensor.h"

namespace hg {

// Side of the square grid whose positions [1,1+side*side,E] these are; 0: of none.
std::int64_t grid_side(const Tensor& positions);

// The same positions on a grid of another side: bicubic with antialiasing, as timm resamples them.
// The class token's row stays as it is.
Tensor resampled_positions(const Tensor& positions, std::int64_t side);

// A projection [E,C,p,p] for patches of another side, which gives of an enlarged or reduced patch
// what this one gives of the patch: the weights under a new pixel are added.
Tensor resampled_patches(const Tensor& weight, std::int64_t side);

}  // namespace hg
