#include "train/config/key.h"

namespace hg {

std::string first_difference(const Config& a, const Config& b) {
  if (a.phases.size() != b.phases.size())
    return fmt::format("{} phases, not {}", a.phases.size(), b.phases.size());
  std::vector<Value> values;
  for_each_section_and_phase(a, [&]<class Section>(const std::string&, const Section& section) {
    for (const Key<Section>& key : keys_of<Section>()) values.push_back(key.get(section));
  });
  std::string difference;
  auto other = values.begin();
  for_each_section_and_phase(b,
                             [&]<class Section>(const std::string& name, const Section& section) {
                               for (const Key<Section>& key : keys_of<Section>()) {
                                 const Value &of_a = *other++, of_b = key.get(section);
                                 if (difference.empty() && of_a != of_b)
                                   difference = fmt::format("{}.{} = {}, not {}", name, key.name,
                                                            toml_value(of_a), toml_value(of_b));
                               }
                             });
  return difference;
}

namespace {

using KeyValues = std::vector<std::pair<std::string, std::string>>;

template <class Section>
void add_values(const std::string& name, const Section& section, std::string_view variant,
                const Section* base, KeyValues& to) {
  for (const Key<Section>& key : keys_of<Section>())
    if (is_option_of(key.check, variant) && (!base || key.get(section) != key.get(*base)))
      to.emplace_back(fmt::format("{}.{}", name, key.name), toml_value(key.get(section)));
}

// Those that to_toml() writes.
KeyValues values_of(const Config& config) {
  KeyValues values;
  for_each_section(config, [&]<class Section>(const char* name, const Section& section) {
    add_values<Section>(name, section, config.model.attention, nullptr, values);
  });
  if (config.phases.size() == 1 && config.phases[0] == phase_of(config)) return values;
  for (std::size_t i = 0; i < config.phases.size(); ++i) {
    const PhaseConfig& phase = config.phases[i];
    const std::string name = fmt::format("phase.{}", i);
    add_values<sections::PhaseOptions>(name, options_of(phase), phase.kind, nullptr, values);
    add_values(name + ".data", phase.data, "", &config.data, values);
    add_values(name + ".train", phase.train, "", &config.train, values);
  }
  return values;
}

}  // namespace

std::vector<DifferentKey> different_keys(const std::vector<Config>& configs) {
  std::vector<DifferentKey> all;
  for (std::size_t i = 0; i < configs.size(); ++i)
    for (const auto& [key, value] : values_of(configs[i])) {
      auto found = std::find_if(all.begin(), all.end(), [&](auto& k) { return k.key == key; });
      if (found == all.end())
        found = all.insert(all.end(), {key, std::vector<std::string>(configs.size(), "-")});
      found->values[i] = value;
    }
  std::erase_if(all, [](const DifferentKey& k) {
    return std::all_of(k.values.begin(), k.values.end(), [&](auto& v) { return v == k.values[0]; });
  });
  return all;
}

}  // namespace hg
