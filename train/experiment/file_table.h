// Tables of an experiment file, read key by key with file and line in every message.
#pragma once

#include "train/config/value.h"
#include "train/experiment/file.h"

namespace hg::experiment {

// Refuses keys that an experiment sets itself, and says what to write instead.
void refuse_reserved(const Setting& setting);

// "images" of "data.root=images"
std::string path_in(const std::string& setting);

// A value as a setting takes it.
Value value_of(const toml::node& node, const std::string& who);

using NamedNode = std::pair<std::string, const toml::node*>;

// As they stand in the file; TOML's own order is that of their names.
void sort_by_place(std::vector<NamedNode>& nodes);

// Keys below a table with their full names, as they stand in the file: [train] epochs = 3 and
// "train.epochs" = 3 alike.
std::vector<NamedNode> keys_below(const toml::table& table, const std::string& prefix);

// Keys are asked for by name; those that nobody asked for are unknown.
class Table {
 public:
  // `name` of the table in messages: "experiment", "arm green"
  Table(const std::string& source, const toml::node& node, std::string name);

  std::string origin() const { return fmt::format("{}:{}", source_, line_); }
  std::string origin_of(const toml::node& node) const {
    return fmt::format("{}:{}", source_, node.source().begin.line);
  }
  // "my.toml:12", or "my.toml:12: arm green"
  std::string setting_origin(const toml::node& node) const;

  const toml::node* find(const char* key);

  template <class T>
  std::optional<At<T>> get(const char* key) {
    const toml::node* node = find(key);
    if (node == nullptr) return std::nullopt;
    At<T> found{T{}, who(key, *node)};
    read_value(*node, found.value, found.who);
    return found;
  }
  std::optional<double> number(const char* key, double low, double high);
  std::optional<std::int64_t> integer(const char* key, std::int64_t low, std::int64_t high);
  std::optional<std::string> text(const char* key);
  // Settings, each with its own line; relative paths in them start from `folder`.
  std::vector<Setting> settings(const std::string& folder);

  void refuse_others() const;

 private:
  std::string who(const char* key, const toml::node& node) const {
    return fmt::format("{}: {}.{}", origin_of(node), name_, key);
  }

  const std::string& source_;
  const std::string name_;
  const toml::table* table_;
  const std::size_t line_;
  std::vector<std::string> known_;
};

}  // namespace hg::experiment
