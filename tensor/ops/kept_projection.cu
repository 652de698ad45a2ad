// Products of the kept rows by cuBLAS, head by head, for all images that share a support at once;
// rows that are not all kept are gathered before, or scattered after.
#include "tensor/ops/kept_projection.h"

#include "tensor/cuda/columns.h"
#include "tensor/cuda/elementwise.h"
#include "tensor/cuda/gemm.h"
#include "tensor/ops/attention/pair_support.cuh"

namespace hg::ops {
namespace {

constexpr int kThreads = 256;

struct Sizes {
  std::int64_t batch, heads, n, e, d;
  Sizes(const Supports& supports, const Tensor& x, const Tensor& weight)
      : batch(x.dim(0)),
        heads(supports[0]->heads()),
        n(x.dim(1)),
        e(x.dim(2)),
        d(weight.dim(0) / (3 * heads)) {}
  std::int64_t width() const { return heads * d; }
  // Row of the weight where head h of q (0), k (1) or v (2) begins.
  std::int64_t weight_row(int which, std::int64_t h) const { return which * width() + h * d; }
};

// Images that share a support, and one head of them.
struct HeadOf {
  const PairSupport* support;
  const unsigned char* packed;  // the support on the device
  std::int64_t images, image;   // how many, the first
  std::int64_t first_row;       // in k and v
  std::int64_t h;
  bool all() const { return support->keeps_all(h); }
  std::int64_t kept() const { return support->kept(h); }
  std::int64_t rows() const { return images * kept(); }
};

// f(HeadOf) for all heads of all images, in order.
void for_heads(const Supports& supports, const Sizes& s, auto f) {
  const bool shared = supports.size() == 1;
  std::int64_t image = 0, first = 0;
  for (const auto& support : supports) {
    const unsigned char* const packed = support->on_device().data<std::uint8_t>();
    for (std::int64_t h = 0; h < s.heads; ++h)
      f(HeadOf{support.get(), packed, shared ? s.batch : 1, image, first + support->first_key(h),
               h});
    ++image, first += support->kept();
  }
}

// Where row r of a head's kept ones, of all images, lies in tensors of whole images.
struct KeptPlace {
  const unsigned char* packed;
  std::int64_t h, kept, tokens;  // tokens: rows of an image
  __device__ std::int64_t operator()(std::int64_t r) const {
    const auto& head = reinterpret_cast<const PairSupport::PackedHead*>(packed)[h];
    const auto* const list = reinterpret_cast<const std::uint16_t*>(packed + head.kept_tokens);
    return r / kept * tokens + list[r % kept];
  }
};

__global__ void __launch_bounds__(kThreads)
    gather_kept(const float* x, float* to, std::int64_t elements, std::int64_t width,
                KeptPlace place) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < elements) to[i] = x[place(i / width) * width + i % width];
}
__global__ void __launch_bounds__(kThreads)
    add_kept(const float* from, float* y, std::int64_t elements, std::int64_t width,
             KeptPlace place) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < elements) y[place(i / width) * width + i % width] += from[i];
}
// Rows of one head, `stride` rows from image to image, one after the other.
__global__ void __launch_bounds__(kThreads)
    pack_rows(const float* from, float* to, std::int64_t elements, std::int64_t kept,
              std::int64_t stride, std::int64_t width) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= elements) return;
  const std::int64_t row = i / width;
  to[i] = from[(row / kept * stride + row % kept) * width + i % width];
}

