#include <cmath>

#include "tensor/ops/contrastive.h"
#include "tensor/ops/label_pairs.cuh"

namespace hg::ops {
namespace {

using cuda::Anchor;
using Form = ContrastiveOptions::Form;

struct Settings {
  bool all, debias;
  float scale, sharp, flat;        // of t = s / tau: 1 / tau, (beta + 1) / tau, beta / tau
  float beta, tau_plus, log_kept;  // log_kept: log(1 - tau_plus)
};

Settings settings_of(const ContrastiveOptions& o) {
  const auto f = [](double x) { return static_cast<float>(x); };
  return {o.form == Form::all,
          o.tau_plus > 0,
          f(1 / o.temperature),
          f((o.beta + 1) / o.temperature),
          f(o.beta / o.temperature),
          f(o.beta),
          f(o.tau_plus),
          f(std::log1p(-o.tau_plus))};
}

// Positives of an anchor; 0 of a row that is none.
__device__ float count_positives(const auto& row, const Anchor& anchor) {
  const float count = cuda::row_sum(row, [&](int j) { return anchor.is_positive(j); });
  return count + 1 < static_cast<float>(row.n) ? count : 0;
}

struct HasPositives {
  const float* positives;
  __device__ bool operator()(int j) const { return positives[j] > 0; }
};

// Of the columns that `takes` names: the largest of s, and log sum exp(scale s)
__device__ float largest_of(const auto& row, const float* s, auto takes) {
  float largest = cuda::Greater::kNone;
  for (int j = row.begin(); j < row.n; j += row.step())
    if (takes(j)) largest = cuda::Greater{}(largest, s[row.at(j)]);
  return row.max(largest);
}
__device__ float logsumexp(const auto& row, const float* s, auto takes, float scale,
                           float largest) {
  const float shift = scale * largest;
  return shift + logf(cuda::row_sum(row, [&](int j) {
           return takes(j) ? expf(scale * s[row.at(j)] - shift) : 0.0f;
         }));
}

// What stands against each positive of an anchor in the form `hard`.
struct Opponent {
  bool debias;
  float log_g, log_rest, floor, false_negatives;
  __device__ Opponent(const Settings& o, float negatives, const float* lse)
      : debias(o.debias),
        log_g(lse[0] - lse[1] + logf(negatives)),
        log_rest(log_g - o.log_kept),
        floor(logf(negatives) - o.scale),
        false_negatives(o.tau_plus * negatives) {}

  // The share of G that is not thought to be of false negatives.
  __device__ float left(float t) const { return 1 - false_negatives * expf(t - log_g); }
  // ln G_p
  __device__ float log_g_at(float t) const {
    return debias ? fmaxf(logf(fmaxf(left(t), 0.0f)) + log_rest, floor) : log_g;
  }
  // With w = G_p / (e^t + G_p): -w where the floor holds, and G is without influence; else
  // w G / (G - tau_plus M e^t), by which t falls and ln G rises.
  __device__ float force(float t) const {
    const float log_g_p = log_g_at(t), w = 1 / (1 + expf(t - log_g_p));
    if (!debias) return w;
    return log_g_p <= floor ? -w : w / left(t);
  }
};

__device__ float softplus(float x) { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }

// An anchor's loss, and its logsumexps.
struct RowLosses {
  const float* s;
  const std::int64_t* label;
  float *losses, *positives, *lse;
  Settings o;

  __device__ void operator()(const auto& row, std::int64_t index) const {
    const Anchor anchor{label, index};
    const int width = o.all ? 1 : 2;
    const float p = count_positives(row, anchor);
    float own[2] = {}, loss = 0;
    if (p > 0) loss = o.all ? of_all(row, anchor, p, own) : hard(row, anchor, p, own);
    if (!row.leads()) return;
    losses[index] = loss;
    positives[index] = p;
    for (int k = 0; k < width; ++k) lse[index * width + k] = own[k];
  }

  __device__ float of_all(const auto& row, const Anchor& anchor, float p, float* own) const {
    const auto other = [&](int j) { return j != anchor.self; };
    own[0] = logsumexp(row, s, other, o.scale, largest_of(row, s, other));
    const float sum =
        cuda::row_sum(row, [&](int j) { return anchor.is_positive(j) ? s[row.at(j)] : 0.0f; });
    return own[0] - o.scale * sum / p;
  }

