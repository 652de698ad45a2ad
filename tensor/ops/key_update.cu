// The weights are those of quadratic attention, whose kernels do the sums: forward k' is a sum of
// queries in the place of a gradient of values; backward dn takes the place of values, q that of
// the output's gradient.
#include "tensor/ops/key_update.h"

#include "tensor/cuda_device.h"
#include "tensor/ops/attention/quadratic_backward.cuh"
#include "tensor/ops/attention/quadratic_forward.cuh"

namespace hg::ops {
namespace {

using cuda::HeadRows, cuda::kTileThreads, cuda::kTileWarps, cuda::kWarp;

// The update of key j of a head: p_j = theta + a mass_j.
struct Update {
  const float* mass;  // [B,H,N]
  float theta, a;
  int heads, n, d;
  __device__ float precision(int index, int j) const {
    return theta + a * mass[static_cast<std::int64_t>(index) * n + j];
  }
};

// An element of [B, N, H D].
struct Element {
  int index, j, c;  // index: of (image, head)
  __device__ Element(std::int64_t at, const Update& u) {
    c = static_cast<int>(at % u.d);
    j = static_cast<int>(at / (u.d * u.heads) % u.n);
    index = static_cast<int>(at / (std::int64_t{u.d} * u.heads * u.n)) * u.heads +
            static_cast<int>(at / u.d % u.heads);
  }
  __device__ float& of(const HeadRows& x, int heads) const {
    return x.of(index, heads)[j * x.row + c];
  }
};

// k' = (theta k0 + a k') / p, where k' holds sum_i w_ij q_i; without precision the present key.
__global__ void __launch_bounds__(kTileThreads)
    combine(Update u, HeadRows mean, HeadRows present, HeadRows out, std::int64_t elements) {
  const std::int64_t at = std::int64_t{blockIdx.x} * kTileThreads + threadIdx.x;
  if (at >= elements) return;
  const Element e(at, u);
  const float p = u.precision(e.index, e.j);
  float& key = e.of(out, u.heads);
  key = p == 0 ? e.of(present, u.heads) : (u.theta * e.of(mean, u.heads) + u.a * key) / p;
}

// dn = a dk' / p and dc = - a dk'.k' / p; a warp per key.
__global__ void __launch_bounds__(kTileThreads)
    quotients(Update u, HeadRows grad, HeadRows out, HeadRows dn, float* dc, std::int64_t keys) {
  const std::int64_t key = std::int64_t{blockIdx.x} * kTileWarps + threadIdx.x / kWarp;
  if (key >= keys) return;
  const int index = static_cast<int>(key / u.n), j = static_cast<int>(key % u.n);
  const int lane = threadIdx.x % kWarp;
  const float p = u.precision(index, j), factor = p == 0 ? 0 : u.a / p;
  const float* const g = grad.of(index, u.heads) + j * grad.row;
  const float* const k = out.of(index, u.heads) + j * out.row;
  float sum = 0;
  for (int c = lane; c < u.d; c += kWarp) {
    dn.of(index, u.heads)[j * dn.row + c] = factor * g[c];
    sum += g[c] * k[c];
  }
  sum = cuda::over_warp(sum, cuda::Plus{});
  if (lane == 0) dc[key] = -factor * sum;
}

// dk0 = theta dk' / p. The present keys have what came through the weights in `present`, and dk'
// where they were kept; where they are k0 both add up.
__global__ void __launch_bounds__(kTileThreads)
    key_gradients(Update u, HeadRows grad, HeadRows dk0, HeadRows present, bool through,
                  bool own_keys, std::int64_t elements) {
  const std::int64_t at = std::int64_t{blockIdx.x} * kTileThreads + threadIdx.x;
  if (at >= elements) return;
  const Element e(at, u);
  const float p = u.precision(e.index, e.j), given = e.of(grad, u.heads);
  const float of_mean = p == 0 ? 0 : u.theta / p * given;
  const float of_present = (through ? e.of(present, u.heads) : 0) + (p == 0 ? given : 0);
  e.of(dk0, u.heads) = own_keys ? of_mean + of_present : of_mean;
  if (!own_keys) e.of(present, u.heads) = of_present;
}

// dv += theta dv' / p, on what the values have as those that others are drawn to.
__global__ void __launch_bounds__(kTileThreads)
    value_gradients(Update u, HeadRows grad, HeadRows dv, std::int64_t elements) {
  const std::int64_t at = std::int64_t{blockIdx.x} * kTileThreads + threadIdx.x;
  if (at >= elements) return;
  const Element e(at, u);
  const float p = u.precision(e.index, e.j);
  e.of(dv, u.heads) += (p == 0 ? 1 : u.theta / p) * e.of(grad, u.heads);
}

Update update_of(const KeyUpdateOptions& o, const cuda::QuadraticCall& c, const Tensor& mass) {
  return {mass.data<float>(),
          static_cast<float>(o.theta),
          o.values ? static_cast<float>(o.beta) : c.scale[0],
          c.heads,
          c.n,
          c.d};
}

// What both backward passes begin with: dn in the place of values, dc, and where gradients go.
struct UpdateGradients {
  UpdateGradients(const KeyUpdateOptions& options, In in, Out out, CudaStream& stream)
      : own(in.size() == 5),
        through(!options.stop_gradient),
        device(options.scores(!own), in.subspan(4), stream),
        update(update_of(options, device.call(), in[3])),
        grad(token_heads<float>(in[0], options.heads)),
        dn(Tensor::empty(in[0].shape(), DType::f32, Device::cuda)),
        dc(Tensor::empty(in[2].shape(), DType::f32, Device::cuda)),
        shared(Tensor::empty(in[2].shape(), DType::f32, Device::cuda)) {
    const cuda::QuadraticCall& c = device.call();
    sums.grad = options.values ? c.v : c.q;
    device.set_values(token_heads<float>(dn, options.heads));
    launch(quotients, cuda::blocks_for(dc.numel(), kTileWarps), kTileThreads, 0, stream, update,
           grad, token_heads<float>(in[1], options.heads), c.v, dc.data<float>(), dc.numel());
    for (const Tensor& t : out) cuda::backend().fill_zero(t.raw(), t.bytes());
    sums.dq = part(options, out, 0);
    sums.dk[0] = own ? part(options, out, 1) : token_heads<float>(out[1], options.heads);
    sums.statistic = in[2].data<float>(), sums.shared = shared.data<float>();
    sums.grad_bias = dc.data<float>();
    if (through) cuda::launch_row_means(device, sums, shared.data<float>(), stream);
  }
  static HeadRows part(const KeyUpdateOptions& options, Out out, int which) {
    return token_heads<float>(out[0], options.heads, which, 3);
  }

