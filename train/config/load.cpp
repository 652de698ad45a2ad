#include "train/config/load.h"

#include <algorithm>
#include <filesystem>

#include "tensor/base/files.h"
#include "train/config/value.h"

namespace hg {
namespace {

constexpr std::size_t kMostPhases = 64;

// Reads a file and settings into a Config, in this order: sections of the file, settings of
// sections, phases of the file on top of the sections, settings of phases.
class Reader {
 public:
  explicit Reader(const ConfigText& text) : folder_(text.folder) { origins_.source = text.source; }

  Config read(const toml::table& file, const std::vector<Setting>& settings,
              std::optional<std::size_t> phases);

 private:
  std::string origin_of(const toml::node& node) const {
    return fmt::format("{}:{}", origins_.source, node.source().begin.line);
  }
  const toml::table& expect_table(const toml::node& node, const std::string& name) const;

  template <class Section>
  void read_section(const toml::node& node, const std::string& prefix, Section& section);
  template <class Given, class Section>
  bool read_key(const Given& given, const std::string& origin, const std::string& prefix,
                std::string_view name, Section& section);
  void read_sections(const toml::table& file);
  void read_phases(const toml::table& file);
  void read_phase(const toml::node& node, std::size_t index);

  void apply(const std::string& key, const SettingValue& value, const std::string& origin);

