// hgtrain predict: class and probability of image files.
#include <nlohmann/json.hpp>

#include "data/image_file.h"
#include "tensor/ops/softmax.h"
#include "train/checkpoint.h"
#include "train/commands/commands.h"
#include "train/evaluate.h"
#include "train/selection.h"
#include "train/usage_error.h"

namespace hg {
namespace {

struct Prediction {
  std::string file, name;
  std::int64_t label = 0;
  double probability = 0;
};

Prediction predict(const nn::Vit& model, const ModelCard& card,
                   const std::optional<PatchSelection>& selection, const std::string& file) {
  Image image;
  try {
    image = load_image(file);
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
  const nn::VitOptions& o = model.options();
  const ModelInput input = to_input(image, static_cast<int>(o.img_size),
                                    static_cast<int>(o.channels), card.normalization, selection);
  const Tensor p = softmax(model.logits(input.images, {}, input.keep));
  const std::int64_t label = most_likely(p.data<float>(), o.classes);
  const auto index = static_cast<std::size_t>(label);
  return {file, index < card.class_names.size() ? card.class_names[index] : std::to_string(label),
          label, p.data<float>()[label]};
}

}  // namespace

int predict_command(const PredictOptions& options) {
  PredictOptions resolved = options;
  resolved.config = options.run + "/config.toml";
  const Config config = resolved.load();
  const std::string weights = options.run + "/model.safetensors";
  const auto [model, card] = load_model(weights, config);
  usage_require(!card.normalization.mean.empty(), weights,
                "does not say how pixels are normalised");
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const std::string& file : options.images) {
    const Prediction p = predict(model, card, patch_selection(config, Split::test), file);
    all.push_back(
        {{"file", p.file}, {"class", p.name}, {"label", p.label}, {"probability", p.probability}});
    if (!options.json) fmt::print("{}: {} ({:.1f} %)\n", p.file, p.name, 100 * p.probability);
  }
  if (options.json) fmt::print("{}\n", nlohmann::ordered_json{{"predictions", all}}.dump());
  return 0;
}

}  // namespace hg
