#include "train/step/muon.h"

#include <algorithm>
#include <cmath>

#include "tensor/ops/l2_normalize.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/optimizer.h"
#include "tensor/ops/unary.h"
#include "tensor/ops/view.h"

namespace hg {
namespace {

constexpr double kMuonMomentum = 0.95, kLikeAdamW = 0.2;
constexpr int kNewtonSchulzSteps = 5;
constexpr double kLinear = 3.4445, kCubic = -4.7750, kQuintic = 2.0315;  // of Jordan et al.

// -(g + momentum buffer), after buffer = momentum buffer + g: SGD's own step, from 0 at rate 1.
Tensor nesterov_move(const Tensor& buffer, In gradients, double grad_scale) {
  const Tensor move = Tensor::zeros(buffer.shape(), buffer.dtype(), buffer.device());
  const SgdOptions options{
      .lr = 1, .momentum = kMuonMomentum, .nesterov = true, .grad_scale = grad_scale};
  sgd_step(options, move, buffer, gradients);
  return move;
}

}  // namespace

bool suits_muon(const nn::Parameter& p) {
  return p.decay && p.value.rank() == 2 && p.name.find("blocks.") != std::string::npos;
}

// X <- a X + (b A + c A A) X with A = X X^T; of a tall X the same from the other side, where A is
// smaller.
Tensor orthogonalized(const Tensor& direction) {
  const Shape shape = direction.shape();
  const bool tall = shape[0] > shape[1];
  Tensor x = reshape(l2_normalize(reshape(direction, {1, -1})), shape);
  for (int i = 0; i < kNewtonSchulzSteps; ++i) {
    const Tensor a = tall ? matmul(transpose(x), x) : matmul(x, transpose(x));
    const Tensor b = matmul_into(scale(a, kCubic), scale(a, kQuintic), a);
    x = matmul_into(scale(x, kLinear), tall ? x : b, tall ? b : x);
  }
  return x;
}

void muon_step(const MuonOptions& o, const Tensor& p, const Tensor& buffer, In gradients) {
  const Tensor move = orthogonalized(nesterov_move(buffer, gradients, o.grad_scale));
  const double length = kLikeAdamW * std::sqrt(static_cast<double>(std::max(p.dim(0), p.dim(1))));
  // SGD multiplies its decay by the rate, too, and goes against its gradient.
  const SgdOptions options{
      .lr = o.lr * length, .weight_decay = o.weight_decay / length, .grad_scale = -1};
  sgd_step(options, p, {}, {&move, 1});
}

}  // namespace hg