  const std::string folder_;  // that paths of the file start from
  Config config_;
  Origins origins_;
};

bool is_of_phase(const std::string& key) { return key == "phase" || key.starts_with("phase."); }

[[noreturn]] void unknown_key(const std::string& origin, const std::string& key) {
  usage_fail(origin, "{}: unknown key; did you mean {}?", printable(key), nearest_key(key));
}

const toml::table& Reader::expect_table(const toml::node& node, const std::string& name) const {
  usage_require(node.is_table(), origin_of(node), "{}: expected a table [{}], got {}", name, name,
                kind_of(node));
  return *node.as_table();
}

// False where the section has no such key.
template <class Given, class Section>
bool Reader::read_key(const Given& given, const std::string& origin, const std::string& prefix,
                      std::string_view name, Section& section) {
  for (const Key<Section>& key : keys_of<Section>()) {
    if (key.name != name) continue;
    const std::string full = fmt::format("{}.{}", prefix, name);
    const std::string who = fmt::format("{}: {}", origin, full);
    Value value = key.get(section);
    const bool from_file = std::is_same_v<Given, toml::node>;
    std::visit(
        [&](auto& typed) {
          read_value(given, typed, who);
          check_value(key.check, typed, who);
        },
        value);
    if (from_file && key.check.path) value = path_from(folder_, std::get<std::string>(value));
    key.set(section, value);
    origins_.of_key[full] = origin;
    return true;
  }
  return false;
}

template <class Section>
void Reader::read_section(const toml::node& node, const std::string& prefix, Section& section) {
  for (const auto& [name, value] : expect_table(node, prefix))
    if (!read_key(value, origin_of(value), prefix, name.str(), section))
      unknown_key(origin_of(value), fmt::format("{}.{}", prefix, name.str()));
}

void Reader::read_sections(const toml::table& file) {
  for (const auto& [name, node] : file) {
    if (name == "phase") continue;
    bool known = false;
    std::vector<std::string> sections = {"phase"};
    for_each_section(config_,
                     [&, &name = name, &node = node](const char* known_name, auto& section) {
                       sections.emplace_back(known_name);
                       if (name != known_name) return;
                       known = true;
                       read_section(node, known_name, section);
                     });
    if (known) continue;
    if (!node.is_table()) unknown_key(origin_of(node), std::string(name.str()));
    usage_fail(origin_of(node), "{}: unknown section; did you mean [{}]?", printable(name.str()),
               nearest(name.str(), sections));
  }
}

void Reader::read_phase(const toml::node& node, std::size_t index) {
  PhaseConfig& phase = config_.phases.emplace_back(phase_of(config_));
  const std::string prefix = fmt::format("phase.{}", index);
  for (const auto& [name, value] : expect_table(node, prefix)) {
    if (name == "data")
      read_section(value, prefix + ".data", phase.data);
    else if (name == "train")
      read_section(value, prefix + ".train", phase.train);
    else if (!read_key(value, origin_of(value), prefix, name.str(), options_of(phase)))
      unknown_key(origin_of(value), fmt::format("{}.{}", prefix, name.str()));
  }
}

void Reader::read_phases(const toml::table& file) {
  const toml::node* node = file.get("phase");
  if (node == nullptr) {
    config_.phases.push_back(phase_of(config_));
    return;
  }
  const toml::array* phases = node->as_array();
  usage_require(phases != nullptr, origin_of(*node), "phase: expected tables [[phase]], got {}",
                kind_of(*node));
  usage_require(!phases->empty() && phases->size() <= kMostPhases, origin_of(*node),
                "phase: expected 1 to {} phases, got {}", kMostPhases, phases->size());
  for (std::size_t i = 0; i < phases->size(); ++i) read_phase((*phases)[i], i);
}

// "phase.0.train.epochs" or "train.epochs"
void Reader::apply(const std::string& key, const SettingValue& value, const std::string& origin) {
  const std::size_t dot = std::min(key.rfind('.'), key.size());
  const std::string prefix = key.substr(0, dot), name = key.substr(std::min(dot + 1, key.size()));
  bool known = false, phase_exists = false;
  for_each_section_and_phase(config_, [&](const std::string& its_prefix, auto& section) {
    phase_exists |= is_of_phase(its_prefix) && key.starts_with(its_prefix + ".");
    if (prefix == its_prefix) known = read_key(value, origin, prefix, name, section);
  });
  usage_require(!is_of_phase(key) || phase_exists, origin,
                "{}: expected phase.N.key, where N is 0 to {}", printable(key),
                config_.phases.size() - 1);
  if (!known) unknown_key(origin, key);
}

Config Reader::read(const toml::table& file, const std::vector<Setting>& settings,
                    std::optional<std::size_t> phases) {
  const auto apply_all = [&](bool of_phases) {
    for (const auto& [text, origin] : settings) {
      const std::size_t equals = text.find('=');
      usage_require(equals != std::string::npos && equals > 0, origin,
                    "expected section.key=value, got \"{}\"", printable(text));
      const std::string key = key_of(text);
      if (is_of_phase(key) == of_phases)
        apply(key, {std::string(trimmed(std::string_view(text).substr(equals + 1)))}, origin);
    }
  };
  read_sections(file);
  apply_all(false);
  if (phases)
    config_.phases.assign(*phases, phase_of(config_));
  else
    read_phases(file);
  apply_all(true);
  resolve(config_, origins_);
  return config_;
}

}  // namespace

std::string key_of(const std::string& setting) {
  return std::string(trimmed(std::string_view(setting).substr(0, setting.find('='))));
}

Config parse_config(const ConfigText& text, const std::vector<Setting>& settings,
                    std::optional<std::size_t> phases) {
  return Reader(text).read(toml_or_fail(text.toml, text.source), settings, phases);
}

Config parse_config(std::string_view toml, const std::string& source,
                    const std::vector<std::string>& settings) {
  std::vector<Setting> with_origins;
  for (const std::string& setting : settings) with_origins.push_back({setting});
  return parse_config(ConfigText{std::string(toml), source}, with_origins);
}

BuiltinOrFile find_text(const std::string& path_or_name, const std::vector<BuiltinText>& builtin,
                        const std::string& who, const char* what) {
  std::vector<std::string> names;
  for (const BuiltinText& text : builtin) {
    if (text.name == path_or_name) return {std::string(text.toml), true};
    names.emplace_back(text.name);
  }
  const bool is_path = path_or_name.find_first_of("/.") != std::string::npos;
  std::error_code error;
  usage_require(is_path || std::filesystem::exists(path_or_name, error), who,
                "no such file, nor a built-in {}; did you mean {}? (built in: {})", what,
                nearest(path_or_name, names), fmt::join(names, ", "));
  return {read_text(path_or_name), false};
}

Config load_config(const std::string& path_or_name, const std::vector<std::string>& settings) {
  const std::string toml =
      find_text(path_or_name, builtin_configs(), printable(path_or_name), "configuration").toml;
  return parse_config(toml, path_or_name, settings);
}

}  // namespace hg
