// fnet: y = Re(F_N u F_E) / sqrt(N E), the Fourier transform over tokens and features, without
// parameters. With T = C_N u C_E, where C_n[j, k] = cas(2 pi j k / n) and cas = cos + sin
// (Hartley's transform), Re(F_N u F_E)[j, k] = (T[j, -k] + T[-j, k]) / 2: half the products of
// cosines and sines apart.
#include <cmath>
#include <mutex>
#include <numbers>

#include "nn/attention/positions.h"
#include "nn/attention/variant.h"
#include "tensor/observer.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/linear.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/permute.h"
#include "tensor/transfer.h"

namespace hg::nn {
namespace {

// factor cas(2 pi j k / n), [n, n]
Tensor cas_table(std::int64_t n, double factor, const Tensor& like) {
  const TensorSpec spec{like.dtype(), {n, n}};
  if (!like.storage()) return Tensor::hollow_of(spec);
  CachedVector<double> circle(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n);
    circle[static_cast<std::size_t>(i)] = factor * (std::cos(angle) + std::sin(angle));
  }
  const Tensor table = Tensor::empty(spec.shape, spec.dtype);
  dispatch_float(spec.dtype, "fnet", [&]<class T>() {
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t k = 0; k < n; ++k)
        table.data<T>()[j * n + k] = static_cast<T>(circle[static_cast<std::size_t>(j * k % n)]);
  });
  return to_device(table, like.device());
}

// The table of the length that was asked for last.
class CasTable {
 public:
  Tensor of(std::int64_t n, double factor, const Tensor& like) const {
    if (!like.storage()) return cas_table(n, factor, like);
    const std::lock_guard guard(mutex_);
    if (!table_.defined() || table_.dim(0) != n) table_ = cas_table(n, factor, like);
    return table_;
  }

 private:
  mutable std::mutex mutex_;
  mutable Tensor table_;
};

// x [B, R, ..] with row -r in place of row r.
Tensor mirrored(const Tensor& x) {
  const std::int64_t rows = x.dim(1);
  const Tensor ids = Tensor::empty({x.dim(0), rows}, DType::i64);
  for (std::int64_t i = 0; i < ids.numel(); ++i)
    ids.data<std::int64_t>()[i] = (rows - i % rows) % rows;
  return gather_rows(x, to_device(ids, x.device()));
}

class FnetMixing final : public Attention {
 public:
  FnetMixing(const Builder&, const AttentionOptions& o) : Attention(NoProjections{}, o) {}
  static AttentionTraits traits(const AttentionOptions&) {
    return {.some_heads = false, .some_queries = false};
  }

 private:
  Tensor mixed(CoreInput core, const Context&) const override {
    const std::int64_t n = core.x.dim(1), width = core.x.dim(2);
    const double factor = 0.5 / std::sqrt(static_cast<double>(n * width));
    const Tensor of_features = linear(core.x, features_.of(width, 1, core.x));
    const Tensor both =  // [B, E, N]
        matmul(transpose(of_features), tokens_.of(n, factor, core.x));
    return add(permute(mirrored(both), {0, 2, 1}), mirrored(permute(both, {0, 2, 1})));
  }

  CasTable features_, tokens_;
};

}  // namespace

AttentionVariant fnet_attention() { return variant<FnetMixing>(); }

}  // namespace hg::nn