// The kept rows of x: in place where all are, else in `buffer`.
const float* kept_rows(const HeadOf& head, const Sizes& s, const float* x, float* buffer,
                       CudaStream& stream) {
  const float* const from = x + head.image * s.n * s.e;
  const std::int64_t elements = head.rows() * s.e;
  if (head.all() || elements == 0) return from;
  launch(gather_kept, cuda::blocks_for(elements, kThreads), kThreads, 0, stream, from, buffer,
         elements, s.e, KeptPlace{head.packed, head.h, head.kept(), s.n});
  return buffer;
}
// One head's rows of k or v, of all its images.
const float* packed_rows(const HeadOf& head, const Sizes& s, const float* k, float* buffer,
                         CudaStream& stream) {
  const float* const from = k + head.first_row * s.d;
  const std::int64_t elements = head.rows() * s.d;
  if (head.images == 1 || head.support->kept() == head.kept() || elements == 0) return from;
  launch(pack_rows, cuda::blocks_for(elements, kThreads), kThreads, 0, stream, from, buffer,
         elements, head.kept(), head.support->kept(), s.d);
  return buffer;
}

Tensor buffer_of(std::int64_t rows, std::int64_t width) {
  return Tensor::empty({rows, width}, DType::f32, Device::cuda);
}

struct AddBias {
  using Indexed = void;
  const float* bias;
  std::int64_t width;
  __device__ float operator()(std::int64_t i, float x) const { return x + bias[i % width]; }
};

// k and v of one (image, head) a row of blocks
__global__ void __launch_bounds__(kThreads)
    add_key_bias(cuda::SupportsView supports, const float* bias, float* k, float* v, int heads,
                 int d, int blocks) {
  const int index = static_cast<int>(blockIdx.x) / blocks, h = index % heads;
  const int i = static_cast<int>(blockIdx.x) % blocks * kThreads + static_cast<int>(threadIdx.x);
  const cuda::HeadPairs head = supports.at(index / heads, h);
  if (i >= head.kept * d) return;
  const int width = heads * d, at = h * d + i % d;
  k[head.first_key * d + i] += bias[width + at];
  v[head.first_key * d + i] += bias[2 * width + at];
}

// db: sums over all tokens of dq, over the kept ones of dk and dv
struct BiasGrads {
  static constexpr int kSums = 3;
  cuda::SupportsView supports;
  const float *dq, *dk, *dv;
  float* db;
  int n, heads, d;
  __device__ void add(std::int64_t row, std::int64_t column, float* sums) const {
    const int image = static_cast<int>(row / n), token = static_cast<int>(row % n);
    const int h = static_cast<int>(column / d), c = static_cast<int>(column % d);
    const cuda::HeadPairs head = supports.at(image, h);
    sums[0] += dq[row * heads * d + column];
    if (token >= head.kept) return;
    sums[1] += dk[(head.first_key + token) * d + c];
    sums[2] += dv[(head.first_key + token) * d + c];
  }
  __device__ void store(std::int64_t column, const float* sums) const {
    for (int which = 0; which < kSums; ++which)
      db[std::int64_t{which} * heads * d + column] = sums[which];
  }
};

struct Arrived {
  const float *q, *k, *v;
  const float* of(int which) const { return which == 1 ? k : v; }
};

void input_gradient(const Supports& supports, const Sizes& s, const Arrived& grad,
                    const float* weight, float* dx, CudaStream& stream) {
  cuda::gemm(1, s.batch * s.n, s.e, s.width(), {grad.q, s.width(), 1, 0}, {weight, s.e, 1, 0}, dx,
             stream);
  const Tensor buffer = buffer_of(s.batch * s.n, s.e);
  for_heads(supports, s, [&](const HeadOf& head) {
    float* const own = dx + head.image * s.n * s.e;
    float* const sums = head.all() ? own : buffer.data<float>();
    for (const int which : {1, 2}) {
      const cuda::Matrix from{grad.of(which) + head.first_row * s.d, s.d, 1,
                              head.support->kept() * s.d};
      cuda::gemm(head.images, head.kept(), s.e, s.d, from,
                 {weight + s.weight_row(which, head.h) * s.e, s.e, 1, 0},
                 cuda::Product{sums, s.e, head.kept() * s.e, head.all() || which == 2}, stream);
    }
    const std::int64_t elements = head.rows() * s.e;
    if (head.all() || elements == 0) return;
    launch(add_kept, cuda::blocks_for(elements, kThreads), kThreads, 0, stream, sums, own, elements,
           s.e, KeptPlace{head.packed, head.h, head.kept(), s.n});
  });
}

