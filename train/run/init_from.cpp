#include "train/run/init_from.h"

#include <algorithm>

#include "tensor/base/usage_error.h"
#include "train/config/phase_kind.h"
#include "train/store/run_folder.h"

namespace hg {
namespace {

// Whether the first phase pays no attention to what the file says of it.
bool begins_anew(const Config& config, const std::string& name) {
  const PhaseConfig& first = config.phases[0];
  const auto new_parts = kind_of(first).new_parts;
  if (!new_parts) return false;
  const std::vector<std::string> parts = new_parts(config, first);
  return std::any_of(parts.begin(), parts.end(),
                     [&](const std::string& part) { return begins_with_parts(name, part); });
}

void check_shapes(const InitialWeights& init, const Config& config) {
  const nn::Vit model(vit_options(config, init.weights, init.source), 0, true);
  bool any = false;
  for (const auto& [name, value] : weights_of(model)) {
    const auto found = init.weights.tensors.find(name);
    if (found == init.weights.tensors.end() || begins_anew(config, name)) continue;
    usage_require(found->second.shape() == value.shape() && found->second.dtype() == value.dtype(),
                  init.source, "{} is {}, expected {}", name, found->second, value);
    any = true;
  }
  usage_require(any, init.source, "holds no tensor that this model could begin with");
}

std::string line_on(const std::string& source, const std::string& what,
                    const std::vector<std::string>& names) {
  return fmt::format("{}: {}: {}", source, what, fmt::join(names, ", "));
}

}  // namespace

std::optional<InitialWeights> initial_weights(const Config& config) {
  if (config.run.init_from.empty()) return std::nullopt;
  InitialWeights init{{}, model_file(config.run.init_from)};
  init.weights = read_safetensors(init.source);
  require_finite(init.weights, init.source);
  for (const char* of_its_data : {"class_names", "mean", "stddev"})
    init.weights.metadata.erase(of_its_data);
  check_shapes(init, config);
  return init;
}

std::vector<std::string> differences(const InitialWeights& init, const Config& config,
                                     const NamedTensors& model) {
  std::vector<std::string> missing, extra, lines;
  const auto& file = init.weights.tensors;
  for (const auto& [name, value] : model)
    if (!file.contains(name) && !begins_anew(config, name)) missing.push_back(name);
  for (const auto& [name, value] : file)
    if (std::none_of(model.begin(), model.end(), [&](auto& m) { return m.first == name; }))
      extra.push_back(name);
  if (!missing.empty()) lines.push_back(line_on(init.source, "does not have", missing));
  if (!extra.empty()) lines.push_back(line_on(init.source, "has beside, not used", extra));
  return lines;
}

}  // namespace hg
