#include <filesystem>

#include "train/experiment/file.h"
#include "train/experiment/file_table.h"

namespace hg::experiment {
namespace {

namespace fs = std::filesystem;

std::string absolute_path(const std::string& path) {
  return path.empty() ? path : fs::absolute(path).lexically_normal().string();
}

// A path is the one that the program found, from where it runs.
std::string settled(const Setting& setting) {
  const std::string key = key_of(setting.text);
  if (!is_path_key(key)) return setting.text;
  return fmt::format("{}={}", key, toml_string(absolute_path(path_in(setting.text))));
}

std::string set_line(const std::vector<Setting>& settings) {
  if (settings.empty()) return "";
  std::string text = "set = [";
  for (std::size_t i = 0; i < settings.size(); ++i)
    text += (i == 0 ? "" : ", ") + toml_string(settled(settings[i]));
  return text + "]\n";
}

std::string base_line(const std::optional<At<std::string>>& base, const ExperimentFile& file) {
  if (!base) return "";
  for (const BuiltinText& builtin : builtin_configs())
    if (builtin.name == base->value) return fmt::format("base = {}\n", toml_string(base->value));
  return fmt::format("base = {}\n",
                     toml_string(absolute_path(path_from(file.folder, base->value))));
}

std::string real(double value) { return toml_value(Value(value)); }

std::string head_text(const ExperimentFile& file) {
  std::string text = fmt::format("[experiment]\nquestion = {}\n{}", toml_string(file.question),
                                 base_line(file.base, file));
  if (file.repeats) text += fmt::format("repeats = {}\n", *file.repeats);
  if (file.first_seed) text += fmt::format("first_seed = {}\n", *file.first_seed);
  if (file.target_f1) text += fmt::format("target_f1 = {}\n", real(*file.target_f1));
  if (file.margin_points) text += fmt::format("margin_points = {}\n", real(*file.margin_points));
  if (file.goal)
    text += fmt::format("goal = {{ saving_percent = {}, f1_points = {} }}\n",
                        real(file.goal->saving_percent), real(file.goal->f1_points));
  return text + set_line(file.settings);
}

std::string arm_text(const FileArm& arm) {
  std::string text = fmt::format("\n[[arm]]\nname = {}\ntitle = {}\n{}", toml_string(arm.name),
                                 toml_string(arm.title), set_line(arm.settings));
  for (const auto& [scale, settings] : arm.at_scale)
    text += fmt::format("scale.{}.{}", toml_string(scale),
                        settings.empty() ? "set = []\n" : set_line(settings));
  for (std::size_t i = 0; i < arm.phases.value_or(0); ++i) {
    const std::string prefix = fmt::format("phase.{}.", i);
    text += "[[arm.phase]]\n";
    for (const Setting& setting : arm.phase_settings)
      if (setting.text.starts_with(prefix)) text += settled(setting).substr(prefix.size()) + "\n";
  }
  return text;
}

}  // namespace

std::string to_toml(const ExperimentFile& file) {
  std::string text = head_text(file);
  for (const FileScale& scale : file.scales) {
    text += fmt::format("\n[scale.{}]\n{}{}", toml_string(scale.name), base_line(scale.base, file),
                        set_line(scale.settings));
    if (scale.repeats) text += fmt::format("repeats = {}\n", *scale.repeats);
  }
  for (const FileArm& arm : file.arms) text += arm_text(arm);
  if (file.sweep.empty()) return text;
  text += "\n[sweep]\n";
  for (const SweptKey& swept : file.sweep) {
    std::vector<std::string> values;
    for (const Setting& value : swept.values)
      values.push_back(value.text.substr(swept.key.size() + 1));
    text += fmt::format("{} = [{}]\n", toml_string(swept.key), fmt::join(values, ", "));
  }
  return text;
}

}  // namespace hg::experiment
