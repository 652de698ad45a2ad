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

}  // namespace hg