  const bool own, through;
  cuda::QuadraticDevice device;
  const Update update;
  const HeadRows grad;
  const Tensor dn, dc, shared;
  cuda::QuadraticGrads sums{};
};

// The sums draw on queries, which have gradients of the scores too.
void of_keys(const UpdateGradients& g, const HeadRows& dk0, std::int64_t elements,
             CudaStream& stream) {
  if (g.through) {
    cuda::launch_side<false, cuda::kSlopes | cuda::kValues>(g.device, g.sums, stream);
    cuda::launch_side<true, cuda::kSlopes>(g.device, g.sums, stream);
  } else {
    cuda::launch_side<false, cuda::kValues>(g.device, g.sums, stream);
  }
  launch(key_gradients, cuda::blocks_for(elements, kTileThreads), kTileThreads, 0, stream, g.update,
         g.grad, dk0, g.sums.dk[0], g.through, g.own, elements);
}

void of_values(const UpdateGradients& g, const HeadRows& dv, std::int64_t elements,
               CudaStream& stream) {
  if (g.through) {
    cuda::launch_side<false, cuda::kSlopes>(g.device, g.sums, stream);
    cuda::launch_side<true, cuda::kSlopes>(g.device, g.sums, stream);
  }
  cuda::QuadraticGrads values = g.sums;
  values.dq = dv;  // sum_j w_ij dn_j
  cuda::launch_side<false, cuda::kValues>(g.device, values, stream);
  launch(value_gradients, cuda::blocks_for(elements, kTileThreads), kTileThreads, 0, stream,
         g.update, g.grad, dv, elements);
}

}  // namespace

// Sums of queries draw keys, sums of values draw values.
void KeyUpdate::cuda(In in, Out out, CudaStream& stream) const {
  const bool values = options.values;
  const cuda::QuadraticDevice device(options.scores(in.size() > 1), in, stream);
  const cuda::QuadraticCall& c = device.call();
  const HeadRows to = token_heads<float>(out[0], options.heads);
  cuda::launch_row_sums(device, out[1].data<float>(), nullptr, stream);
  cuda::QuadraticGrads sums{};
  sums.grad = values ? c.v : c.q, sums.dv = to;
  sums.statistic = out[1].data<float>(), sums.mass = out[2].data<float>();
  cuda::launch_side<true, cuda::kValues>(device, sums, stream);
  launch(combine, cuda::blocks_for(out[0].numel(), kTileThreads), kTileThreads, 0, stream,
         update_of(options, c, out[2]),
         values ? c.v : token_heads<float>(in[0], options.heads, 1, 3), values ? c.v : c.k[0], to,
         out[0].numel());
}

void KeyUpdateBackward::cuda(In in, Out out, CudaStream& stream) const {
  const UpdateGradients g(options, in, out, stream);
  if (options.values)
    of_values(g, UpdateGradients::part(options, out, 2), in[0].numel(), stream);
  else
    of_keys(g, UpdateGradients::part(options, out, 1), in[0].numel(), stream);
}

}  // namespace hg::ops
