#include "train/experiment/figures.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "tensor/base/csv.h"
#include "tensor/base/files.h"
#include "tensor/base/usage_error.h"

namespace hg::experiment {
namespace {

using Json = nlohmann::json;

std::string contents(const std::string& path) { return std::string(MappedFile(path).bytes()); }

void read_summary(RunFigures& run, const std::string& path) {
  const Json json = Json::parse(contents(path), nullptr, false);
  const auto field = [&](const char* key) {
    const Json value = json.is_object() ? json.value(key, Json()) : Json();
    usage_require(!value.is_null(), path, "has no {}", key);
    return value;
  };
  const auto number = [&](const char* key) {
    const Json value = field(key);
    usage_require(value.is_number(), path, "{}: expected a number", key);
    return value.get<double>();
  };
  const auto text = [&](const char* key) {
    const Json value = field(key);
    usage_require(value.is_string(), path, "{}: expected text", key);
    return value.get<std::string>();
  };
  run.energy_j = number("energy_j");
  run.energy_low_j = number("energy_low_j");
  run.energy_high_j = number("energy_high_j");
  run.energy_kind = text("energy_kind");
  run.energy_source = text("energy_source");
  run.co2_g = number("co2_g");
  run.seconds = number("seconds");
  run.flops = number("flops");
  run.flops_matmul = number("flops_matmul");
  run.images = number("images");
  run.micro_f1 = number("micro_f1");
  run.macro_f1 = number("macro_f1");
  run.accuracy = number("accuracy");
}

void read_metrics(RunFigures& run, const std::string& path) {
  const CsvTable table(contents(path), path);
  double joules = 0, tokens_per_image = 0;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    joules += table.number(row, "energy_j");
    if (const auto tokens = table.figure(row, "tokens_per_image")) {
      tokens_per_image += *tokens;
      run.epochs += 1;
    }
    if (const auto f1 = table.figure(row, "micro_f1"))
      run.evaluations.push_back({run.epochs, joules, *f1});
  }
  usage_require(!run.evaluations.empty(), path, "holds no evaluation");
  // Every epoch of an experiment has as many images.
  if (run.epochs > 0)
    run.tokens = std::round(tokens_per_image / static_cast<double>(run.epochs) * run.images);
}

}  // namespace

RunFigures read_figures(const std::string& folder) {
  RunFigures run;
  run.folder = folder;
  read_summary(run, folder + "/summary.json");
  read_metrics(run, folder + "/metrics.csv");
  return run;
}

}  // namespace hg::experiment
