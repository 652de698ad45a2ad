// Configurations and settings.
#include <algorithm>

#include "tensor/base/text.h"
#include "tests/fuzz/fuzz.h"
#include "train/config/config.h"

namespace hg::fuzz {
namespace {

void check_written(const Config& config) {
  must(surely([&] { return parse_config(to_toml(config), "written.toml"); }) == config,
       "the same configuration");
}

void take_config(const std::string& input) { check_written(parse_config(input, "file.toml")); }

Inputs seeds_of_config() {
  Inputs seeds{
      "[run]\nseed = 1\n[[phase]]\nkind = 'prune'\nfreeze = ['a']\n[phase.train]\nepochs = 2\n"};
  for (const BuiltinText& builtin : builtin_configs()) seeds.emplace_back(builtin.toml);
  seeds.push_back(
      to_toml(load_config("paper-table2-12", {"model.attention=mgk", "phase.0.kind=pretrain"})));
  return seeds;
}

// A setting a line.
void take_settings(const std::string& input) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> settings;
  for (const std::string_view line : split(input, '\n')) settings.emplace_back(line);
  settings.resize(std::min(settings.size(), kMost));
  check_written(parse_config("", "file.toml", settings));
}

Inputs seeds_of_settings() {
  return {"train.learning_rate=1e-3",
          "phase.0.freeze=[\"a\", 'b']",
          "model.attention=mgk",
          "select.top_k=0.7\nselect.heuristic=entropy",
          "run.name='q \u00fc'\nrun.pue=1.5",
          "phase.0.kind=contrastive\nphase.0.loss=triplet\nphase.0.margin=0.3"};
}

HG_PARSER(config)
HG_PARSER(settings)

}  // namespace
}  // namespace hg::fuzz
