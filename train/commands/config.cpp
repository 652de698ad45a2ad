// hgtrain config: every key of a configuration, and its value in a given one.
#include <nlohmann/json.hpp>

#include "tensor/base/columns.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/commands/commands.h"
#include "train/config/key.h"

namespace hg {
namespace {

using Json = nlohmann::ordered_json;

struct KeyRow {
  std::string section;  // "train"; of a phase "phase.0", "phase.0.train"
  std::string_view name, meaning;
  const Check* check;
  Value value;
  std::optional<Value> initial;  // none: it follows from other keys
  bool applies;                  // to the configuration's attention, or to the kind of its phase
  bool given = true;             // the value is that of a configuration

  std::string_view type() const {
    constexpr std::string_view kNames[] = {"bool",          "int",           "float",
                                           "string",        "int or float",  "list of int",
                                           "list of float", "list of string"};
    static_assert(std::size(kNames) == std::variant_size_v<Value>);
    return kNames[value.index()];
  }
};

// None where the key cannot be set to it: then it stands for what follows from other keys.
std::optional<Value> default_of(const Check& check, const Value& initial) {
  try {
    std::visit([&](const auto& typed) { check_value(check, typed, ""); }, initial);
    return initial;
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

template <class Section>
Section defaults_in(const Config& config, bool in_phase) {
  if constexpr (std::is_same_v<Section, DataConfig>)
    return in_phase ? config.data : Section();
  else if constexpr (std::is_same_v<Section, TrainConfig>)
    return in_phase ? config.train : Section();
  else
    return {};
}

std::vector<KeyRow> rows_of(const Config& config) {
  std::vector<KeyRow> rows;
  for_each_section_and_phase(config, [&]<class Section>(const std::string& name,
                                                        const Section& section) {
    std::string_view variant = config.model.attention;
    if constexpr (std::is_same_v<Section, sections::PhaseOptions>) variant = section.kind;
    const Section defaults = defaults_in<Section>(config, name.starts_with("phase."));
    for (const Key<Section>& key : keys_of<Section>())
      rows.push_back({name, key.name, key.meaning, &key.check, key.get(section),
                      default_of(key.check, key.get(defaults)), is_option_of(key.check, variant)});
  });
  return rows;
}

// A configuration with nothing but defaults, of one phase that stands for all.
std::vector<KeyRow> rows_of_any() {
  Config config;
  config.phases.push_back(phase_of(config));
  std::vector<KeyRow> rows = rows_of(config);
  for (KeyRow& row : rows) {
    if (row.section.starts_with("phase.0")) row.section.replace(6, 1, "N");
    row.applies = true, row.given = false;
  }
  return rows;
}

Json json_of(const std::optional<Value>& value) {
  if (!value) return nullptr;
  return std::visit(
      []<class T>(const T& typed) -> Json {
        if constexpr (std::is_same_v<T, CountOrFraction>)
          return typed.is_fraction ? Json(typed.value) : Json(typed.of(0));
        else
          return typed;
      },
      *value);
}

void print_json(const std::vector<KeyRow>& rows) {
  Json keys = Json::array();
  for (const KeyRow& row : rows) {
    keys.push_back({{"key", fmt::format("{}.{}", row.section, row.name)},
                    {"type", row.type()},
                    {"default", json_of(row.initial)},
                    {"choices", row.check->choices},
                    {"meaning", row.meaning},
                    {"of", words(row.check->variants)}});
    if (row.given) keys.back()["value"] = json_of(row.value);
  }
  fmt::print("{}\n", Json{{"keys", keys}}.dump());
}

constexpr std::size_t kLeft = 28, kWidest = 98;  // of the names; of a line

std::size_t line_columns() {
  const std::size_t columns = columns_of(stdout);
  return columns == 0 ? kWidest : std::min(columns, kWidest);
}

// "update rule (string: adamw, sgd; default "adamw")"
std::string description(const KeyRow& row) {
  std::string facts(row.type());
  if (!row.check->choices.empty())
    facts += fmt::format(": {}", fmt::join(row.check->choices, ", "));
  if (!row.check->variants.empty())
    facts += fmt::format("; with {} = {}", row.section == "attention" ? "model.attention" : "kind",
                         fmt::join(words(row.check->variants), ", "));
  if (row.initial && row.initial != row.value) facts += "; default " + toml_value(*row.initial);
  return fmt::format("{} ({})", row.meaning, facts);
}

void print_row(const KeyRow& row) {
  std::string left = fmt::format("  {}", row.name);
  if (row.initial || row.given) left += " = " + toml_value(row.value);
  fmt::print("{}\n", hanging(left, description(row), line_columns(), kLeft));
}

// What a phase has of [data] and [train] is shown where it differs.
bool is_shown(const KeyRow& row) {
  const bool overrides = row.section.ends_with(".data") || row.section.ends_with(".train");
  return row.applies && !(overrides && row.value == row.initial);
}

void print_text(const std::vector<KeyRow>& rows) {
  std::string section;
  for (const KeyRow& row : rows) {
    if (!is_shown(row)) continue;
    if (row.section != section) fmt::print("{}[{}]\n", section.empty() ? "" : "\n", row.section);
    section = row.section;
    print_row(row);
  }
  fmt::print("\n{}\n",
             folded("Phases are tables [[phase]], numbered from 0. [phase.data] and [phase.train] "
                    "below one have the keys of [data] and [train], for that phase alone (--set "
                    "phase.0.train.epochs=3).",
                    line_columns(), 0));
}

}  // namespace

int config_command(const ConfigOptions& options) {
  const bool given = !options.config.empty();
  usage_require(given || options.settings.empty(), "--set", "expected with CONFIG alone");
  const std::vector<KeyRow> rows =
      given ? rows_of(load_config(options.config, options.settings)) : rows_of_any();
  if (options.json)
    print_json(rows);
  else
    print_text(rows);
  return 0;
}

}  // namespace hg