  __device__ float hard(const auto& row, const Anchor& anchor, float p, float* own) const {
    const auto negative = [&](int j) { return anchor.is_negative(j); };
    const float largest = largest_of(row, s, negative);
    own[0] = logsumexp(row, s, negative, o.sharp, largest);
    own[1] = logsumexp(row, s, negative, o.flat, largest);
    const Opponent opponent(o, static_cast<float>(row.n - 1) - p, own);
    const float sum = cuda::row_sum(row, [&](int j) {
      const float t = o.scale * s[row.at(j)];
      return anchor.is_positive(j) ? softplus(opponent.log_g_at(t) - t) : 0.0f;
    });
    return sum / p;
  }
};

struct Positives {
  const std::int64_t* label;
  float* positives;
  __device__ void operator()(const auto& row, std::int64_t index) const {
    const float p = count_positives(row, Anchor{label, index});
    if (row.leads()) positives[index] = p;
  }
};

struct Backward {
  const float *dy, *s;
  const std::int64_t* label;
  const float *lse, *positives;
  float* ds;
  Settings o;

  __device__ void operator()(const auto& row, std::int64_t index) const {
    const Anchor anchor{label, index};
    const float p = positives[index], anchors = cuda::row_sum(row, HasPositives{positives});
    const float weight = *dy / anchors * o.scale;
    if (p == 0)
      fill(row, [](int) { return 0.0f; });
    else if (o.all)
      of_all(row, anchor, p, weight);
    else
      hard(row, anchor, p, weight);
  }

  __device__ void fill(const auto& row, auto f) const {
    for (int j = row.begin(); j < row.n; j += row.step()) ds[row.at(j)] = f(j);
  }

  // weight (exp(t - LSE) - [positive] / p)
  __device__ void of_all(const auto& row, const Anchor& anchor, float p, float weight) const {
    const float shift = lse[anchor.self];
    fill(row, [&](int j) {
      if (j == anchor.self) return 0.0f;
      return weight * (expf(o.scale * s[row.at(j)] - shift) - (anchor.is_positive(j) ? 1 / p : 0));
    });
  }

  // With the forces f_p: -weight f_p / p for positives; for negatives, of their sum f,
  // weight f / p ((beta + 1) softmax((beta + 1) t) - beta softmax(beta t))
  __device__ void hard(const auto& row, const Anchor& anchor, float p, float weight) const {
    const float* const own = lse + 2 * anchor.self;
    const Opponent opponent(o, static_cast<float>(row.n - 1) - p, own);
    const float force = cuda::row_sum(row, [&](int j) {
      return anchor.is_positive(j) ? fmaxf(opponent.force(o.scale * s[row.at(j)]), 0.0f) : 0.0f;
    });
    fill(row, [&](int j) {
      const float x = s[row.at(j)];
      if (anchor.is_positive(j)) return -weight / p * fabsf(opponent.force(o.scale * x));
      if (!anchor.is_negative(j)) return 0.0f;
      return weight * force / p *
             ((o.beta + 1) * expf(o.sharp * x - own[0]) - o.beta * expf(o.flat * x - own[1]));
    });
  }
};

}  // namespace

void Contrastive::cuda(In in, Out out, CudaStream& stream) const {
  const std::int64_t rows = in[1].dim(0);
  const Tensor losses = Tensor::empty({rows}, DType::f32, Device::cuda);
  const Tensor positives = Tensor::empty({rows}, DType::f32, Device::cuda);
  const RowLosses body{in[0].data<float>(),     in[1].data<std::int64_t>(), losses.data<float>(),
                       positives.data<float>(), out[1].data<float>(),       settings_of(options)};
  cuda::along_rows(rows, rows, body, stream);
  const cuda::MeanOfAnchors<HasPositives> mean{
      losses.data<float>(), {positives.data<float>()}, out[0].data<float>()};
  cuda::along_rows(1, rows, mean, stream);
}

void ContrastiveBackward::cuda(In in, Out out, CudaStream& stream) const {
  const std::int64_t rows = in[2].dim(0);
  const std::int64_t* const label = in[2].data<std::int64_t>();
  const Tensor positives = Tensor::empty({rows}, DType::f32, Device::cuda);
  cuda::along_rows(rows, rows, Positives{label, positives.data<float>()}, stream);
  const Backward body{in[0].data<float>(), in[1].data<float>(),     label,
                      in[3].data<float>(), positives.data<float>(), out[0].data<float>(),
                      settings_of(options)};
  cuda::along_rows(rows, rows, body, stream);
}

}  // namespace hg::ops
