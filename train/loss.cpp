#include "train/loss.h"

#include <numeric>

#include "tensor/observer.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/box_loss.h"
#include "tensor/ops/cross_entropy.h"
#include "tensor/ops/unary.h"

namespace hg {
namespace {

// - mean over layers; each is a mean over its images
Tensor likelihood_term(const Tensors& layers, double weight, double share) {
  Tensor sum = layers[0];
  for (std::size_t i = 1; i < layers.size(); ++i) sum = add(sum, layers[i]);
  return scale(sum, -weight * share / static_cast<double>(layers.size()));
}

}  // namespace

nn::PassRecord record_for(const LossConfig& loss) {
  nn::PassRecord record;
  record.wants_likelihood = loss.mle > 0;
  return record;
}

Tensor training_loss(const Tensor& logits, const Tensor& labels, const nn::PassRecord& record,
                     const LossConfig& loss, std::int64_t batch) {
  const Scope scope("loss");
  const Tensor entropy = cross_entropy(logits, labels, loss.label_smoothing, batch);
  if (record.likelihood.empty()) return entropy;
  const std::int64_t images = logits.dim(0), all = batch > 0 ? batch : images;
  const double share = static_cast<double>(images) / static_cast<double>(all);
  return add(entropy, likelihood_term(record.likelihood, loss.mle, share));
}

std::int64_t count_boxes(const Tensor& has_box) {
  const std::int64_t* has = has_box.data<std::int64_t>();
  return std::accumulate(has, has + has_box.numel(), std::int64_t{0});
}

Tensor with_box_loss(const Tensor& loss, const Tensor& predicted, const Tensor& boxes,
                     const Tensor& has_box, std::int64_t all_boxes) {
  const Scope scope("loss");
  return add(loss, box_loss(predicted, boxes, has_box, all_boxes).loss);
}

}  // namespace hg
