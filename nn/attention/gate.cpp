#include "nn/attention/gate.h"

#include <cmath>

#include "nn/attention/positions.h"
#include "tensor/observer.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/broadcast.h"
#include "tensor/ops/deviation.h"
#include "tensor/ops/linear.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/scale_axes.h"
#include "tensor/ops/unary.h"
#include "tensor/transfer.h"

namespace hg::nn {
namespace {

constexpr double kDecay = 0.99;  // of the running mean

using Scores = CachedVector<double>;

// Adds the rows [B, H] (or one row [H]) to the sums.
void add_rows(const Tensor& rows, Scores& sums) {
  const Tensor x = on_host(rows);
  dispatch_float(x.dtype(), "gate", [&]<class T>() {
    const auto columns = static_cast<std::int64_t>(sums.size());
    for (std::int64_t i = 0; i < x.numel(); ++i)
      sums[static_cast<std::size_t>(i % columns)] += static_cast<double>(x.data<T>()[i]);
  });
}

// [B, W] -> [B, N, W]
Tensor for_each_token(const Tensor& x, std::int64_t tokens) {
  const Tensor images = Tensor::empty({x.dim(0), tokens}, DType::i64);
  for (std::int64_t b = 0; b < x.dim(0); ++b)
    std::fill_n(images.data<std::int64_t>() + b * tokens, tokens, b);
  return gather_rows(x, to_device(images, x.device()));
}

}  // namespace

std::int64_t kept_of(double share, std::int64_t n) {
  // The small term makes 0.07 of 100 be 7.
  return std::clamp<std::int64_t>(
      static_cast<std::int64_t>(std::ceil(share * static_cast<double>(n) - 1e-9)), 0, n);
}

HeadGate::HeadGate(const Builder& attention, const Options& o)
    : options_(o), kept_(std::max<std::int64_t>(1, kept_of(o.keep, o.heads))) {
  const Builder self = attention.child("gate");
  weight_ = self.make("weight", {o.heads, o.width}, Init::normal(0.02), false);
  bias_ = self.make("bias", {o.heads}, Init::constant(0));
  if (o.per_batch) mean_ = self.make_buffer("mean", {o.heads}, Init::constant(0), true);
}

Tensor HeadGate::alpha(const Tensor& x, const Context& context) const {
  const Scope scope("gate", Scope::kLeaf);
  const Tensor a = sigmoid(linear(mean(x, 1), weight_, bias_));
  if (!context.record) return a;
  if (mean_.defined()) context.record->statistics.push_back({this, {a.detach()}});
  if (context.wants(Sparsity::gate_l1)) context.record->sparsity.push_back(mean_all(a));
  if (context.record->wants_budget) {
    const Tensor of_images = mean(a, 1);
    const Tensor over = add(of_images, Tensor::full(of_images.shape(), -options_.keep,
                                                    of_images.dtype(), of_images.device()));
    context.record->budget.push_back(mean_all(square(over)));
  }
  return a;
}

bool HeadGate::settled() const {
  if (kept_ == options_.heads || !mean_.defined() || !mean_.storage()) return true;
  const Tensor mean = on_host(mean_);
  return dispatch_float(mean.dtype(), "gate", [&]<class T>() {
    return std::any_of(mean.data<T>(), mean.data<T>() + options_.heads, [](T m) { return m != 0; });
  });
}

HeadSet HeadGate::chosen_by(const Tensor& alphas) const {
  Scores scores(static_cast<std::size_t>(options_.heads), 0.0);
  if (alphas.storage()) add_rows(alphas, scores);  // else costs are counted: any heads will do
  return HeadSet::largest(scores, kept_);
}

HeadSet HeadGate::settled_heads() const {
  return mean_.defined() ? chosen_by(mean_) : HeadSet(options_.heads);
}

HeadSet HeadGate::heads(const Tensor& alpha) const {
  return settled() ? settled_heads() : chosen_by(alpha);
}

Tensor HeadGate::own_choice(const Tensor& alpha) const {
  const Tensor mask = Tensor::zeros(alpha.shape(), alpha.dtype());
  if (!alpha.storage()) return mask;
  const Tensor here = on_host(alpha);
  const std::int64_t heads = options_.heads;
  dispatch_float(alpha.dtype(), "gate", [&]<class T>() {
    for (std::int64_t row = 0; row < alpha.numel(); row += heads)
      for (const std::int64_t h : places_of_largest(
               std::span<const T>(here.data<T>() + row, static_cast<std::size_t>(heads)), kept_))
        mask.data<T>()[row + h] = 1;
  });
  return to_device(mask, alpha.device());
}

Tensor HeadGate::weigh(const Tensor& mixed, const Tensor& alpha, const HeadSet& heads) const {
  const Scope scope("gate", Scope::kLeaf);
  Tensor factors = heads.of(alpha, 1);
  if (!options_.per_batch && kept_ < options_.heads) factors = mul(factors, own_choice(alpha));
  return without_heads(
      scale_axes(with_heads(mixed, heads.count()), for_each_token(factors, mixed.dim(1)), 0));
}

void HeadGate::learn(const CachedVector<Tensors>& passes) const {
  Scores sums(static_cast<std::size_t>(options_.heads), 0.0);
  std::int64_t images = 0;
  for (const Tensors& pass : passes) {
    add_rows(pass[0], sums);
    images += pass[0].dim(0);
  }
  if (images == 0) return;
  const auto move_mean = [&]<class T>(T* mean) {
    for (std::size_t h = 0; h < sums.size(); ++h) {
      const double present = sums[h] / static_cast<double>(images);
      const double before = mean[h] == 0 ? present : static_cast<double>(mean[h]);
      mean[h] = static_cast<T>(kDecay * before + (1 - kDecay) * present);
    }
  };
  edit_on_host(mean_, [&](const Tensor& mean) {
    dispatch_float(mean.dtype(), "gate", [&]<class T>() { move_mean(mean.data<T>()); });
  });
}

Tensor asking_tokens(const Tensor& x, double share) {
  const Scope scope("gate", Scope::kLeaf);
  const std::int64_t batch = x.dim(0), n = x.dim(1), kept = kept_of(share, n - 1);
  Tensor scores = on_host(deviation(x.detach()));
  if (!scores.storage()) scores = Tensor::zeros(scores.shape(), scores.dtype());  // to count costs
  const Tensor chosen = Tensor::zeros({batch, 1 + kept}, DType::i64);
  dispatch_float(scores.dtype(), "gate", [&]<class T>() {
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::span<const T> patches(scores.data<T>() + b * n + 1,
                                       static_cast<std::size_t>(n - 1));
      std::int64_t* to = chosen.data<std::int64_t>() + b * (1 + kept) + 1;
      for (const std::int64_t i : places_of_largest(patches, kept)) *to++ = i + 1;
    }
  });
  return to_device(chosen, x.device());
}

}  // namespace hg::nn
