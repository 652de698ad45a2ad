// The rows of keys.inc as values: a key's name, its field in the section's struct, what it
// may hold. Private to train/config.
#pragma once

#include <limits>
#include <variant>

#include "train/config/config.h"

namespace hg {

// What a key may hold; for lists, each element.
struct Check {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;
  std::vector<std::string> choices{};         // of a string
  bool (*valid)(std::string_view) = nullptr;  // of a string
  std::string_view expected = "";             // in words, where low and high don't say it
  bool path = false;                          // a string that names a file or folder
  std::string_view variants = "";  // of model.attention or phase.kind that have the key; "" all

  Check of(std::string_view names) const {
    Check check = *this;
    check.variants = names;
    return check;
  }
};

// What a key can hold; of an enum, the name of its value.
using Value =
    std::variant<bool, std::int64_t, double, std::string, CountOrFraction,
                 std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>>;

template <class Section>
struct Key {
  std::string_view name;
  Value (*get)(const Section&);
  void (*set)(Section&, const Value&);  // of its type, and past its check
  Check check;
  std::string_view meaning;
};

// What people and shells want to know of a key.
struct KeyText {
  std::string name;                  // with its section
  std::vector<std::string> choices;  // of a bool true and false; empty: anything
  bool path = false;
  std::string_view meaning;
};
// All keys, those of phases as `phase` has them ("phase.0").
std::vector<KeyText> key_texts(const std::string& phase = "phase.0");
// "phase.3" of "phase.3.train.epochs"; "phase.0" of what names no phase.
std::string phase_part(std::string_view name);

bool is_path_key(std::string_view name);  // by its full name
// A path that a file in `folder` names, as the program finds it.
std::string path_from(const std::string& folder, const std::string& path);

// Whether attention variant or kind of phase `variant` has the key.
bool is_option_of(const Check& check, std::string_view variant);

template <class Section>
const std::vector<Key<Section>>& keys_of();
#define HG_SECTION(Type) \
  template <>            \
  const std::vector<Key<sections::Type>>& keys_of<sections::Type>();
#define HG_KEY(type, name, initial, check, meaning)
#define HG_END
#include "train/config/keys.inc"

// Throws UsageError, naming origin and key, unless the value passes the check.
void check_value(const Check& check, bool value, const std::string& who);
void check_value(const Check& check, std::int64_t value, const std::string& who);
void check_value(const Check& check, double value, const std::string& who);
void check_value(const Check& check, const std::string& value, const std::string& who);
void check_value(const Check& check, CountOrFraction value, const std::string& who);
template <class T>
void check_value(const Check& check, const std::vector<T>& values, const std::string& who) {
  for (const T& value : values) check_value(check, value, who);
}

// Calls f(name, section) for each section of the configuration but the phases.
template <class Config, class F>
void for_each_section(Config& config, F&& f) {
  f("run", config.run);
  f("device", config.device);
  f("data", config.data);
  f("model", config.model);
  f("attention", config.attention);
  f("merge", config.merge);
  f("select", config.select);
  f("loss", config.loss);
  f("train", config.train);
}

// The keys of a phase that are not those of [data] or [train].
inline sections::PhaseOptions& options_of(PhaseConfig& phase) { return phase; }
inline const sections::PhaseOptions& options_of(const PhaseConfig& phase) { return phase; }

// The same with the sections of each phase after them: "phase.0", "phase.0.data", "phase.0.train".
template <class Config, class F>
void for_each_section_and_phase(Config& config, F&& f) {
  for_each_section(config, f);
  for (std::size_t i = 0; i < config.phases.size(); ++i) {
    const std::string phase = "phase." + std::to_string(i);
    f(phase, options_of(config.phases[i]));
    f(phase + ".data", config.phases[i].data);
    f(phase + ".train", config.phases[i].train);
  }
}

// A supervised phase on the configuration's data and training settings.
inline PhaseConfig phase_of(const Config& config) {
  PhaseConfig phase;
  phase.data = config.data;
  phase.train = config.train;
  return phase;
}

// As a quoted TOML string.
std::string toml_string(std::string_view text);
// As the right-hand side of TOML's key = value.
std::string toml_value(const Value& value);

// The known key that someone who wrote `name` is likely to have meant: a wrong section costs as
// much as one wrong letter.
std::string nearest_key(std::string_view name);
// The key that `name` stands for here or in timm and PyTorch ("lr", "batch-size"); "": none.
std::string key_meant(std::string_view name);

}  // namespace hg
