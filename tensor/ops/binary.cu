#include "tensor/cuda/elementwise.h"
#include "tensor/ops/binary.h"

namespace hg::ops {
namespace {

using Kind = Binary::Kind;

template <Kind kKind>
struct Apply {
  __device__ float operator()(float a, float b) const {
    if (kKind == Kind::add) return a + b;
    if (kKind == Kind::sub) return a - b;
    return kKind == Kind::mul ? a * b : a / b;
  }
};

}  // namespace

void Binary::cuda(In in, Out out, CudaStream& stream) const {
  switch (kind) {
    case Kind::add:
      return cuda::elementwise<2>(in, out[0], Apply<Kind::add>{}, stream);
    case Kind::sub:
      return cuda::elementwise<2>(in, out[0], Apply<Kind::sub>{}, stream);
    case Kind::mul:
      return cuda::elementwise<2>(in, out[0], Apply<Kind::mul>{}, stream);
    case Kind::div:
      return cuda::elementwise<2>(in, out[0], Apply<Kind::div>{}, stream);
  }
}

}  // namespace hg::ops
