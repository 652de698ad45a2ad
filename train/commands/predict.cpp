// hgtrain predict: class and probability of image files; of a detector also the box, drawn if asked
// for.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/image_draw.h"
#include "data/image_file.h"
#include "data/image_files.h"
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

using Json = nlohmann::ordered_json;

struct Guess {
  std::string name;
  std::int64_t label = 0;
  double probability = 0;
};

struct Prediction {
  std::vector<Guess> guesses;  // the likeliest first
  std::optional<Box> box;      // in pixels of the image, within it
};

struct Predictor {
  const LoadedModel& loaded;
  std::optional<PatchSelection> selection;
  bool finds_box;
  std::int64_t top;

  Prediction operator()(const Image& image) const;
  std::vector<Guess> guesses(const float* p) const;
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

// Of equal probabilities the lower label comes first, as in evaluation.
std::vector<Guess> Predictor::guesses(const float* p) const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(loaded.model.options().classes));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](auto a, auto b) { return p[a] > p[b]; });
  order.resize(std::min(order.size(), static_cast<std::size_t>(top)));
  const std::vector<std::string>& names = loaded.card.class_names;
  std::vector<Guess> made;
  for (const std::int64_t label : order) {
    const auto index = static_cast<std::size_t>(label);
    made.push_back({index < names.size() ? names[index] : std::to_string(label), label, p[label]});
  }
  return made;
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
  Prediction made{guesses(p.data<float>()), {}};
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
  fmt::print("{}: ", file);
  for (const Guess& guess : p.guesses)
    fmt::print("{}{} ({:.1f} %)", &guess == p.guesses.data() ? "" : ", ", guess.name,
               100 * guess.probability);
  if (p.box)
    fmt::print(", box ({:.1f}, {:.1f}) to ({:.1f}, {:.1f})", p.box->x0, p.box->y0, p.box->x1,
               p.box->y1);
  fmt::print("{}{}\n", drawing.empty() ? "" : ", drawn in ", drawing);
}

Json to_json(const Guess& guess) {
  return {{"class", guess.name}, {"label", guess.label}, {"probability", guess.probability}};
}
Json to_json(const std::string& file, const Prediction& p, const std::string& drawing) {
  Json json{{"file", file}};
  json.update(to_json(p.guesses.front()));
  if (p.guesses.size() > 1)
    for (const Guess& guess : p.guesses) json["top"].push_back(to_json(guess));
  if (p.box) json["box"] = {p.box->x0, p.box->y0, p.box->x1, p.box->y1};
  if (!drawing.empty()) json["drawing"] = drawing;
  return json;
}

// The files themselves, and in the place of a folder the images in it.
std::vector<std::string> files_of(const std::vector<std::string>& given) {
  std::vector<std::string> files;
  for (const std::string& name : given) {
    if (!is_folder(name)) {
      files.push_back(name);
      continue;
    }
    const std::vector<ImageItem> items = images_in(name, 0);
    usage_require(!items.empty(), name, "a folder without images, {}", expected_images());
    for (const ImageItem& item : items) files.push_back(item.path);
  }
  return files;
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
                          detects(config), options.top};
  options.tell_device(config);
  const std::vector<std::string> files = files_of(options.images);
  Json all = Json::array();
  std::size_t bad = 0;
  for (const std::string& file : files) {
    Image image;
    try {
      image = load_image(file);
    } catch (const Error& e) {
      ++bad;
      fmt::print(stderr, "hgtrain: {}\n", e.what());
      all.push_back({{"file", file}, {"error", e.what()}});
      continue;
    }
    const Prediction p = predict(image);
    const std::string drawing = options.draw.empty() ? "" : draw(image, *p.box, options.draw, file);
    all.push_back(to_json(file, p, drawing));
    if (!options.json) print(file, p, drawing);
  }
  if (options.json) fmt::print("{}\n", Json{{"predictions", all}}.dump());
  if (bad > 0 && files.size() > 1)
    fmt::print(stderr, "hgtrain: {} of {} images could not be read\n", bad, files.size());
  return bad == 0 ? 0 : 2;
}

}  // namespace hg
