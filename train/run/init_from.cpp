#include "train/run/init_from.h"

#include <algorithm>

#include "tensor/base/usage_error.h"
#include "train/config/phase_kind.h"
#include "train/run/resample.h"
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

const Tensor& named(const NamedTensors& model, std::string_view name) {
  return std::find_if(model.begin(), model.end(), [&](auto& m) { return m.first == name; })->second;
}

// Classes of another number cannot be these: the head begins anew, as in fine-tuning.
void leave_out_other_head(InitialWeights& init, const NamedTensors& model) {
  const auto file = init.weights.tensors.find("head.weight");
  if (file == init.weights.tensors.end() || file->second.rank() != 2) return;
  const Tensor& own = named(model, "head.weight");
  const std::int64_t classes = file->second.dim(0);
  if (classes == own.dim(0) || file->second.dim(1) != own.dim(1)) return;
  init.notes.push_back(fmt::format("{}: its head is for {} classes, not {}: the head begins anew",
                                   init.source, classes, own.dim(0)));
  for (const char* part : {"head.weight", "head.bias"}) {
    init.weights.tensors.erase(part);
    init.left_out.insert(part);
  }
}

void resample_other_grid(InitialWeights& init, const NamedTensors& model) {
  const auto file = init.weights.tensors.find("pos_embed");
  if (file == init.weights.tensors.end()) return;
  const std::int64_t from = grid_side(file->second), to = grid_side(named(model, "pos_embed"));
  if (from == 0 || to == 0 || from == to || file->second.dtype() != DType::f32) return;
  file->second = resampled_positions(file->second, to);
  init.notes.push_back(fmt::format("{}: pos_embed resampled from {}x{} patches to {}x{}",
                                   init.source, from, from, to, to));
}

void resample_other_patches(InitialWeights& init, const NamedTensors& model) {
  const auto file = init.weights.tensors.find("patch_embed.proj.weight");
  if (file == init.weights.tensors.end() || file->second.dtype() != DType::f32) return;
  const Shape &theirs = file->second.shape(), own = named(model, file->first).shape();
  if (theirs.rank() != 4 || theirs[2] != theirs[3] || theirs[0] != own[0] || theirs[1] != own[1] ||
      theirs[2] == own[2])
    return;
  const std::int64_t from = theirs[2], to = own[2];
  file->second = resampled_patches(file->second, to);
  init.notes.push_back(fmt::format("{}: {} resampled from patches of {}x{} pixels to {}x{}",
                                   init.source, file->first, from, from, to, to));
}

void check_shapes(const InitialWeights& init, const Config& config, const NamedTensors& model) {
  bool any = false;
  for (const auto& [name, value] : model) {
    const auto found = init.weights.tensors.find(name);
    if (found == init.weights.tensors.end() || begins_anew(config, name)) continue;
    usage_require(found->second.shape() == value.shape() && found->second.dtype() == value.dtype(),
                  init.source, "{} is {}, expected {}", name, found->second, value);
    any = true;
  }
  usage_require(any, init.source, "holds no tensor that this model could begin with");
}

void fit(InitialWeights& init, const Config& config, const NamedTensors& model) {
  if (!begins_anew(config, "head.weight")) leave_out_other_head(init, model);
  resample_other_grid(init, model);
  resample_other_patches(init, model);
  check_shapes(init, config, model);
}

std::string line_on(const std::string& source, const std::string& what,
                    const std::vector<std::string>& names) {
  return fmt::format("{}: {}: {}", source, what, fmt::join(names, ", "));
}

}  // namespace

std::optional<InitialWeights> initial_weights(const Config& config) {
  if (config.run.init_from.empty()) return std::nullopt;
  InitialWeights init;
  init.source = model_file(config.run.init_from);
  init.weights = read_model(init.source);
  require_finite(init.weights, init.source);
  for (const char* of_its_data : {"class_names", "mean", "stddev"})
    init.weights.metadata.erase(of_its_data);
  const nn::Vit model(vit_options(config, init.weights, init.source), 0, true);
  fit(init, config, weights_of(model));
  return init;
}

std::vector<std::string> differences(const InitialWeights& init, const Config& config,
                                     const NamedTensors& model) {
  std::vector<std::string> missing, extra, lines = init.notes;
  const auto& file = init.weights.tensors;
  for (const auto& [name, value] : model)
    if (!file.contains(name) && !init.left_out.contains(name) && !begins_anew(config, name))
      missing.push_back(name);
  for (const auto& [name, value] : file)
    if (std::none_of(model.begin(), model.end(), [&](auto& m) { return m.first == name; }))
      extra.push_back(name);
  if (!missing.empty()) lines.push_back(line_on(init.source, "does not have", missing));
  if (!extra.empty()) lines.push_back(line_on(init.source, "has beside, not used", extra));
  return lines;
}

}  // namespace hg
