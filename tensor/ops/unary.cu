#include "tensor/cuda/elementwise.h"
#include "tensor/cuda/math.h"
#include "tensor/ops/unary.h"

namespace hg::ops {
namespace {

// The functions that rows are written in, on floats.
namespace rows {
__device__ float vmul(float x, float y) { return x * y; }
__device__ float vsub(float x, float y) { return x - y; }
__device__ float vdiv(float x, float y) { return x / y; }
__device__ float vexp(float x) { return expf(x); }
__device__ float vlog(float x) { return logf(x); }
__device__ float vsqrt(float x) { return sqrtf(x); }
__device__ float vtanh(float x) { return tanhf(x); }
__device__ float vsigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ float vabs(float x) { return fabsf(x); }
// NaN stays NaN, as on the CPU.
__device__ float vmax(float x, float c) { return x < c ? c : x; }
__device__ float vmin(float x, float c) { return x > c ? c : x; }
__device__ float vselect_positive(float x, float value) { return x > 0 ? value : 0; }
__device__ float vselect_between(float x, float low, float high, float value) {
  return low <= x && x <= high ? value : 0;
}
__device__ float vsign(float x) { return static_cast<float>((x > 0) - (x < 0)); }
__device__ float velu1(float x) { return x > 0 ? x + 1 : expf(x); }
__device__ float vgelu(float x) { return cuda::gelu(x); }
__device__ float vgelu_grad(float x) { return cuda::gelu_grad(x); }

struct Parameters {
  float a, b;
};
// A row's gradient keeps x, y or nothing: `kept` stands for whichever, and g for nothing.
#define HG_UNARY(kind, f, flops, df, backward_flops, keeps)              \
  struct kind##_row : Parameters {                                       \
    __device__ float operator()(float x) const { return f; }             \
  };                                                                     \
  struct kind##_backward_row : Parameters {                              \
    __device__ float operator()(float g) const { return (*this)(g, g); } \
    __device__ float operator()(float g, float kept) const {             \
      [[maybe_unused]] const float x = kept, y = kept;                   \
      return df;                                                         \
    }                                                                    \
  };
#include "tensor/ops/unary_rows.inc"
#undef HG_UNARY
}  // namespace rows

constexpr bool keeps_something(const char* keeps) { return keeps[0] != 'n'; }

}  // namespace

void Unary::cuda(In in, Out out, CudaStream& stream) const {
  const rows::Parameters parameters{static_cast<float>(a), static_cast<float>(b)};
  switch (kind) {
#define HG_UNARY(kind, ...) \
  case UnaryKind::kind:     \
    return cuda::elementwise<1>(in, out[0], rows::kind##_row{parameters}, stream);
#include "tensor/ops/unary_rows.inc"
#undef HG_UNARY
  }
}

void UnaryBackward::cuda(In in, Out out, CudaStream& stream) const {
  const rows::Parameters parameters{static_cast<float>(a), static_cast<float>(b)};
  switch (kind) {
#define HG_UNARY(kind, f, flops, df, backward_flops, keeps) \
  case UnaryKind::kind:                                     \
    return cuda::elementwise < keeps_something(#keeps)      \
               ? 2                                          \
               : 1 > (in, out[0], rows::kind##_backward_row{parameters}, stream);
#include "tensor/ops/unary_rows.inc"
#undef HG_UNARY
  }
}

}  // namespace hg::ops
