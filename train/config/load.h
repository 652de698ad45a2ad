// What reading a configuration leaves for the checks between keys. Private to
// train/config and the kinds of phases.
#pragma once

#include <map>

#include "train/config/config.h"

namespace hg {

// Where each key that was given comes from: "file.toml:12", or "--set".
struct Origins {
  std::string source;  // of what was not given
  std::map<std::string, std::string> of_key;

  bool given(const std::string& key) const { return of_key.contains(key); }
  // "file.toml:12: train.epochs", the beginning of a message
  std::string who(const std::string& key) const {
    const auto it = of_key.find(key);
    return (it == of_key.end() ? source : it->second) + ": " + key;
  }
};

// Fills in what follows from other keys, and checks the whole.
void resolve(Config& config, const Origins& origins);

// Throws UsageError for settings that contradict each other.
void check(const Config& config, const Origins& origins);

}  // namespace hg
