// hgtrain eval: a trained model on its test images; of a detector its boxes too.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tensor/base/columns.h"
#include "tensor/base/usage_error.h"
#include "train/commands/commands.h"
#include "train/config/phase_kind.h"
#include "train/eval/evaluate.h"
#include "train/step/open_data.h"
#include "train/store/checkpoint.h"
#include "train/store/run_folder.h"

namespace hg {
namespace {

using Json = nlohmann::ordered_json;

std::string boxes_line(const DetectionMetrics& d) {
  return fmt::format(
      "boxes: mean IoU {:.4f}, IoU >= 0.5 {:.4f}, mAP@0.5 {:.4f} on {}; class and IoU >= 0.5: "
      "localisation accuracy {:.4f}, micro F1 {:.4f}, macro F1 {:.4f}\n",
      d.mean_iou, d.iou_50, d.map_50, d.boxes, d.localization_accuracy, d.micro_f1, d.macro_f1);
}

void print_table(const Evaluation& e, const std::vector<std::string>& names) {
  TextTable table({"class", "precision", "recall", "F1", "images"});
  for (std::size_t c = 0; c < e.metrics.classes.size(); ++c) {
    const ClassMetrics& m = e.metrics.classes[c];
    table.add({names[c], fmt::format("{:.4f}", m.precision), fmt::format("{:.4f}", m.recall),
               fmt::format("{:.4f}", m.f1), std::to_string(m.support)});
  }
  std::string text =
      table.text(columns_of(stdout)) +
      fmt::format(
          "accuracy {:.4f}, micro F1 {:.4f}, macro F1 {:.4f}, loss {:.4f} "
          "on {} images\n",
          e.metrics.accuracy, e.metrics.micro_f1, e.metrics.macro_f1, e.loss, e.confusion.total());
  if (e.detection) text += boxes_line(*e.detection);
  print_folded(stdout, text);
}

// F1 is then that of class and box, as in metrics.csv.
Json with_detection(Json json, const DetectionMetrics& d) {
  json["micro_f1"] = d.micro_f1;
  json["macro_f1"] = d.macro_f1;
  for (const auto& [name, value] : figures_of(d)) json[name] = value;
  json["boxes"] = d.boxes;
  return json;
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
  const Json all{{"accuracy", e.metrics.accuracy}, {"micro_f1", e.metrics.micro_f1},
                 {"macro_f1", e.metrics.macro_f1}, {"loss", e.loss},
                 {"images", e.confusion.total()},  {"classes", classes}};
  return e.detection ? with_detection(all, *e.detection) : all;
}

}  // namespace

int eval_command(const EvalOptions& options) {
  EvalOptions resolved = options;
  if (resolved.config.empty()) {
    const std::vector<std::string> given = options.all_settings();
    usage_require(
        !config_beside(options.target).empty() ||
            std::ranges::any_of(given, [](auto& s) { return s.starts_with("data."); }),
        options.target,
        "is no run folder; --config tells what model it holds, or --set data.name=... what "
        "to test it on");
    resolved.config = options.target;
  }
  const Config config = resolved.load();
  const nn::Vit model = load_model(model_file(options.target), config).model;
  const PhaseConfig& phase = config.phases.back();
  const auto set = open_data(config, phase.data, Split::test);
  if (detects(config)) require_boxes(config, config.phases.size() - 1, *set);
  Loader loader(*set, loader_options(config, phase, Split::test));
  options.tell_device(config);
  const Evaluation e = *evaluate(model, loader, detects(config) ? Judged::boxes : Judged::classes);
  if (options.json)
    fmt::print("{}\n", to_json(e, set->class_names()).dump());
  else
    print_table(e, set->class_names());
  return 0;
}

}  // namespace hg
