#include "tensor/cuda/move.h"
#include "tensor/ops/permute.h"

namespace hg::ops {
namespace {

// Where an element of the output, by its row-major index, lies in the input.
struct Strided {
  int rank;
  std::int64_t shape[Shape::kMaxRank], strides[Shape::kMaxRank];  // of the output's axes
  __device__ std::int64_t operator()(std::int64_t i) const {
    std::int64_t at = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      at += i % shape[axis] * strides[axis];
      i /= shape[axis];
    }
    return at;
  }
};

}  // namespace

void Permute::cuda(In in, Out out, CudaStream& stream) const {
  Strided place{};
  for (int i = 0; i < order.rank(); ++i) {
    if (out[0].shape()[i] == 1) continue;
    place.shape[place.rank] = out[0].shape()[i];
    place.strides[place.rank++] = in[0].strides()[static_cast<int>(order[i])];
  }
  cuda::gather_elements(in[0], out[0], place, stream);
}

}  // namespace hg::ops
