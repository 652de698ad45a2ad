#include "train/eval/evaluate.h"

#include <algorithm>
#include <cmath>

#include "tensor/figure.h"
#include "tensor/observer.h"
#include "tensor/ops/box_loss.h"
#include "tensor/ops/cross_entropy.h"
#include "tensor/ops/softmax.h"
#include "tensor/transfer.h"
#include "train/step/groups.h"
#include "train/step/loss.h"
#include "train/step/non_finite.h"

namespace hg {
namespace {

struct Outputs {
  Tensor logits;  // [B, classes]
  Tensor boxes;   // [B, 4]; undefined where only classes are judged
};

Outputs outputs_of(const nn::Vit& model, const Batch& batch, Judged what, const PooledOf& pooled) {
  const bool boxes = what == Judged::boxes;
  if (!boxes && !pooled) return {evaluate_logits(model, batch), {}};
  const Tensor features = pooled ? pooled(batch) : evaluate_features(model, batch);
  return {model.classify(features), boxes ? model.boxes(features) : Tensor()};
}

// Sums over the images and boxes seen so far.
class Judge {
 public:
  explicit Judge(std::int64_t classes) : classes_(classes), confusion_(classes), boxes_(classes) {}

  // False: a loss is not finite.
  bool add(const Batch& batch, const Outputs& out) {
    const Figure loss = Figure::of(cross_entropy(out.logits, batch.labels));
    const Tensor logits = on_host(out.logits), labels = on_host(batch.labels);
    class_loss_ += loss * static_cast<double>(batch.size());
    selection_flops_ += batch.selection.flops;
    for (std::int64_t i = 0; i < batch.size(); ++i)
      confusion_.add(labels.data<std::int64_t>()[i], class_of(logits, i));
    if (out.boxes.defined()) add_boxes(batch, out, logits, labels);
    return std::isfinite(class_loss_ + box_loss_);
  }

  Evaluation result() const {
    Evaluation e{class_loss_ / static_cast<double>(confusion_.total()),
                 confusion_,
                 confusion_.metrics(),
                 {},
                 selection_flops_};
    if (boxes_.boxes() == 0) return e;
    e.loss += box_loss_ / static_cast<double>(boxes_.boxes());
    e.detection = boxes_.metrics();
    return e;
  }

 private:
  std::int64_t class_of(const Tensor& logits, std::int64_t i) const {
    return most_likely(logits.data<float>() + i * classes_, classes_);
  }

  // logits, labels: those of the outputs and the batch, on the host
  void add_boxes(const Batch& batch, const Outputs& out, const Tensor& logits,
                 const Tensor& labels) {
    const BoxLosses losses = box_loss(out.boxes, batch.boxes, batch.has_box);
    const Tensor p = on_host(softmax(out.logits)), iou = on_host(losses.iou),
                 has_box = on_host(batch.has_box);
    box_loss_ += Figure::of(losses.loss) * static_cast<double>(count_boxes(has_box));
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      if (has_box.data<std::int64_t>()[i] == 0) continue;
      const std::int64_t predicted = class_of(logits, i);
      boxes_.add(labels.data<std::int64_t>()[i], predicted,
                 p.data<float>()[i * classes_ + predicted], iou.data<float>()[i]);
    }
  }

  const std::int64_t classes_;
  ConfusionMatrix confusion_;
  DetectionTally boxes_;
  double class_loss_ = 0, box_loss_ = 0;
  std::uint64_t selection_flops_ = 0;
};

}  // namespace

std::int64_t most_likely(const float* row, std::int64_t classes) {
  return std::max_element(row, row + classes) - row;
}

std::optional<Evaluation> evaluate(const nn::Vit& model, Loader& loader, Judged what,
                                   const std::function<bool()>& stop, const PooledOf& pooled) {
  const PhaseScope phase(Phase::eval);
  Judge judge(model.options().classes);
  Batch batch;
  loader.start_epoch(0);
  while (loader.next(batch)) {
    if (stop && stop()) return std::nullopt;
    const auto add = [&] { return judge.add(batch, outputs_of(model, batch, what, pooled)); };
    if (!add()) explain_non_finite(model, add);
  }
  return judge.result();
}

}  // namespace hg
