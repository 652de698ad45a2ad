#include "train/phases/epoch_report.h"

namespace hg {

std::optional<EpochReport> report_on(const nn::Vit& model, Loader& loader, Judged what,
                                     const std::function<bool()>& stop, const PooledOf& pooled) {
  const std::optional<Evaluation> e = evaluate(model, loader, what, stop, pooled);
  if (!e) return std::nullopt;
  EpochReport report;
  report.test_loss = e->loss;
  report.scores = Scores{e->metrics.accuracy, e->metrics.micro_f1, e->metrics.macro_f1};
  report.data_flops = e->selection_flops;
  report.confusion = e->confusion;
  if (!e->detection) return report;
  const DetectionMetrics& d = *e->detection;
  report.scores->micro_f1 = d.micro_f1;
  report.scores->macro_f1 = d.macro_f1;
  report.figures = figures_of(d);
  report.note = fmt::format("mean IoU {:.4f}  IoU >= 0.5 {:.4f}  localised {:.4f}  mAP@0.5 {:.4f}",
                            d.mean_iou, d.iou_50, d.localization_accuracy, d.map_50);
  return report;
}

}  // namespace hg
