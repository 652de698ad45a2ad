// The products by cuBLAS, the normaliser by kernels in which a warp takes a token of a head.
#include "tensor/cuda/columns.h"
#include "tensor/cuda/gemm.h"
#include "tensor/cuda/reduce.h"
#include "tensor/ops/linear_attention.h"

namespace hg::ops {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / cuda::kWarp;

struct Sizes {
  std::int64_t images, heads, n, m, f, d;  // n queries, m keys, f features
};

Sizes sizes_of(In in, std::int64_t heads) {
  return {in[0].dim(0),        heads, in[0].dim(1), in[1].dim(1), in[0].dim(2) / heads,
          in[2].dim(2) / heads};
}

// The matrices of all images and heads, by their strides.
struct Heads {
  float* data;
  std::int64_t row, column, image, head;
  Heads transposed() const { return {data, column, row, image, head}; }
};

Heads token_heads(const Tensor& x, const Sizes& s) {  // [B, T, H W]
  const std::int64_t width = x.dim(2);
  return {x.data<float>(), width, 1, x.dim(1) * width, width / s.heads};
}
Heads states(const Tensor& x, const Sizes& s) {  // [B, H, F, D]
  return {x.data<float>(), s.d, 1, s.heads * s.f * s.d, s.f * s.d};
}

// c [m, n] = a [m, k] b [k, n], or c + a b, of every image and head: a batched product for each
// head, or for each image if there are fewer of those.
void products(const Sizes& s, std::int64_t m, std::int64_t n, std::int64_t k, const Heads& a,
              const Heads& b, const Heads& c, bool add, CudaStream& stream) {
  const bool by_head = s.heads <= s.images;
  for (std::int64_t i = 0; i < (by_head ? s.heads : s.images); ++i) {
    const auto first = [&](const Heads& x) { return x.data + i * (by_head ? x.head : x.image); };
    const auto stride = [&](const Heads& x) { return by_head ? x.image : x.head; };
    cuda::gemm(by_head ? s.images : s.heads, m, n, k, {first(a), a.row, a.column, stride(a)},
               {first(b), b.row, b.column, stride(b)},
               cuda::Product{first(c), c.row, stride(c), add}, stream);
  }
}

// Token i of head h of an image: row (b N + i) H + h of f and o, while z and the denominators have
// the head before the token.
struct Row {
  std::int64_t index, head, token;  // head: of all heads of all images
  __device__ Row(std::int64_t tokens, std::int64_t heads)
      : index(std::int64_t{blockIdx.x} * kWarps + threadIdx.x / cuda::kWarp),
        head(index / (tokens * heads) * heads + index % heads),
        token(index / heads % tokens) {}
};

__device__ int lane() { return static_cast<int>(threadIdx.x) % cuda::kWarp; }
__device__ float at_least(float x, float floor) { return x < floor ? floor : x; }

// den = f . z, o = o / max(den, floor)
__global__ void __launch_bounds__(kThreads)
    divide(const float* f, const float* z, float* o, float* den, Sizes s, float floor) {
  const Row row(s.n, s.heads);
  if (row.index >= s.images * s.n * s.heads) return;
  const float sum = cuda::warp_dot(f + row.index * s.f, z + row.head * s.f, static_cast<int>(s.f));
  if (lane() == 0) den[row.head * s.n + row.token] = sum;
  const float inverse = 1.0f / at_least(sum, floor);
  for (std::int64_t c = lane(); c < s.d; c += cuda::kWarp) o[row.index * s.d + c] *= inverse;
}

// dnum = do / den; dden = - do . o / den, but 0 where the floor held; df begins as dden z.
__global__ void __launch_bounds__(kThreads)
    divide_backward(const float* grad, const float* o, const float* z, const float* den,
                    float* dnum, float* dden, float* df, Sizes s, float floor) {
  const Row row(s.n, s.heads);
  if (row.index >= s.images * s.n * s.heads) return;
  const float* const g = grad + row.index * s.d;
  const float sum = den[row.head * s.n + row.token], inverse = 1.0f / at_least(sum, floor);
  const float along = cuda::warp_dot(g, o + row.index * s.d, static_cast<int>(s.d));
  const float slope = sum < floor ? 0 : -along * inverse;
  if (lane() == 0) dden[row.index] = slope;
  for (std::int64_t c = lane(); c < s.d; c += cuda::kWarp)
    dnum[row.index * s.d + c] = g[c] * inverse;
  for (std::int64_t c = lane(); c < s.f; c += cuda::kWarp)
    df[row.index * s.f + c] = slope * z[row.head * s.f + c];
}

// to [B, T, width] = each image's row of from [B, width]; a warp takes a token
__global__ void __launch_bounds__(kThreads)
    repeat_rows(const float* from, float* to, std::int64_t images, std::int64_t tokens,
                std::int64_t width) {
  const Row row(tokens, 1);
  if (row.index >= images * tokens) return;
  for (std::int64_t c = lane(); c < width; c += cuda::kWarp)
    to[row.index * width + c] = from[row.head * width + c];
}

// sums over tokens of x [B, T, H F], each row of a head times its weight [B, T, H], if there are
// any
struct TokenSums {
  static constexpr int kSums = 1;
  const float *x, *weights;
  float* y;
  std::int64_t heads, features;
  __device__ void add(std::int64_t token, std::int64_t column, float* sums) const {
    const float v = x[token * heads * features + column];
    sums[0] += weights ? v * weights[token * heads + column / features] : v;
  }
  __device__ void store(std::int64_t column, const float* sums) const { y[column] = sums[0]; }
};

unsigned blocks_of(std::int64_t rows) { return cuda::blocks_for(rows, kWarps); }

}  // namespace

