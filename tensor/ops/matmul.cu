#include "tensor/cuda/gemm.h"
#include "tensor/ops/matmul.h"

namespace hg::ops {
namespace {

cuda::Matrix matrix_of(const Tensor& t, bool batched) {
  const int r = t.rank();
  return {t.data<float>(), t.strides()[r - 2], t.strides()[r - 1],
          batched ? t.dim(-2) * t.dim(-1) : 0};
}

}  // namespace

// One b for a whole batch of contiguous rows is a single product of more rows.
void Matmul::cuda(In in, Out out, CudaStream& stream) const {
  const Tensor &a = in[0], &b = in[1];
  const bool shared = b.rank() == 2, one = shared && a.contiguous();
  const std::int64_t matrices = a.shape().product(0, a.rank() - 2);
  cuda::Matrix left = matrix_of(a, !one);
  if (one) left.row_stride = a.dim(-1), left.column_stride = 1;
  cuda::gemm(one ? 1 : matrices, one ? matrices * a.dim(-2) : a.dim(-2), b.dim(-1), a.dim(-1), left,
             matrix_of(b, !shared), out[0].data<float>(), stream);
}

void MatmulAdd::cuda(In in, Out out, CudaStream& stream) const {
  const std::int64_t columns = out[0].dim(1);
  cuda::gemm(1, in[0].dim(0), columns, in[0].dim(1), matrix_of(in[0], false),
             matrix_of(in[1], false), {out[0].data<float>(), columns, 0, true}, stream);
}

}  // namespace hg::ops
