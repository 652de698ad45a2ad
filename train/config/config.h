// Configuration of a run: typed sections whose keys, defaults and checks are the rows of
// keys.inc. It comes from a TOML file or a built-in configuration, then --set.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/patch_select.h"
#include "nn/attention/prune.h"
#include "nn/masked_patches.h"
#include "tensor/ops/triplet.h"

namespace hg {

// A count (TOML integer) or a fraction of what there is (TOML float).
struct CountOrFraction {
  double value = 0;
  bool is_fraction = false;

  static CountOrFraction count(std::int64_t n) { return {static_cast<double>(n), false}; }
  static CountOrFraction fraction(double share) { return {share, true}; }
  // How many of n: 0.7 of 196 are 138. The small term keeps 0.07 of 100 at 7.
  std::int64_t of(std::int64_t n) const {
    return static_cast<std::int64_t>(is_fraction ? std::ceil(value * static_cast<double>(n) - 1e-9)
                                                 : value);
  }
  bool operator==(const CountOrFraction&) const = default;
};

namespace sections {
using Bool = bool;
using Int = std::int64_t;
using Float = double;
using String = std::string;
using Ints = std::vector<Int>;
using Floats = std::vector<Float>;
using Strings = std::vector<String>;

// struct RunConfig { ... std::int64_t seed = 1; ... }; and so on
#define HG_SECTION(Type) \
  struct Type {          \
    bool operator==(const Type&) const = default;
#define HG_KEY(type, name, initial, check, meaning) type name = initial;
#define HG_ENUM(type, ...) enum class type { __VA_ARGS__ };
#define HG_END \
  }            \
  ;
#include "train/config/keys.inc"
}  // namespace sections

using sections::AttentionConfig;
using sections::DataConfig;
using sections::DeviceConfig;
using sections::LossConfig;
using sections::MergeConfig;
using sections::ModelConfig;
using sections::RunConfig;
using sections::SelectConfig;
using sections::TrainConfig;

// A phase with the data and training settings that hold in it: those of [data] and [train], unless
// [phase.data] and [phase.train] below its [[phase]] say otherwise.
struct PhaseConfig : sections::PhaseOptions {
  DataConfig data;
  TrainConfig train;
  // pretrain: of so many patches, rounded half up, but at least one.
  std::int64_t masked_of(std::int64_t patches) const {
    const double exact = mask_ratio * static_cast<double>(patches);
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(exact + 0.5)));
  }
  bool operator==(const PhaseConfig&) const = default;
};

struct Config {
  RunConfig run;
  DeviceConfig device;
  DataConfig data;
  ModelConfig model;
  AttentionConfig attention;
  MergeConfig merge;
  SelectConfig select;
  LossConfig loss;
  TrainConfig train;
  std::vector<PhaseConfig> phases;  // at least one
  bool operator==(const Config&) const = default;
};

// A TOML file, or the name of a built-in configuration, with settings "section.key=value" on top
// (a phase's are "phase.0.mask_ratio=0.2", "phase.0.train.epochs=3"). The result is resolved:
// everything that follows from something else is filled in. Throws UsageError.
Config load_config(const std::string& path_or_name, const std::vector<std::string>& settings = {});

// The same from TOML text; `source` names it in messages, its stem is the default of run.name.
Config parse_config(std::string_view toml, const std::string& source,
                    const std::vector<std::string>& settings = {});

// A configuration as text. Paths in it start from `folder`; empty: from where the program runs.
struct ConfigText {
  std::string toml, source, folder = "";
};
// "section.key=value" on top of a configuration, and where it stands, for messages.
struct Setting {
  std::string text, origin = "--set";
};
// With `phases`, so many phases take the place of the text's own; settings fill them.
Config parse_config(const ConfigText& text, const std::vector<Setting>& settings,
                    std::optional<std::size_t> phases = {});

// The key of a setting: "section.key".
std::string key_of(const std::string& setting);

// The whole resolved configuration: parse_config() of it gives an equal Config.
std::string to_toml(const Config& config);

// The first key in which they differ: "train.epochs = 5, not 3"; empty: none.
std::string first_difference(const Config& a, const Config& b);

// The keys in which configurations differ, each with the values they have; "-": it has no such key.
struct DifferentKey {
  std::string key;
  std::vector<std::string> values;
};
std::vector<DifferentKey> different_keys(const std::vector<Config>& configs);

// A file that the program holds: its name without ".toml", and its text.
struct BuiltinText {
  std::string_view name, toml;
};
const std::vector<BuiltinText>& builtin_configs();

// The text of a file, or of the built-in one of this name. Throws UsageError, which begins with
// `who`, where there is neither; `what` says what they are texts of.
struct BuiltinOrFile {
  std::string toml;
  bool builtin = false;
};
BuiltinOrFile find_text(const std::string& path_or_name, const std::vector<BuiltinText>& builtin,
                        const std::string& who, const char* what);

}  // namespace hg
