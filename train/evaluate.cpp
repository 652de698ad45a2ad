#include "train/evaluate.h"

#include <algorithm>
#include <cmath>

#include "tensor/observer.h"
#include "tensor/ops/cross_entropy.h"
#include "train/groups.h"
#include "train/non_finite.h"

namespace hg {

std::int64_t most_likely(const float* row, std::int64_t classes) {
  return std::max_element(row, row + classes) - row;
}

std::optional<Evaluation> evaluate(const nn::Vit& model, Loader& loader,
                                   const std::function<bool()>& stop) {
  const PhaseScope phase(Phase::eval);
  const std::int64_t classes = model.options().classes;
  Evaluation result{0, ConfusionMatrix(classes), {}, 0};
  Batch batch;
  loader.start_epoch(0);
  while (loader.next(batch)) {
    if (stop && stop()) return std::nullopt;
    const Tensor logits = evaluate_logits(model, batch.images, batch.keep);
    const double loss = cross_entropy(logits, batch.labels).item<float>();
    if (!std::isfinite(loss))
      explain_non_finite(
          model, [&] { cross_entropy(model.logits(batch.images, {}, batch.keep), batch.labels); });
    result.loss += loss * static_cast<double>(batch.size());
    result.selection_flops += batch.selection.flops;
    for (std::int64_t i = 0; i < batch.size(); ++i)
      result.confusion.add(batch.labels.data<std::int64_t>()[i],
                           most_likely(logits.data<float>() + i * classes, classes));
  }
  result.loss /= static_cast<double>(result.confusion.total());
  result.metrics = result.confusion.metrics();
  return result;
}

}  // namespace hg