void LinearAttention::cuda(In in, Out out, CudaStream& stream) const {
  const Sizes s = sizes_of(in, heads);
  const Heads f = token_heads(in[0], s), g = token_heads(in[1], s), v = token_heads(in[2], s);
  const Heads o = token_heads(out[0], s), state = states(out[1], s);
  products(s, s.f, s.d, s.m, g.transposed(), v, state, false, stream);
  products(s, s.n, s.d, s.f, f, state, o, false, stream);
  if (!normalised()) return;
  float* const z = out[2].data<float>();
  cuda::column_sums(TokenSums{g.data, nullptr, z, s.heads, s.f}, s.images, s.m, s.heads * s.f,
                    stream);
  launch(divide, blocks_of(s.images * s.n * s.heads), kThreads, 0, stream, f.data, z, o.data,
         out[3].data<float>(), s, static_cast<float>(floor));
}

// df = S dnum + dden z; dS = sum f dnum^T; dz = sum dden f; dg = dS v + dz; dv = dS^T g
void LinearAttentionBackward::cuda(In in, Out out, CudaStream& stream) const {
  const Sizes s = sizes_of(in.subspan(1), forward.heads);
  const bool normalised = forward.normalised();
  const auto temporary = [](const Shape& shape) {
    return Tensor::empty(shape, DType::f32, Device::cuda);
  };
  const Heads f = token_heads(in[1], s), g = token_heads(in[2], s), v = token_heads(in[3], s);
  const Heads df = token_heads(out[0], s), dg = token_heads(out[1], s), dv = token_heads(out[2], s);
  const Tensor dnums = normalised ? temporary(in[0].shape()) : in[0];
  if (normalised) {
    const Tensor ddens = temporary({s.images, s.n, s.heads}),
                 dzs = temporary({s.images, s.heads, s.f});
    float *const dden = ddens.data<float>(), *const dz = dzs.data<float>();
    launch(divide_backward, blocks_of(s.images * s.n * s.heads), kThreads, 0, stream,
           in[0].data<float>(), in[4].data<float>(), in[6].data<float>(), in[7].data<float>(),
           dnums.data<float>(), dden, df.data, s, static_cast<float>(forward.floor));
    cuda::column_sums(TokenSums{f.data, dden, dz, s.heads, s.f}, s.images, s.n, s.heads * s.f,
                      stream);
    launch(repeat_rows, blocks_of(s.images * s.m), kThreads, 0, stream, dz, dg.data, s.images, s.m,
           s.heads * s.f);
  }
  const Tensor dstates = temporary(in[5].shape());
  const Heads dnum = token_heads(dnums, s), state = states(in[5], s), dstate = states(dstates, s);
  products(s, s.n, s.f, s.d, dnum, state.transposed(), df, normalised, stream);
  products(s, s.f, s.d, s.n, f.transposed(), dnum, dstate, false, stream);
  products(s, s.m, s.f, s.d, v, dstate.transposed(), dg, normalised, stream);
  products(s, s.m, s.d, s.f, g, dstate, dv, false, stream);
}

}  // namespace hg::ops
