#include "train/experiment/figures.h"

#include <cmath>

#include "tensor/base/usage_error.h"
#include "train/store/metrics_csv.h"
#include "train/store/run_folder.h"
#include "train/store/summary.h"

namespace hg::experiment {
namespace {

void take_summary(RunFigures& run, const std::string& path) {
  RunSummary s;
  read_summary(path, s);
  usage_require(!s.energy_kind.empty(), path, "says nothing of energy");
  usage_require(s.accuracy && s.micro_f1 && s.macro_f1, path, "holds no scores");
  run.energy_j = s.energy_j.value;
  run.energy_low_j = s.energy_j.low;
  run.energy_high_j = s.energy_j.high;
  run.energy_kind = s.energy_kind;
  run.energy_source = s.energy_source;
  run.co2_g = s.co2_g;
  run.seconds = s.seconds;
  run.flops = static_cast<double>(s.flops);
  run.flops_matmul = static_cast<double>(s.flops_matmul);
  run.images = static_cast<double>(s.images);
  run.micro_f1 = *s.micro_f1;
  run.macro_f1 = *s.macro_f1;
  run.accuracy = *s.accuracy;
}

void take_metrics(RunFigures& run, const std::string& path) {
  double joules = 0, tokens_per_image = 0;
  for (const EpochRow& row : read_metrics(path)) {
    joules += row.energy_j;
    if (row.tokens_per_image) {
      tokens_per_image += *row.tokens_per_image;
      run.epochs += 1;
    }
    if (row.micro_f1) run.evaluations.push_back({run.epochs, joules, *row.micro_f1});
  }
  usage_require(!run.evaluations.empty(), path, "holds no evaluation");
  // Every epoch of an experiment has as many images.
  if (run.epochs > 0)
    run.tokens = std::round(tokens_per_image / static_cast<double>(run.epochs) * run.images);
}

}  // namespace

RunFigures read_figures(const std::string& path) {
  const RunFolder folder{path};
  RunFigures run;
  run.folder = path;
  take_summary(run, folder.summary());
  take_metrics(run, folder.metrics());
  return run;
}

}  // namespace hg::experiment
