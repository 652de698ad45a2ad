#include <cmath>

#include "tensor/cuda/reduce.h"
#include "tensor/ops/optimizer.h"

namespace hg::ops {
namespace {

constexpr int kThreads = 256;
constexpr int kMostGrads = 16;

struct Grads {
  const float* p[kMostGrads];
  int count;
  __device__ float at(std::int64_t i) const {
    float sum = p[0][i];
    for (int k = 1; k < count; ++k) sum += p[k][i];
    return sum;
  }
};

Grads grads_of(In in) {
  require(in.size() <= kMostGrads, "optimizer", "{} gradients of a parameter, at most {} on CUDA",
          in.size(), kMostGrads);
  Grads grads{};
  for (const Tensor& t : in) grads.p[grads.count++] = t.data<float>();
  return grads;
}

// Elements that a step changes: of each period, `width` from `first` on.
struct Part {
  std::int64_t period, first, width;
  __device__ std::int64_t at(std::int64_t k) const {
    return k / width * period + first + k % width;
  }
};

// step(part, elements of it) for each range; all of a parameter is a single one.
template <class Step>
void for_parts(const UpdateRanges& part, std::int64_t n, Step step) {
  if (n == 0) return;
  if (part.all()) return step(Part{n, 0, n}, n);
  for (const auto& [first, second] : part.ranges)
    step(Part{part.period, first, second - first}, n / part.period * (second - first));
}

struct AdamWStep {
  float beta1, beta2, eps, decay, rate, root, grad_scale;
};

// One pass over the parameter, its state and its gradients.
__global__ void __launch_bounds__(kThreads)
    adamw(float* p, float* m, float* v, Grads grads, Part part, std::int64_t n, AdamWStep o) {
  const std::int64_t k = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (k >= n) return;
  const std::int64_t i = part.at(k);
  const float g = grads.at(i) * o.grad_scale;
  const float moment = o.beta1 * m[i] + (1 - o.beta1) * g;
  const float square = o.beta2 * v[i] + (1 - o.beta2) * g * g;
  m[i] = moment;
  v[i] = square;
  p[i] = p[i] * o.decay - o.rate * moment / (sqrtf(square) * o.root + o.eps);
}

struct SgdStep {
  float lr, momentum, weight_decay, grad_scale;
  bool nesterov;
};

// `buffer` is null without momentum.
__global__ void __launch_bounds__(kThreads)
    sgd(float* p, float* buffer, Grads grads, Part part, std::int64_t n, SgdStep o) {
  const std::int64_t k = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (k >= n) return;
  const std::int64_t i = part.at(k);
  const float g = grads.at(i) * o.grad_scale + o.weight_decay * p[i];
  float d = g;
  if (buffer) {
    d = o.momentum * buffer[i] + g;
    buffer[i] = d;
    if (o.nesterov) d = g + o.momentum * d;
  }
  p[i] -= o.lr * d;
}

constexpr int kSquares = 4096;  // elements whose squares a block adds

__global__ void __launch_bounds__(kThreads)
    sums_of_squares(Grads grads, std::int64_t n, double* sums) {
  const std::int64_t first = std::int64_t{blockIdx.x} * kSquares;
  float sum = 0;
  for (std::int64_t i = first + threadIdx.x; i < n && i < first + kSquares; i += kThreads) {
    const float g = grads.at(i);
    sum += g * g;
  }
  sum = cuda::block_sum<kThreads>(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// One block; every sum has its place in the order, so the bits are the same every time.
__global__ void __launch_bounds__(kThreads) root_of_sums(const double* sums, int n, float* norm) {
  HG_SHARED(double, partial, [kThreads]);
  double sum = 0;
  for (int i = threadIdx.x; i < n; i += kThreads) sum += sums[i];
  partial[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int t = 1; t < kThreads; ++t) sum += partial[t];
  *norm = static_cast<float>(sqrt(sum));
}

}  // namespace

void AdamW::cuda(In in, Out, CudaStream& stream) const {
  const auto& o = options;
  const double steps = static_cast<double>(o.step);
  const AdamWStep step{static_cast<float>(o.beta1),
                       static_cast<float>(o.beta2),
                       static_cast<float>(o.eps),
                       static_cast<float>(1 - o.lr * o.weight_decay),
                       static_cast<float>(o.lr / (1 - std::pow(o.beta1, steps))),
                       static_cast<float>(1 / std::sqrt(1 - std::pow(o.beta2, steps))),
                       static_cast<float>(o.grad_scale)};
  for_parts(o.ranges, in[0].numel(), [&](const Part& part, std::int64_t n) {
    launch(adamw, cuda::blocks_for(n, kThreads), kThreads, 0, stream, in[0].data<float>(),
           in[1].data<float>(), in[2].data<float>(), grads_of(in.subspan(3)), part, n, step);
  });
}

void Sgd::cuda(In in, Out, CudaStream& stream) const {
  const auto& o = options;
  const SgdStep step{static_cast<float>(o.lr), static_cast<float>(o.momentum),
                     static_cast<float>(o.weight_decay), static_cast<float>(o.grad_scale),
                     o.nesterov};
  float* const buffer = states() == 2 ? in[1].data<float>() : nullptr;
  const Grads grads = grads_of(in.subspan(static_cast<std::size_t>(states())));
  for_parts(o.ranges, in[0].numel(), [&](const Part& part, std::int64_t n) {
    launch(sgd, cuda::blocks_for(n, kThreads), kThreads, 0, stream, in[0].data<float>(), buffer,
           grads, part, n, step);
  });
}

void GradNorm::cuda(In in, Out out, CudaStream& stream) const {
  const auto group = static_cast<std::size_t>(copies);
  std::int64_t blocks = 0;
  for (std::size_t i = 0; i < in.size(); i += group)
    blocks += cuda::blocks_for(in[i].numel(), kSquares);
  const Tensor sums = Tensor::empty({blocks}, DType::f64, Device::cuda);
  double* to = sums.data<double>();
  for (std::size_t i = 0; i < in.size(); i += group) {
    const unsigned own = cuda::blocks_for(in[i].numel(), kSquares);
    launch(sums_of_squares, own, kThreads, 0, stream, grads_of(in.subspan(i, group)), in[i].numel(),
           to);
    to += own;
  }
  launch(root_of_sums, 1, kThreads, 0, stream, static_cast<const double*>(sums.data<double>()),
         static_cast<int>(blocks), out[0].data<float>());
}

}  // namespace hg::ops
