// hgtrain eval: a trained model on its test images.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "train/checkpoint.h"
#include "train/commands/commands.h"
#include "train/evaluate.h"
#include "train/open_data.h"
#include "train/usage_error.h"

namespace hg {
namespace {

using Json = nlohmann::ordered_json;

void print_table(const Evaluation& e, const std::vector<std::string>& names) {
  fmt::print("{:<24} {:>9} {:>9} {:>9} {:>9}\n", "class", "precision", "recall", "F1", "images");
  for (std::size_t c = 0; c < e.metrics.classes.size(); ++c) {
    const ClassMetrics& m = e.metrics.classes[c];
    fmt::print("{:<24} {:>9.4f} {:>9.4f} {:>9.4f} {:>9}\n", names[c], m.precision, m.recall, m.f1,
               m.support);
  }
  fmt::print("accuracy {:.4f}, micro F1 {:.4f}, macro F1 {:.4f}, loss {:.4f} on {} images\n",
             e.metrics.accuracy, e.metrics.micro_f1, e.metrics.macro_f1, e.loss,
             e.confusion.total());
}

Json to_json(const Evaluation& e, const std::vector<std::string>& names) {
  Json classes = Json::array();
  for (std::size_t c = 0; c < e.metrics.classes.size(); ++c) {
    const ClassMetrics& m = e.metrics.classes[c];
    classes.push_back({{"class", names[c]},
                       {"precision", m.precision},
                       {"recall", m.recall},
                       {"f1", m.f1},
                       {"support", m.support}});
  }
  return {{"accuracy", e.metrics.accuracy}, {"micro_f1", e.metrics.micro_f1},
          {"macro_f1", e.metrics.macro_f1}, {"loss", e.loss},
          {"images", e.confusion.total()},  {"classes", classes}};
}

}  // namespace

int eval_command(const EvalOptions& options) {
  const bool folder = std::filesystem::is_directory(options.target);
  EvalOptions resolved = options;
  if (resolved.config.empty()) {
    usage_require(folder, options.target, "is no run folder; --config tells what model it holds");
    resolved.config = options.target + "/config.toml";
  }
  const Config config = resolved.load();
  const nn::Vit model =
      load_model(folder ? options.target + "/model.safetensors" : options.target, config).model;
  const PhaseConfig& phase = config.phases.back();
  const auto set = open_data(config, phase.data, Split::test);
  Loader loader(*set, loader_options(config, phase, Split::test));
  const Evaluation e = *evaluate(model, loader);
  if (options.json)
    fmt::print("{}\n", to_json(e, set->class_names()).dump());
  else
    print_table(e, set->class_names());
  return 0;
}

}  // namespace hg
