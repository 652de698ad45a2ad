#include <fmt/format.h>

#include "tensor/base/text.h"
#include "train/config/key.h"

namespace hg {
namespace {

std::string toml_text(bool value) { return value ? "true" : "false"; }
std::string toml_text(std::int64_t value) { return fmt::format("{}", value); }
// The shortest text that reads back as the same double, always recognisable as a float.
std::string toml_text(double value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}
std::string toml_text(const std::string& value) { return toml_string(value); }
std::string toml_text(CountOrFraction value) {
  return value.is_fraction ? toml_text(value.value)
                           : toml_text(static_cast<std::int64_t>(value.value));
}
template <class T>
std::string toml_text(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += (text.empty() ? "" : ", ") + toml_text(value);
  return "[" + text + "]";
}

// " # what the head reads (cls, mean)"
std::string comment_on(const Check& check, std::string_view meaning) {
  if (check.choices.empty()) return fmt::format("  # {}", meaning);
  return fmt::format("  # {} ({})", meaning, fmt::join(check.choices, ", "));
}

// One line a key that the variant has and, where there is a base, that differs from it.
template <class Section>
std::string lines_of(const Section& section, std::string_view variant = "",
                     const Section* base = nullptr) {
  std::string text;
  for (const Key<Section>& key : keys_of<Section>()) {
    const std::string value = toml_value(key.get(section));
    if (!is_option_of(key.check, variant)) continue;
    if (base != nullptr && value == toml_value(key.get(*base))) continue;
    text += fmt::format("{} = {}{}\n", key.name, value, comment_on(key.check, key.meaning));
  }
  return text;
}

std::string phase_text(const PhaseConfig& phase, const Config& config) {
  std::string text = "\n[[phase]]\n" + lines_of(options_of(phase), phase.kind);
  const std::string data = lines_of(phase.data, "", &config.data);
  const std::string train = lines_of(phase.train, "", &config.train);
  if (!data.empty()) text += "\n[phase.data]\n" + data;
  if (!train.empty()) text += "\n[phase.train]\n" + train;
  return text;
}

}  // namespace

std::string toml_value(const Value& value) {
  return std::visit([](const auto& typed) { return toml_text(typed); }, value);
}

std::string toml_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      quoted += std::string("\\") + c;
    else if (static_cast<unsigned char>(c) < ' ' || c == 127)
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else
      quoted += c;
  }
  return quoted + '"';
}

// What a phase has in common with [data] and [train] stands only there, so that a change there (or
// by --set) still reaches the phase.
std::string to_toml(const Config& config) {
  std::string text =
      "# The whole configuration of a run: `hgtrain train` on this file repeats it.\n";
  for_each_section(config, [&](const char* name, const auto& section) {
    text += fmt::format("\n[{}]\n{}", name, lines_of(section, config.model.attention));
  });
  if (config.phases.size() == 1 && config.phases[0] == phase_of(config)) return text;
  for (const PhaseConfig& phase : config.phases) text += phase_text(phase, config);
  return text;
}

}  // namespace hg
