#include <cmath>

#include "tensor/cuda/reduce.h"
#include "tensor/cuda_device.h"
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
void for_parts(const UpdateRanges& part, std::int64_t n, auto step) {
  if (n == 0) return;
  if (part.all()) return step(Part{n, 0, n}, n);
  for (const auto& [first, second] : part.ranges)
    step(Part{part.period, first, second - first}, n / part.period * (second - first));
}

struct AdamWStep {
  float beta1, beta2, eps, rate, root, grad_scale;
  __device__ void operator()(float& p, float& m, float& v, float sum, float decay) const {
    const float g = sum * grad_scale;
    const float moment = beta1 * m + (1 - beta1) * g;
    const float square = beta2 * v + (1 - beta2) * g * g;
    m = moment;
    v = square;
    p = p * decay - rate * moment / (sqrtf(square) * root + eps);
  }
};

AdamWStep step_of(const AdamWOptions& o) {
  const double steps = static_cast<double>(o.step);
  return {static_cast<float>(o.beta1),
          static_cast<float>(o.beta2),
          static_cast<float>(o.eps),
          static_cast<float>(o.lr / (1 - std::pow(o.beta1, steps))),
          static_cast<float>(1 / std::sqrt(1 - std::pow(o.beta2, steps))),
          static_cast<float>(o.grad_scale)};
}

float decay_of(const AdamWOptions& o) { return static_cast<float>(1 - o.lr * o.weight_decay); }

// One pass over the parameter, its state and its gradients.
__global__ void __launch_bounds__(kThreads)
    adamw(float* p, float* m, float* v, Grads grads, Part part, std::int64_t n, AdamWStep step,
          float decay) {
  const std::int64_t k = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (k >= n) return;
  const std::int64_t i = part.at(k);
  step(p[i], m[i], v[i], grads.at(i), decay);
}

// A parameter of many that one launch goes over; its blocks begin with `first_block`.
struct Parameter {
  Grads grads;
  std::int64_t n;
  unsigned first_block;
  float *p, *m, *v;  // of an update
  float decay;
};

// The parameter of this block: the last that begins here or before.
__device__ const Parameter& parameter_of_block(const Parameter* parameters, int count) {
  int mine = 0, last = count - 1;
  while (mine < last) {
    const int middle = (mine + last + 1) / 2;
    if (parameters[middle].first_block <= blockIdx.x)
      mine = middle;
    else
      last = middle - 1;
  }
  return parameters[mine];
}

// Parameters on the device; new each step, as gradients are.
class Table {
 public:
  explicit Table(int per_block) : per_block_(per_block) {}
  void add(Parameter parameter) {
    parameter.first_block = blocks_;
    blocks_ += cuda::blocks_for(parameter.n, per_block_);
    here_.push_back(parameter);
  }
  unsigned blocks() const { return blocks_; }
  int count() const { return static_cast<int>(here_.size()); }
  Tensor uploaded() const {
    const std::size_t bytes = here_.size() * sizeof(Parameter);
    const Tensor there = Tensor::empty({static_cast<std::int64_t>(bytes)}, DType::u8, Device::cuda);
    cuda::upload(there.raw(), here_.data(), bytes);
    return there;
  }

 private:
  const int per_block_;
  unsigned blocks_ = 0;
  CachedVector<Parameter> here_;
};

constexpr int kUpdates = 1024;  // elements of a parameter that a block changes

__global__ void __launch_bounds__(kThreads)
    adamw_all(const Parameter* parameters, int count, AdamWStep step) {
  const Parameter& at = parameter_of_block(parameters, count);
  const std::int64_t first = std::int64_t{blockIdx.x - at.first_block} * kUpdates;
  for (std::int64_t i = first + threadIdx.x; i < at.n && i < first + kUpdates; i += kThreads)
    step(at.p[i], at.m[i], at.v[i], at.grads.at(i), at.decay);
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
    sums_of_squares(const Parameter* parameters, int count, double* sums) {
  const Parameter& at = parameter_of_block(parameters, count);
  const std::int64_t first = std::int64_t{blockIdx.x - at.first_block} * kSquares;
  float sum = 0;
  for (std::int64_t i = first + threadIdx.x; i < at.n && i < first + kSquares; i += kThreads) {
    const float g = at.grads.at(i);
    sum += g * g;
  }
  sum = cuda::over_threads<kThreads>(sum, cuda::Plus{});
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
  for_parts(options.ranges, in[0].numel(), [&](const Part& part, std::int64_t n) {
    launch(adamw, cuda::blocks_for(n, kThreads), kThreads, 0, stream, in[0].data<float>(),
           in[1].data<float>(), in[2].data<float>(), grads_of(in.subspan(3)), part, n,
           step_of(options), decay_of(options));
  });
}

void AdamWAll::cuda(In in, Out, CudaStream& stream) const {
  Table table(kUpdates);
  for (std::size_t i = 0; i < weight_decays.size(); ++i) {
    const In t = inputs_of(in, i);
    table.add({grads_of(t.subspan(kStates)), t[0].numel(), 0, t[0].data<float>(),
               t[1].data<float>(), t[2].data<float>(), decay_of(of(i).options)});
  }
  const Tensor there = table.uploaded();
  launch(adamw_all, table.blocks(), kThreads, 0, stream, static_cast<const Parameter*>(there.raw()),
         table.count(), step_of(options));
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
  require(!squares, name(), "gives sums of squares on the CPU alone");
  const auto group = static_cast<std::size_t>(copies);
  Table table(kSquares);
  for (std::size_t i = 0; i < in.size(); i += group)
    table.add({grads_of(in.subspan(i, group)), in[i].numel(), 0, nullptr, nullptr, nullptr, 0});
  const Tensor there = table.uploaded();
  const Tensor sums = Tensor::empty({table.blocks()}, DType::f64, Device::cuda);
  launch(sums_of_squares, table.blocks(), kThreads, 0, stream,
         static_cast<const Parameter*>(there.raw()), table.count(), sums.data<double>());
  launch(root_of_sums, 1, kThreads, 0, stream, static_cast<const double*>(sums.data<double>()),
         static_cast<int>(table.blocks()), out[0].data<float>());
}

}  // namespace hg::ops
