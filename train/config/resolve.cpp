#include <algorithm>
#include <filesystem>

#include "data/open.h"
#include "tensor/base/usage_error.h"
#include "train/config/load.h"
#include "train/config/phase_kind.h"

namespace hg {
namespace {

// What the model does not say, the data set may.
void take_from_data(Config& c, const Origins& origins) {
  const DatasetFacts facts = facts_of(c.data.name, c.data.root);
  const auto fill = [&](std::int64_t& value, std::int64_t fact, const char* key) {
    if (origins.given(key)) return;
    usage_require(fact > 0, origins.who(key), "missing: data.name = \"{}\" does not tell it",
                  c.data.name);
    value = fact;
  };
  fill(c.model.in_channels, facts.channels, "model.in_channels");
  fill(c.model.img_size, facts.size, "model.img_size");
  fill(c.model.num_classes, facts.classes, "model.num_classes");
}

// The stem of the source, without what run.name may not hold.
std::string default_name(const std::string& source) {
  std::string name = std::filesystem::path(source).stem().string().substr(0, 100);
  for (char& c : name)
    if (c < ' ' || c > '~') c = '_';
  return name.empty() || name == "." || name == ".." ? "run" : name;
}

}  // namespace

void resolve(Config& config, const Origins& origins) {
  if (config.run.name.empty()) config.run.name = default_name(origins.source);
  take_from_data(config, origins);
  ModelConfig& m = config.model;
  if (m.dim_head == 0) {
    usage_require(m.emb_size % m.heads == 0, origins.who("model.heads"),
                  "expected a divisor of model.emb_size = {} (or model.dim_head given), got {}",
                  m.emb_size, m.heads);
    m.dim_head = m.emb_size / m.heads;
  }
  AttentionConfig& a = config.attention;
  if (!origins.given("attention.sigma2_scale"))
    a.sigma2_scale.assign(static_cast<std::size_t>(a.components), 1.0);
  check(config, origins);
  for (std::size_t i = 0; i < config.phases.size(); ++i)
    if (const auto resolve_kind = kind_of(config.phases[i]).resolve)
      resolve_kind(config, i, origins);
}

}  // namespace hg
