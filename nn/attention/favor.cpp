// favor: positive random features of the softmax kernel (Performer). omega [m, D], shared by the
// heads, is a buffer that is drawn anew every `redraw` training steps.
#include <cmath>

#include "nn/attention/positions.h"
#include "nn/attention/variant.h"
#include "tensor/ops/favor_features.h"
#include "tensor/ops/linear_attention.h"
#include "tensor/ops/matmul.h"
#include "tensor/transfer.h"

namespace hg::nn {
namespace {

using Row = std::vector<double>;

double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Row gaussian(std::size_t width, RandomStream& stream) {
  Row row(width);
  for (double& x : row) x = stream.normal();
  return row;
}

// A Gaussian row made orthogonal to the others of its block (Gram-Schmidt, twice, which is the QR
// decomposition with positive diagonal) and of length 1.
Row orthonormal(const std::vector<Row>& block, std::size_t width, RandomStream& stream) {
  Row row = gaussian(width, stream);
  for (int pass = 0; pass < 2; ++pass)
    for (const Row& other : block) {
      const double along = dot(row, other);
      for (std::size_t i = 0; i < width; ++i) row[i] -= along * other[i];
    }
  const double length = std::sqrt(dot(row, row));
  for (double& x : row) x /= length;
  return row;
}

std::int64_t feature_count(const AttentionOptions& o) {
  if (o.features > 0) return o.features;
  const auto d = static_cast<double>(o.dim_head);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(d * std::log(d))));
}

class FavorAttention final : public Attention {
 public:
  FavorAttention(const Builder& self, const AttentionOptions& options);
  void begin_step(std::int64_t step) const override;
  static AttentionTraits traits(const AttentionOptions&) { return {}; }

 private:
  Tensor mix(const CoreInput& core, const Context& context) const override;
  void draw(std::int64_t index) const;

  std::uint64_t seed_;
  std::string stream_;
  Tensor omega_;
};

FavorAttention::FavorAttention(const Builder& self, const AttentionOptions& o)
    : Attention(self, o), seed_(self.parameters().seed()), stream_(self.name_of("omega")) {
  omega_ = self.make_buffer("omega", {feature_count(o), o.dim_head}, Init::constant(0));
  if (!self.parameters().hollow()) draw(0);
}

void FavorAttention::begin_step(std::int64_t step) const {
  if (step > 0 && step % options_.redraw == 0) draw(step / options_.redraw);
}

// A pure function of seed, layer and index, so that a resumed run draws the same.
void FavorAttention::draw(std::int64_t index) const {
  RandomStream stream(seed_, fmt::format("{}.{}", stream_, index));
  const std::int64_t m = omega_.dim(0), d = omega_.dim(1);
  const Tensor drawn = Tensor::empty(omega_.shape(), omega_.dtype());
  std::vector<Row> block;
  for (std::int64_t r = 0; r < m; ++r) {
    if (r % d == 0) block.clear();
    block.push_back(orthonormal(block, static_cast<std::size_t>(d), stream));
    const Row length = gaussian(static_cast<std::size_t>(d), stream);
    const double norm = std::sqrt(dot(length, length));
    dispatch_float(drawn.dtype(), "favor", [&]<class T>() {
      for (std::int64_t c = 0; c < d; ++c)
        drawn.data<T>()[r * d + c] =
            static_cast<T>(norm * block.back()[static_cast<std::size_t>(c)]);
    });
  }
  copy_into(omega_, drawn);
}

Tensor FavorAttention::mix(const CoreInput& core, const Context&) const {
  using Shift = ops::FavorFeatures::Shift;
  const Tensors parts = core.parts();
  const std::int64_t heads = core.heads.count();
  const auto features = [&](const Tensor& x, Shift shift) {
    return favor_features(x, matmul(with_heads(x, heads), transpose(omega_)), shift);
  };
  return linear_attention(features(parts[0], Shift::token), features(parts[1], Shift::sequence),
                          parts[2], heads, 1e-12);
}

}  // namespace

AttentionVariant favor_attention() { return variant<FavorAttention>(); }

}  // namespace hg::nn