void weight_gradient(const Supports& supports, const Sizes& s, const Arrived& grad, const float* x,
                     float* dw, CudaStream& stream) {
  cuda::gemm(1, s.width(), s.e, s.batch * s.n, {grad.q, 1, s.width(), 0}, {x, s.e, 1, 0}, dw,
             stream);
  const Tensor rows = buffer_of(s.batch * s.n, s.e), packed = buffer_of(s.batch * s.n, s.d);
  for_heads(supports, s, [&](const HeadOf& head) {
    const float* const from = kept_rows(head, s, x, rows.data<float>(), stream);
    for (const int which : {1, 2}) {
      const float* const g = packed_rows(head, s, grad.of(which), packed.data<float>(), stream);
      cuda::gemm(1, s.d, s.e, head.rows(), {g, 1, s.d, 0}, {from, s.e, 1, 0},
                 cuda::Product{dw + s.weight_row(which, head.h) * s.e, s.e, 0, head.image > 0},
                 stream);
    }
  });
}

}  // namespace

void KeptProjection::cuda(In in, Out out, CudaStream& stream) const {
  const Sizes s(supports, in[0], in[1]);
  const float *const x = in[0].data<float>(), *const weight = in[1].data<float>();
  cuda::gemm(1, s.batch * s.n, s.width(), s.e, {x, s.e, 1, 0}, {weight, 1, s.e, 0},
             out[0].data<float>(), stream);
  const Tensor buffer = buffer_of(s.batch * s.n, s.e);
  for_heads(supports, s, [&](const HeadOf& head) {
    const float* const rows = kept_rows(head, s, x, buffer.data<float>(), stream);
    for (const int which : {1, 2})
      cuda::gemm(head.images, head.kept(), s.d, s.e, {rows, s.e, 1, head.kept() * s.e},
                 {weight + s.weight_row(which, head.h) * s.e, 1, s.e, 0},
                 cuda::Product{out[which].data<float>() + head.first_row * s.d, s.d,
                               head.support->kept() * s.d, false},
                 stream);
  });
  if (in.size() < 3) return;
  const float* const bias = in[2].data<float>();
  cuda::elementwise<1>(out, out[0], AddBias{bias, s.width()}, stream);
  const cuda::DeviceSupports device(supports);
  const unsigned blocks = cuda::blocks_for(s.n * s.d, kThreads);
  launch(add_key_bias, cuda::blocks_for(s.batch * s.heads * blocks, 1), kThreads, 0, stream,
         device.view(), bias, out[1].data<float>(), out[2].data<float>(), static_cast<int>(s.heads),
         static_cast<int>(s.d), static_cast<int>(blocks));
}

void KeptProjectionBackward::cuda(In in, Out out, CudaStream& stream) const {
  const Sizes s(supports, in[3], in[4]);
  const Arrived grad{in[0].data<float>(), in[1].data<float>(), in[2].data<float>()};
  std::size_t next = 0;
  if (wants.x)
    input_gradient(supports, s, grad, in[4].data<float>(), out[next++].data<float>(), stream);
  if (wants.weight)
    weight_gradient(supports, s, grad, in[3].data<float>(), out[next++].data<float>(), stream);
  if (!wants.bias) return;
  const cuda::DeviceSupports device(supports);
  const BiasGrads terms{device.view(),
                        grad.q,
                        grad.k,
                        grad.v,
                        out[next].data<float>(),
                        static_cast<int>(s.n),
                        static_cast<int>(s.heads),
                        static_cast<int>(s.d)};
  cuda::column_sums(terms, s.batch * s.n, s.width(), stream);
}

}  // namespace hg::ops
