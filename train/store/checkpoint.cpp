#include "train/store/checkpoint.h"

#include <bit>
#include <nlohmann/json.hpp>

#include "tensor/backend.h"
#include "tensor/base/json_value.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/store/run_folder.h"

namespace hg {
namespace {

using Json = nlohmann::ordered_json;
using Metadata = std::map<std::string, std::string>;

// One list of fields for both directions. Doubles keep their bits.
template <class Field>
void visit(Position& p, std::int64_t& optimizer_steps, Field field) {
  field("phase", p.phase);
  field("epoch", p.epoch);
  field("batch", p.batch);
  field("rows", p.rows);
  field("images", p.images);
  field("epoch_images", p.epoch_images);
  field("epoch_tokens", p.epoch_tokens);
  field("unscored_images", p.unscored_images);
  field("flops", p.flops);
  field("flops_matmul", p.flops_matmul);
  field("flops_before_epoch", p.flops_before_epoch);
  field("epoch_loss", p.epoch_loss);
  field("epoch_sparsity", p.epoch_sparsity);
  field("seconds", p.seconds);
  field("epoch_seconds", p.epoch_seconds);
  field("energy_before_epoch_uj", p.energy_before_epoch_uj);
  field("forecast_step", p.forecast.step);
  field("forecast_j", p.forecast.energy_j.value);
  field("forecast_low_j", p.forecast.energy_j.low);
  field("forecast_high_j", p.forecast.energy_j.high);
  field("optimizer_steps", optimizer_steps);
}

struct Writer {
  Metadata& to;
  template <class T>
  void operator()(const char* name, T value) const {
    to[name] = std::to_string(std::bit_cast<std::uint64_t>(value));
  }
};

struct Reader {
  const Metadata& from;
  const std::string& source;
  template <class T>
  void operator()(const char* name, T& value) const {
    const auto found = from.find(name);
    usage_require(found != from.end(), source, "no {} in its metadata: not a run's state", name);
    const auto bits = parse_number<std::uint64_t>(found->second);
    usage_require(bits.has_value(), source, "{} is {}, expected a number", name,
                  excerpt(found->second));
    value = std::bit_cast<T>(*bits);
  }
};

void check_position(const Position& p, std::int64_t steps, const std::string& source) {
  for (const std::int64_t v :
       {p.phase, p.epoch, p.batch, p.rows, p.images, p.epoch_images, p.epoch_tokens,
        p.unscored_images, p.energy_before_epoch_uj, p.energy_saved_uj, p.forecast.step, steps})
    usage_require(v >= 0, source, "a negative count in its metadata");
}

// state.safetensors holds the weights, and what is said of them, under "model.".
constexpr std::string_view kModel = "model.";

constexpr std::string_view kFigure = "figure.";
constexpr const char* kEnergySaved = "energy_saved_uj";  // older states have none: it was all

std::string in_state(const std::string& name) { return std::string(kModel) + name; }

template <class Value>
void split(const std::map<std::string, Value>& from, std::map<std::string, Value>& of_model,
           std::map<std::string, Value>& rest) {
  for (const auto& [name, value] : from)
    if (name.starts_with(kModel))
      of_model.emplace(name.substr(kModel.size()), value);
    else
      rest.emplace(name, value);
}

}  // namespace

void save_state(const std::string& folder, const ModelWeights& weights, const NamedTensors& moments,
                std::int64_t steps, const Position& position) {
  NamedTensors tensors;
  for (const auto& [name, value] : weights.tensors) tensors.emplace_back(in_state(name), value);
  for (const auto& moment : moments) tensors.push_back(moment);
  Metadata metadata;
  for (const auto& [name, text] : weights.metadata) metadata.emplace(in_state(name), text);
  Position copy = position;
  visit(copy, steps, Writer{metadata});
  Writer{metadata}(kEnergySaved, position.energy_saved_uj);
  for (const auto& [name, value] : position.figures)
    Writer{metadata}((std::string(kFigure) + name).c_str(), value);
  write_safetensors(RunFolder{folder}.state(), tensors, metadata);
}

namespace {

RunState state_in(const Safetensors& file, const std::string& source) {
  RunState state;
  state.source = source;
  visit(state.position, state.steps, Reader{file.metadata, state.source});
  state.position.energy_saved_uj = state.position.energy_before_epoch_uj;
  if (file.metadata.contains(kEnergySaved))
    Reader{file.metadata, state.source}(kEnergySaved, state.position.energy_saved_uj);
  for (const auto& [name, text] : file.metadata)
    if (name.starts_with(kFigure))
      Reader{file.metadata, state.source}(name.c_str(),
                                          state.position.figures[name.substr(kFigure.size())]);
  check_position(state.position, state.steps, state.source);
  require_finite(file, state.source);
  split(file.tensors, state.weights.tensors, state.moments.tensors);
  split(file.metadata, state.weights.metadata, state.moments.metadata);
  return state;
}

}  // namespace

RunState load_state(const std::string& folder) {
  const std::string path = RunFolder{folder}.state();
  return state_in(read_safetensors(path), path);
}

RunState parse_state(std::string_view bytes, const std::string& source) {
  return state_in(parse_safetensors(bytes, source), source);
}

void save_model(const std::string& folder, const ModelWeights& weights, const ModelCard& card) {
  Metadata metadata = weights.metadata;
  metadata["class_names"] = Json(card.class_names).dump();
  metadata["mean"] = Json(card.normalization.mean).dump();
  metadata["stddev"] = Json(card.normalization.stddev).dump();
  write_safetensors(RunFolder{folder}.model(), weights.tensors, metadata);
}

namespace {

std::vector<JsonValue> list_in(const Metadata& metadata, const char* name,
                               const std::string& path) {
  const auto found = metadata.find(name);
  usage_require(found != metadata.end(), path, "no {} in its metadata", name);
  return JsonValue(found->second, fmt::format("{}: {}", path, name)).items();
}

}  // namespace

LoadedModel load_model(const std::string& path, const Config& config) {
  const Safetensors file = read_model(path);
  LoadedModel loaded{nn::Vit(vit_options(config, file, path), 0), {}};
  load_weights(loaded.model, file, path);
  if (!file.metadata.contains("class_names")) return loaded;
  ModelCard& card = loaded.card;
  for (const JsonValue& name : list_in(file.metadata, "class_names", path))
    card.class_names.push_back(printable_utf8(name.text()));
  for (const JsonValue& mean : list_in(file.metadata, "mean", path))
    card.normalization.mean.push_back(static_cast<float>(mean.number()));
  for (const JsonValue& stddev : list_in(file.metadata, "stddev", path))
    card.normalization.stddev.push_back(static_cast<float>(stddev.number()));
  const auto channels = static_cast<std::size_t>(loaded.model.options().channels);
  usage_require(
      card.normalization.mean.size() == channels && card.normalization.stddev.size() == channels,
      path, "normalisation of {} channels for a model of {}", card.normalization.mean.size(),
      channels);
  return loaded;
}

}  // namespace hg
