#include <algorithm>
#include <filesystem>

#include "data/open.h"
#include "tensor/base/enum_names.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/config/key.h"
#include "train/config/phase_kind.h"

namespace hg {
namespace {

// A double holds it, and so does every TOML parser.
constexpr double kLargestInt = 1e15;

Check any() { return {}; }
Check path() { return {.path = true}; }
Check range(double low, double high) { return {.low = low, .high = high}; }
Check below_one() { return {.low = 0, .high = 1, .high_open = true}; }
Check share_or_none() { return {.low = 0, .high = 1}; }
Check share() { return {.low = 0, .high = 1, .low_open = true}; }
Check attention_name() { return {.choices = nn::attention_names()}; }
Check dataset_name() {
  Check check;
  for (const DatasetFacts& facts : known_datasets()) check.choices.emplace_back(facts.name);
  return check;
}
Check kind_name() {
  Check check;
  for (const PhaseKind* kind : phase_kinds()) check.choices.emplace_back(kind->name);
  return check;
}
Check file_name() {
  return {.valid =
              [](std::string_view s) {
                return s.size() <= 100 && s != "." && s != ".." &&
                       std::none_of(s.begin(), s.end(), [](unsigned char c) {
                         return c == '/' || c < ' ' || c == 127;
                       });
              },
          .expected = "a name without '/' of at most 100 bytes"};
}
Check country_code() {
  return {.valid =
              [](std::string_view s) {
                return s.size() == 3 &&
                       std::all_of(s.begin(), s.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
              },
          .expected = "three capital letters (ISO 3166 alpha-3)"};
}

std::string expectation(const Check& check, std::string_view what) {
  if (!check.expected.empty()) return std::string(check.expected);
  const bool low = std::isfinite(check.low), high = std::isfinite(check.high);
  std::string text(what);
  if (low) text += fmt::format(" {} {}", check.low_open ? "above" : "of at least", check.low);
  if (low && high) text += " and";
  if (high) text += fmt::format(" {} {}", check.high_open ? "below" : "at most", check.high);
  return text;
}

bool in_range(const Check& check, double value) {
  return std::isfinite(value) && (check.low_open ? value > check.low : value >= check.low) &&
         (check.high_open ? value < check.high : value <= check.high);
}

// A field as a Value, and back. That of an enum is a name; an optional enum may be "none" as well.
template <class T>
struct Field {
  static std::vector<std::string> choices() { return {}; }
  static Value get(const T& field) { return field; }
  static void set(T& field, const Value& value) { field = std::get<T>(value); }
};
template <class T>
requires std::is_enum_v<T>
struct Field<T> {
  static std::vector<std::string> choices() { return {kEnumNames<T>.begin(), kEnumNames<T>.end()}; }
  static Value get(T field) { return std::string(enum_name(field)); }
  static void set(T& field, const Value& value) {
    field = enum_value<T>(std::get<std::string>(value)).value();
  }
};
template <class T>
struct Field<std::optional<T>> {
  static std::vector<std::string> choices() {
    std::vector<std::string> names = Field<T>::choices();
    names.insert(names.begin(), "none");
    return names;
  }
  static Value get(std::optional<T> field) {
    return field ? Field<T>::get(*field) : Value(std::string("none"));
  }
  static void set(std::optional<T>& field, const Value& value) {
    field = enum_value<T>(std::get<std::string>(value));
  }
};

template <class T>
struct MemberOf;
template <class S, class T>
struct MemberOf<T S::*> {
  using Section = S;
  using Type = T;
};

template <auto kMember>
auto make_key(std::string_view name, Check check, std::string_view meaning) {
  using Section = typename MemberOf<decltype(kMember)>::Section;
  using F = Field<typename MemberOf<decltype(kMember)>::Type>;
  if (check.choices.empty()) check.choices = F::choices();
  return Key<Section>{name, [](const Section& section) { return F::get(section.*kMember); },
                      [](Section& section, const Value& value) { F::set(section.*kMember, value); },
                      std::move(check), meaning};
}

}  // namespace

#define HG_SECTION(Type)                                              \
  template <>                                                         \
  const std::vector<Key<sections::Type>>& keys_of<sections::Type>() { \
    using Section = sections::Type;                                   \
    static const std::vector<Key<Section>> keys = {
#define HG_KEY(type, name, initial, check, meaning) make_key<&Section::name>(#name, check, meaning),
#define HG_END \
  }            \
  ;            \
  return keys; \
  }
#include "train/config/keys.inc"

namespace {

// Calls f(full name, key) for every key, of a phase with this prefix.
template <class F>
void for_each_key(const std::string& phase, F&& f) {
  constexpr std::string_view kFirst = "phase.0";
  Config config;
  config.phases.push_back(phase_of(config));
  for_each_section_and_phase(config, [&]<class Section>(std::string prefix, const Section&) {
    if (prefix.starts_with(kFirst)) prefix.replace(0, kFirst.size(), phase);
    for (const Key<Section>& key : keys_of<Section>())
      f(fmt::format("{}.{}", prefix, key.name), key);
  });
}

}  // namespace

std::string phase_part(std::string_view name) {
  const std::string_view phase = "phase.";
  if (!name.starts_with(phase)) return "phase.0";
  return std::string(name.substr(0, name.find('.', phase.size())));
}

std::vector<KeyText> key_texts(const std::string& phase) {
  std::vector<KeyText> texts;
  for_each_key(phase, [&]<class Section>(std::string name, const Key<Section>& key) {
    const bool is_bool = std::holds_alternative<bool>(key.get(Section{}));
    texts.push_back({std::move(name),
                     is_bool ? std::vector<std::string>{"true", "false"} : key.check.choices,
                     key.check.path, key.meaning});
  });
  return texts;
}

bool is_path_key(std::string_view name) {
  bool found = false;
  for_each_key(phase_part(name), [&](const std::string& known, const auto& key) {
    found |= key.check.path && name == known;
  });
  return found;
}

std::string path_from(const std::string& folder, const std::string& path) {
  if (folder.empty() || path.empty()) return path;
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

bool is_option_of(const Check& check, std::string_view variant) {
  const std::vector<std::string_view> names = words(check.variants);
  return names.empty() || std::find(names.begin(), names.end(), variant) != names.end();
}

void check_value(const Check&, bool, const std::string&) {}

void check_value(const Check& check, std::int64_t value, const std::string& who) {
  usage_require(in_range(check, static_cast<double>(value)), who, "expected {}, got {}",
                expectation(check, "an integer"), value);
}

void check_value(const Check& check, double value, const std::string& who) {
  usage_require(in_range(check, value), who, "expected {}, got {}",
                expectation(check, "a finite number"), value);
}

void check_value(const Check& check, const std::string& value, const std::string& who) {
  // A path or name with a zero byte would be cut short by the system.
  usage_require(value.find('\0') == std::string::npos, who, "expected text, got a zero byte in it");
  if (check.valid != nullptr)
    usage_require(check.valid(value), who, "expected {}, got \"{}\"", check.expected,
                  printable(value));
  const std::vector<std::string>& names = check.choices;
  if (names.empty() || std::find(names.begin(), names.end(), value) != names.end()) return;
  constexpr std::size_t kSeenAtAGlance = 6;  // of a longer list, the nearest name is pointed out
  const std::string hint = names.size() <= kSeenAtAGlance
                               ? ""
                               : fmt::format("; did you mean \"{}\"?", nearest(value, names));
  usage_fail(who, "expected {} {}, got \"{}\"{}", names.size() > 1 ? "one of" : "only",
             fmt::join(names, ", "), printable(value), hint);
}

// A range from 0 allows none: a count of 0.
void check_value(const Check& check, CountOrFraction value, const std::string& who) {
  if (check.low == 0 && value == CountOrFraction::count(0)) return;
  if (value.is_fraction)
    usage_require(value.value > 0 && value.value <= 1, who,
                  "expected a fraction above 0 and at most 1, got {}", value.value);
  else
    usage_require(value.value >= 1 && value.value <= kLargestInt, who,
                  "expected a count of at least 1, got {}", value.value);
}

}  // namespace hg
