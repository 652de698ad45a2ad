#include "train/experiment/figures.h"

#include <cmath>
#include <map>

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

std::optional<double> seconds_of(const std::vector<std::string>& arms,
                                 const std::vector<RunFigures>& finished) {
  if (finished.empty()) return std::nullopt;
  struct Mean {
    double sum = 0, count = 0;
    void add(double value) { sum += value, ++count; }
  };
  std::map<std::string, Mean> by_arm;
  Mean all;
  for (const RunFigures& run : finished) {
    by_arm[run.arm].add(run.seconds);
    all.add(run.seconds);
  }
  double seconds = 0;
  for (const std::string& arm : arms) {
    const auto own = by_arm.find(arm);
    const Mean& mean = own == by_arm.end() ? all : own->second;
    seconds += mean.sum / mean.count;
  }
  return seconds;
}

}  // namespace hg::experiment
