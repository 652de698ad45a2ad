#include "train/step/loss.h"

#include <numeric>

#include "tensor/observer.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/box_loss.h"
#include "tensor/ops/cross_entropy.h"
#include "tensor/ops/log_softmax.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/softmax.h"
#include "tensor/ops/unary.h"
#include "tensor/transfer.h"

namespace hg {
namespace {

// weight times the mean over layers; nothing of none
Tensor plus_term(const Tensor& loss, const Tensors& layers, double weight) {
  if (layers.empty()) return loss;
  Tensor sum = layers[0];
  for (std::size_t i = 1; i < layers.size(); ++i) sum = add(sum, layers[i]);
  return add(loss, scale(sum, weight / static_cast<double>(layers.size())));
}

// T^2 KL(softmax(t / T) || softmax(s / T)), summed over rows, over `batch`; T^2 keeps the size of
// its gradient the same at every T
Tensor distance_to(const Tensor& teacher, const Tensor& logits, double temperature,
                   std::int64_t batch) {
  const Tensor t = scale(teacher, 1 / temperature), s = scale(logits, 1 / temperature);
  const Tensor divergence = sum_all(mul(softmax(t), sub(log_softmax(t), log_softmax(s))));
  return scale(divergence, temperature * temperature / static_cast<double>(batch));
}

// (1 - a) cross-entropy + a distance
Tensor class_loss(const Tensor& logits, const Targets& targets, const LossConfig& loss,
                  std::int64_t batch) {
  const Tensor by_label = cross_entropy(logits, targets.labels, loss.label_smoothing, batch);
  if (!targets.teacher.defined()) return by_label;
  return add(scale(by_label, 1 - loss.distill),
             scale(distance_to(targets.teacher, logits, loss.temperature, batch), loss.distill));
}

}  // namespace

nn::PassRecord record_for(const LossConfig& loss) {
  nn::PassRecord record;
  record.wants_likelihood = loss.mle > 0;
  if (loss.sparsity != 0) record.wants_sparsity = loss.sparsity_kind;
  record.wants_budget = loss.gate_budget > 0;
  return record;
}

Tensor training_loss(const Tensor& logits, const Targets& targets, const nn::PassRecord& record,
                     const LossConfig& loss, std::int64_t batch) {
  const Scope scope("loss");
  const std::int64_t images = logits.dim(0), all = batch > 0 ? batch : images;
  const double share = static_cast<double>(images) / static_cast<double>(all);
  Tensor sum = class_loss(logits, targets, loss, all);
  sum = plus_term(sum, record.likelihood, -loss.mle * share);
  sum = plus_term(sum, record.sparsity, loss.sparsity * share);
  return plus_term(sum, record.budget, loss.gate_budget * share);
}

std::int64_t count_boxes(const Tensor& has_box) {
  const Tensor here = on_host(has_box);
  const std::int64_t* has = here.data<std::int64_t>();
  return std::accumulate(has, has + here.numel(), std::int64_t{0});
}

Tensor with_box_loss(const Tensor& loss, const Tensor& predicted, const Tensor& boxes,
                     const Tensor& has_box, std::int64_t all_boxes) {
  const Scope scope("loss");
  return add(loss, box_loss(predicted, boxes, has_box, all_boxes).loss);
}

}  // namespace hg
