#include "train/experiment/figures.h"

#include <cmath>

#include "tensor/base/usage_error.h"
#include "train/store/metrics_csv.h"
#include "train/store/run_folder.h"

namespace hg::experiment {
namespace {

void take_metrics(RunFigures& run, const std::string& path) {
  double joules = 0, flops = 0, tokens_per_image = 0;
  for (const EpochRow& row : read_metrics(path)) {
    joules += row.energy_j;
    flops += static_cast<double>(row.flops);
    if (row.tokens_per_image) {
      tokens_per_image += *row.tokens_per_image;
      run.epochs += 1;
    }
    if (row.micro_f1) run.evaluations.push_back({run.epochs, joules, *row.micro_f1, flops});
  }
  usage_require(!run.evaluations.empty(), path, "holds no evaluation");
  // Every epoch of an experiment has as many images.
  if (run.epochs > 0)
    run.tokens = std::round(tokens_per_image / static_cast<double>(run.epochs) *
                            static_cast<double>(run.images));
}

}  // namespace

RunFigures read_figures(const std::string& path) {
  const RunFolder folder{path};
  RunFigures run;
  run.folder = path;
  read_summary(folder.summary(), run);
  usage_require(!run.energy_kind.empty(), folder.summary(), "says nothing of energy");
  usage_require(run.accuracy && run.micro_f1 && run.macro_f1, folder.summary(), "holds no scores");
  take_metrics(run, folder.metrics());
  return run;
}

}  // namespace hg::experiment
