#include "train/experiment/file_table.h"

#include <algorithm>

namespace hg::experiment {
namespace {

template <class T>
bool all_are(const toml::array& array) {
  return std::all_of(array.begin(), array.end(),
                     [](const toml::node& item) { return item.value_exact<T>().has_value(); });
}

void add_keys(const toml::table& table, const std::string& prefix, std::vector<NamedNode>& keys) {
  for (const auto& [name, node] : table) {
    const std::string full = prefix + std::string(name.str());
    if (const toml::table* inner = node.as_table())
      add_keys(*inner, full + ".", keys);
    else
      keys.emplace_back(full, &node);
  }
}

// "data.root=images" of a file in "here" is "data.root=here/images".
std::string placed(const std::string& text, const std::string& folder) {
  if (text.find('=') == std::string::npos || folder.empty() || !is_path_key(key_of(text)))
    return text;
  return fmt::format("{}={}", key_of(text), toml_string(path_from(folder, path_in(text))));
}

template <class T>
std::optional<T> in_range(const std::optional<At<T>>& found, T low, T high) {
  if (!found) return std::nullopt;
  usage_require(found->value >= low && found->value <= high, found->who,
                "expected a number from {} to {}, got {}", low, high, found->value);
  return found->value;
}

}  // namespace

void refuse_reserved(const Setting& setting) {
  const std::string key = key_of(setting.text);
  usage_require(key != "run.seed", setting.origin,
                "run.seed: expected first_seed in [experiment] instead, as arms share their seeds");
  usage_require(key != "run.name" && key != "run.joule_budget", setting.origin,
                "{}: not for an experiment, whose runs have names of their own and go to their end",
                key);
}

std::string path_in(const std::string& setting) {
  const std::string_view value = std::string_view(setting).substr(setting.find('=') + 1);
  std::string path;
  read_value(SettingValue{std::string(trimmed(value))}, path, key_of(setting));
  return path;
}

Value value_of(const toml::node& node, const std::string& who) {
  if (const auto flag = node.value_exact<bool>()) return *flag;
  if (const auto integer = node.value_exact<std::int64_t>()) return *integer;
  if (const auto real = node.value_exact<double>()) return *real;
  if (const auto text = node.value_exact<std::string>()) return *text;
  const auto list = [&]<class T>(std::vector<T> values) -> Value {
    read_value(node, values, who);
    return values;
  };
  usage_require(node.is_array(), who, "expected a value of a key, got {}", kind_of(node));
  const toml::array& array = *node.as_array();
  if (all_are<std::int64_t>(array)) return list(std::vector<std::int64_t>{});
  if (all_are<std::string>(array)) return list(std::vector<std::string>{});
  return list(std::vector<double>{});
}

void sort_by_place(std::vector<NamedNode>& nodes) {
  std::stable_sort(nodes.begin(), nodes.end(), [](const NamedNode& a, const NamedNode& b) {
    return a.second->source().begin < b.second->source().begin;
  });
}

std::vector<NamedNode> keys_below(const toml::table& table, const std::string& prefix) {
  std::vector<NamedNode> keys;
  add_keys(table, prefix, keys);
  sort_by_place(keys);
  return keys;
}

Table::Table(const std::string& source, const toml::node& node, std::string name)
    : source_(source), name_(std::move(name)), line_(node.source().begin.line) {
  usage_require(node.is_table(), origin_of(node), "{}: expected a table, got {}", name_,
                kind_of(node));
  table_ = node.as_table();
}

std::string Table::setting_origin(const toml::node& node) const {
  return name_.starts_with("arm ") ? fmt::format("{}: {}", origin_of(node), name_)
                                   : origin_of(node);
}

const toml::node* Table::find(const char* key) {
  known_.emplace_back(key);
  return table_->get(key);
}

std::optional<double> Table::number(const char* key, double low, double high) {
  return in_range(get<double>(key), low, high);
}

std::optional<std::int64_t> Table::integer(const char* key, std::int64_t low, std::int64_t high) {
  return in_range(get<std::int64_t>(key), low, high);
}

std::optional<std::string> Table::text(const char* key) {
  const auto found = get<std::string>(key);
  if (!found) return std::nullopt;
  usage_require(!found->value.empty() && printable_utf8(found->value) == found->value, found->who,
                "expected text without control characters, got {}", excerpt(found->value));
  return found->value;
}

std::vector<Setting> Table::settings(const std::string& folder) {
  const toml::node* node = find("set");
  if (node == nullptr) return {};
  std::vector<std::string> texts;
  read_value(*node, texts, who("set", *node));
  std::vector<Setting> settings;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    settings.push_back({placed(texts[i], folder), setting_origin((*node->as_array())[i])});
    refuse_reserved(settings.back());
  }
  return settings;
}

void Table::refuse_others() const {
  for (const auto& [key, node] : *table_)
    if (std::find(known_.begin(), known_.end(), key.str()) == known_.end())
      usage_fail(origin_of(node), "{}.{}: unknown key; did you mean {}?", name_,
                 printable(key.str()), nearest(key.str(), known_));
}

}  // namespace hg::experiment
