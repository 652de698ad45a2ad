#include "tensor/cuda/move.h"
#include "tensor/ops/patchify.h"

namespace hg::ops {
namespace {

// Where a pixel of patches [B, k, C p p] lies in images [B,C,H,W]. Patch j of an image is its j-th,
// or the one that keep names.
struct PixelOfPatch {
  std::int64_t channels, height, width, patch, picks;
  const std::int64_t* keep;  // null: every patch in order
  __device__ std::int64_t operator()(std::int64_t i) const {
    const std::int64_t x = i % patch, y = i / patch % patch, c = i / (patch * patch) % channels;
    const std::int64_t row = i / (patch * patch * channels), across = width / patch;
    const std::int64_t index = keep ? keep[row] : row % picks;
    if (index < 0 || index >= height / patch * across) return -1;
    const std::int64_t line = index / across * patch + y, column = index % across * patch + x;
    return ((row / picks * channels + c) * height + line) * width + column;
  }
};

PixelOfPatch place_of(const Shape& images, std::int64_t patch, std::int64_t picks,
                      const std::int64_t* keep) {
  return {images[1], images[2], images[3], patch, picks, keep};
}

}  // namespace

void Patchify::cuda(In in, Out out, CudaStream& stream) const {
  const auto place = place_of(in[0].shape(), patch, out[0].dim(1), nullptr);
  cuda::gather_elements(in[0], out[0], place, stream);
}

void PatchifyKept::cuda(In in, Out out, CudaStream& stream) const {
  const auto place = place_of(in[0].shape(), patch, out[0].dim(1), in[1].data<std::int64_t>());
  cuda::gather_elements(in[0], out[0], place, stream);
}

void Unpatchify::cuda(In in, Out out, CudaStream& stream) const {
  const auto place = place_of(out[0].shape(), patch, in[0].dim(1), nullptr);
  cuda::scatter_elements(in[0], out[0], place, stream);
}

}  // namespace hg::ops
