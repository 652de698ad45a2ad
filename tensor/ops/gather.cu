#include <algorithm>

#include "tensor/cuda/move.h"
#include "tensor/ops/gather.h"

namespace hg::ops {
namespace {

// Tables of `rows` rows, of each `picks` named by ids (see gather.cpp). Called, it tells where an
// element of the picked rows lies in the tables.
struct PickedRows {
  std::int64_t rows, picks, width;
  const std::int64_t* ids;
  __device__ std::int64_t operator()(std::int64_t i) const {
    const std::int64_t pick = i / width, id = ids[pick];
    return id >= 0 && id < rows ? (pick / picks * rows + id) * width + i % width : -1;
  }
};

// Each thread owns an element of the output and adds what names its row, in order of position: the
// same bits every time, without atomics.
__global__ void __launch_bounds__(cuda::kMoveThreads)
    scatter_add_kernel(const float* x, float* y, std::int64_t n, PickedRows at) {
  const std::int64_t i = std::int64_t{blockIdx.x} * cuda::kMoveThreads + threadIdx.x;
  if (i >= n) return;
  const std::int64_t row = i / at.width, image = row / at.rows, id = row % at.rows;
  float sum = 0;
  for (std::int64_t p = image * at.picks; p < (image + 1) * at.picks; ++p)
    if (at.ids[p] == id) sum += x[p * at.width + i % at.width];
  y[i] = sum;
}

PickedRows picked(const Tensor& tables, const Tensor& ids) {
  const std::int64_t images = tables.rank() == 3 ? tables.dim(0) : 1;
  return {tables.dim(-2), ids.numel() / std::max<std::int64_t>(images, 1), tables.dim(-1),
          ids.data<std::int64_t>()};
}

}  // namespace

void GatherRows::cuda(In in, Out out, CudaStream& stream) const {
  cuda::gather_elements(in[0], out[0], picked(in[0], in[1]), stream);
}

void ScatterAddRows::cuda(In in, Out out, CudaStream& stream) const {
  const std::int64_t n = out[0].numel();
  launch(scatter_add_kernel, cuda::blocks_for(n, cuda::kMoveThreads), cuda::kMoveThreads, 0, stream,
         in[0].data<float>(), out[0].data<float>(), n, picked(out[0], in[1]));
}

}  // namespace hg::ops
