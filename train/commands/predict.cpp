// hgtrain predict: class and probability of image files; of a detector also the box, drawn if asked
// for.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/image_draw.h"
#include "data/image_file.h"
#include "tensor/base/files.h"
#include "tensor/base/usage_error.h"
#include "tensor/ops/softmax.h"
#include "tensor/transfer.h"
#include "train/commands/commands.h"
#include "train/config/phase_kind.h"
#include "train/config/selection.h"
#include "train/eval/evaluate.h"
#include "train/store/checkpoint.h"
#include "train/store/run_folder.h"

namespace hg {
namespace {

struct Prediction {
  std::string name;
  std::int64_t label = 0;
  double probability = 0;
  std::optional<Box> box;  // in pixels of the image, within it
};

struct Predictor {
  const LoadedModel& loaded;
  std::optional<PatchSelection> selection;
  bool finds_box;

  Prediction operator()(const Image& image) const;
};

// From (cx, cy, w, h) in parts of the image's sides.
Box in_pixels(const float* box, const Image& image) {
  const auto place = [](float v, int extent) {
    return std::clamp(v, 0.0f, 1.0f) * static_cast<float>(extent);
  };
  const float x = box[0], y = box[1], half_w = box[2] / 2, half_h = box[3] / 2;
  return {place(x - half_w, image.width), place(y - half_h, image.height),
          place(x + half_w, image.width), place(y + half_h, image.height)};
}

Prediction Predictor::operator()(const Image& image) const {
  const nn::Vit& model = loaded.model;
  const nn::VitOptions& o = model.options();
  const ModelInput input =
      to_input(image, static_cast<int>(o.img_size), static_cast<int>(o.channels),
               loaded.card.normalization, selection);
  const Tensor features =
      model.features(to_device(input.images, o.device), {}, to_device(input.keep, o.device));
  const Tensor p = on_host(softmax(model.classify(features)));
  const std::int64_t label = most_likely(p.data<float>(), o.classes);
  const auto index = static_cast<std::size_t>(label);
  const std::vector<std::string>& names = loaded.card.class_names;
  Prediction made{index < names.size() ? names[index] : std::to_string(label),
                  label,
                  p.data<float>()[label],
                  {}};
  if (finds_box) made.box = in_pixels(on_host(model.boxes(features)).data<float>(), image);
  return made;
}

// folder/stem.png, or -2, -3, ... where that is taken: no drawing replaces another.
std::string fresh_png(const std::string& folder, const std::string& file) {
  const std::string stem = folder + "/" + std::filesystem::path(file).stem().string();
  std::string path = stem + ".png";
  for (int i = 2; std::filesystem::exists(path); ++i) path = fmt::format("{}-{}.png", stem, i);
  return path;
}

std::string draw(Image image, const Box& box, const std::string& folder, const std::string& file) {
  draw_box(image, box);
  const Bytes png = encode_png(image);
  const std::string path = fresh_png(folder, file);
  write_file(path, {reinterpret_cast<const char*>(png.data()), png.size()});
  return path;
}

void print(const std::string& file, const Prediction& p, const std::string& drawing) {
  fmt::print("{}: {} ({:.1f} %)", file, p.name, 100 * p.probability);
  if (p.box)
    fmt::print(", box ({:.1f}, {:.1f}) to ({:.1f}, {:.1f})", p.box->x0, p.box->y0, p.box->x1,
               p.box->y1);
  fmt::print("{}{}\n", drawing.empty() ? "" : ", drawn in ", drawing);
}

nlohmann::ordered_json to_json(const std::string& file, const Prediction& p,
                               const std::string& drawing) {
  nlohmann::ordered_json json{
      {"file", file}, {"class", p.name}, {"label", p.label}, {"probability", p.probability}};
  if (p.box) json["box"] = {p.box->x0, p.box->y0, p.box->x1, p.box->y1};
  if (!drawing.empty()) json["drawing"] = drawing;
  return json;
}

}  // namespace

int predict_command(const PredictOptions& options) {
  PredictOptions resolved = options;
  resolved.config = RunFolder{options.run}.config();
  const Config config = resolved.load();
  const std::string weights = RunFolder{options.run}.model();
  usage_require(options.draw.empty() || detects(config), "--draw",
                "needs a model that finds boxes, but the last phase of {} is \"{}\"", options.run,
                config.phases.back().kind);
  const LoadedModel loaded = load_model(weights, config);
  usage_require(!loaded.card.normalization.mean.empty(), weights,
                "does not say how pixels are normalised");
  if (!options.draw.empty()) make_folder(options.draw);
  const Predictor predict{loaded, patch_selection(config, config.phases.back(), Split::test),
                          detects(config)};
  options.tell_device(config);
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const std::string& file : options.images) {
    const Image image = blame_input("", [&] { return load_image(file); });
    const Prediction p = predict(image);
    const std::string drawing = options.draw.empty() ? "" : draw(image, *p.box, options.draw, file);
    all.push_back(to_json(file, p, drawing));
    if (!options.json) print(file, p, drawing);
  }
  if (options.json) fmt::print("{}\n", nlohmann::ordered_json{{"predictions", all}}.dump());
  return 0;
}

}  // namespace hg
