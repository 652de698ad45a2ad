#include "tensor/cuda/along_axis.h"
#include "tensor/cuda/columns.h"
#include "tensor/cuda/elementwise.h"
#include "tensor/ops/broadcast.h"

namespace hg::ops {
namespace {

template <bool kMul>
struct WithTrailing {
  using Indexed = void;
  const float* b;
  std::int64_t width;
  __device__ float operator()(std::int64_t i, float x) const {
    const float v = b[i % width];
    return kMul ? x * v : x + v;
  }
};

// z is null for a plain sum.
struct SumColumn {
  const float *x, *z;
  float* y;
  template <class Row>
  __device__ void operator()(const Row& row, std::int64_t index) const {
    float sum = 0;
    for (int j = row.begin(); j < row.n; j += row.step()) {
      const std::int64_t at = row.at(j);
      sum += z ? x[at] * z[at] : x[at];
    }
    sum = row.sum(sum);
    if (row.leads()) y[index] = sum;
  }
};

struct Dots {
  static constexpr int kSums = 1;
  const float *x, *z;
  float* y;
  std::int64_t width;
  __device__ void add(std::int64_t row, std::int64_t column, float* sums) const {
    const std::int64_t at = row * width + column;
    sums[0] += z ? x[at] * z[at] : x[at];
  }
  __device__ void store(std::int64_t column, const float* sums) const { y[column] = sums[0]; }
};

}  // namespace

void Broadcast::cuda(In in, Out out, CudaStream& stream) const {
  const float* const b = in[1].data<float>();
  const std::int64_t width = in[1].numel();
  if (kind == Kind::mul)
    return cuda::elementwise<1>(in, out[0], WithTrailing<true>{b, width}, stream);
  cuda::elementwise<1>(in, out[0], WithTrailing<false>{b, width}, stream);
}

void SumLeading::cuda(In in, Out out, CudaStream& stream) const {
  const std::int64_t width = out[0].numel();
  if (width == 0) return;
  const std::int64_t rows = in[0].numel() / width;
  const float* const x = in[0].data<float>();
  const float* const z = product ? in[1].data<float>() : nullptr;
  float* const y = out[0].data<float>();
  if (width == 1) return cuda::along_axis(AxisView{1, rows, 1}, SumColumn{x, z, y}, stream);
  cuda::column_sums(Dots{x, z, y, width}, rows, width, stream);
}

}  // namespace hg::ops
