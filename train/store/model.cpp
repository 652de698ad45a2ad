#include "train/store/model.h"

#include <algorithm>

#include "nn/attention/prune.h"
#include "tensor/base/usage_error.h"
#include "tensor/transfer.h"
#include "train/config/phase_kind.h"
#include "train/store/foreign_names.h"

namespace hg {

Safetensors read_model(const std::string& path) {
  Safetensors file = read_safetensors(path);
  take_timm_names(file, path);
  return file;
}

nn::VitOptions vit_options(const Config& config, const Safetensors& weights,
                           const std::string& source) {
  nn::VitOptions options = vit_options(config);
  const auto mask_of = [&](std::int64_t block) {
    return weights.tensors.find(fmt::format("blocks.{}.attn.mask", block));
  };
  if (mask_of(0) == weights.tensors.end()) return options;
  const nn::AttentionTraits traits = nn::attention_traits(options.attention);
  usage_require(traits.priors || traits.pruned, source,
                "holds masks of pruned attention, but model.attention is \"{}\"",
                options.attention.variant);
  options.attention.variant = "fiak_pruned";
  for (std::int64_t i = 0; i < options.depth; ++i) {
    const auto mask = mask_of(i);
    usage_require(mask != weights.tensors.end(), source, "blocks.{}.attn.mask is missing", i);
    const Tensor& bits = mask->second;
    const std::int64_t tokens = options.patches() + 1;
    usage_require(bits.rank() == 3 && bits.dim(0) == options.heads && bits.dim(1) == tokens, source,
                  "blocks.{}.attn.mask is {}, expected {} heads of {} tokens", i, bits,
                  options.heads, tokens);
    options.supports.push_back(blame_input(fmt::format("{}: blocks.{}.attn.mask", source, i),
                                           [&] { return nn::support_of(bits); }));
  }
  return options;
}

void load_weights(const nn::Vit& model, const Safetensors& file, const std::string& source,
                  bool foreign) {
  require_finite(file, source);
  const NamedTensors mine = weights_of(model);
  for (const auto& [name, tensor] : file.tensors)
    usage_require(
        is_training_head(name) || std::any_of(mine.begin(), mine.end(),
                                              [&, &own = name](auto& m) { return m.first == own; }),
        source, "{} {} is no parameter of this model", name, tensor);
  const std::vector<nn::Buffer>& buffers = model.parameters().buffers();
  for (const auto& [name, value] : mine) {
    const auto found = file.tensors.find(name);
    if (foreign && found == file.tensors.end() &&
        std::any_of(buffers.begin(), buffers.end(),
                    [&, &own = name](auto& b) { return b.name == own && b.optional; }))
      continue;
    usage_require(found != file.tensors.end(), source, "{} is missing, expected {}", name, value);
    usage_require(found->second.shape() == value.shape(), source, "{} is {}, expected {}", name,
                  found->second, value);
    usage_require(is_float(found->second.dtype()) == is_float(value.dtype()), source,
                  "{} is {}, expected {}", name, found->second, value);
    const Tensor from =
        found->second.dtype() == value.dtype() ? found->second : found->second.to(value.dtype());
    copy_into(value, from);
  }
}

void take_weights(const nn::Vit& model, const Safetensors& before, bool all) {
  if (all) return load_weights(model, before, "state.safetensors");
  for (const auto& [name, value] : weights_of(model)) {
    const auto found = before.tensors.find(name);
    if (is_training_head(name)) continue;
    if (found != before.tensors.end() && found->second.shape() == value.shape() &&
        found->second.dtype() == value.dtype())
      copy_into(value, found->second);
  }
}

bool begins_with_parts(std::string_view name, std::string_view start) {
  if (start.empty() || !name.starts_with(start)) return false;
  return name.size() == start.size() || start.back() == '.' || name[start.size()] == '.';
}

std::vector<nn::Parameter> trained_parameters(const nn::Parameters& parameters,
                                              const std::vector<std::string>& freeze,
                                              const std::string& key) {
  std::vector<nn::Parameter> trained = parameters.all();
  for (const std::string& start : freeze) {
    const auto named = [&](const nn::Parameter& p) { return begins_with_parts(p.name, start); };
    usage_require(std::any_of(parameters.all().begin(), parameters.all().end(), named), key,
                  "\"{}\" is the beginning of no parameter's name", start);
    std::erase_if(trained, named);
  }
  usage_require(!trained.empty(), key, "every parameter is frozen, nothing is left to train");
  return trained;
}

NamedTensors weights_of(const nn::Vit& model) {
  NamedTensors weights;
  for (const nn::Parameter& p : model.parameters().all()) weights.emplace_back(p.name, p.value);
  for (const nn::Buffer& b : model.parameters().buffers()) weights.emplace_back(b.name, b.value);
  return weights;
}

}  // namespace hg
