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

// Whether attention variant or kind of phase `variant` has the key.
bool is_option_of(const Check& check, std::string_view variant);

template <class Section>
const std::vector<Key<Section>>& keys_of();
template <class Section>
std::string_view name_of();  // "train"

#define HG_SECTION(Type, section)                                    \
  template <>                                                        \
  const std::vector<Key<sections::Type>>& keys_of<sections::Type>(); \
  template <>                                                        \
  std::string_view name_of<sections::Type>();
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

// Calls f(section) for each section of the configuration but the phases.
template <class Config, class F>
void for_each_section(Config& config, F&& f) {
  f(config.run);
  f(config.device);
  f(config.data);
  f(config.model);
  f(config.attention);
  f(config.select);
  f(config.loss);
  f(config.train);
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

// The known key that someone who wrote `name` is likely to have meant: a wrong section costs as
// much as one wrong letter.
std::string nearest_key(std::string_view name);

}  // namespace hg
