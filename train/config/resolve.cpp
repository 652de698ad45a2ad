#include <algorithm>
#include <filesystem>

#include "data/open.h"
#include "tensor/base/enum_names.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/config/key.h"
#include "train/config/load.h"
#include "train/config/phase_kind.h"

namespace hg {
namespace {

// More than any machine holds; beyond it, products of extents are close to overflow.
constexpr double kMostParameters = 1e11, kMostTokens = 1e6;

// What the model does not say, the name of the data set may.
void take_from_data(Config& c, const Origins& origins) {
  const std::vector<DatasetFacts> sets = known_datasets();
  const auto facts = std::find_if(sets.begin(), sets.end(), [&](const DatasetFacts& known) {
    return known.name == c.data.name;
  });
  const auto fill = [&](std::int64_t& value, std::int64_t fact, const char* key) {
    if (origins.given(key)) return;
    usage_require(fact > 0, origins.who(key), "missing: data.name = \"{}\" does not tell it",
                  c.data.name);
    value = fact;
  };
  fill(c.model.in_channels, facts->channels, "model.in_channels");
  fill(c.model.img_size, facts->size, "model.img_size");
  fill(c.model.num_classes, facts->classes, "model.num_classes");
}

void resolve_model(ModelConfig& m, const Origins& origins) {
  usage_require(m.img_size % m.patch_size == 0, origins.who("model.patch_size"),
                "expected a divisor of model.img_size = {}, got {}", m.img_size, m.patch_size);
  if (m.dim_head == 0) {
    usage_require(m.emb_size % m.heads == 0, origins.who("model.heads"),
                  "expected a divisor of model.emb_size = {} (or model.dim_head given), got {}",
                  m.emb_size, m.heads);
    m.dim_head = m.emb_size / m.heads;
  }
  const double hidden = m.mlp_ratio * static_cast<double>(m.emb_size);
  usage_require(hidden >= 1 && hidden == std::floor(hidden), origins.who("model.mlp_ratio"),
                "expected a whole hidden width, got {} * emb_size = {}", m.mlp_ratio, hidden);
}

// METHODS.md, appendix A, up to biases
void check_size(const ModelConfig& m, const Origins& origins) {
  const double side = static_cast<double>(m.img_size / m.patch_size), tokens = side * side + 1;
  const double width = static_cast<double>(m.emb_size);
  const double inner = static_cast<double>(m.heads * m.dim_head);
  const double pixels = static_cast<double>(m.in_channels * m.patch_size * m.patch_size);
  const double parameters =
      width * (pixels + tokens + static_cast<double>(m.num_classes) +
               static_cast<double>(m.depth) * (4 * inner + 2 * m.mlp_ratio * width));
  usage_require(tokens <= kMostTokens, origins.who("model.patch_size"),
                "expected at most {} tokens an image, got {}", kMostTokens, tokens);
  usage_require(parameters <= kMostParameters, origins.who("model.emb_size"),
                "expected a model of at most {:.0e} parameters, got about {:.1e}", kMostParameters,
                parameters);
}

template <class Section>
void check_options(const std::string& prefix, std::string_view variant_key,
                   const std::string& variant, const Origins& origins) {
  for (const Key<Section>& key : keys_of<Section>()) {
    const std::string full = fmt::format("{}.{}", prefix, key.name);
    if (origins.given(full))
      usage_require(is_option_of(key.check, variant), origins.who(full),
                    "not an option with {} = \"{}\" (but with {})", variant_key, variant,
                    fmt::join(words(key.check.variants), ", "));
  }
}

void resolve_attention(Config& c, const Origins& origins) {
  AttentionConfig& a = c.attention;
  check_options<AttentionConfig>("attention", "model.attention", c.model.attention, origins);
  const auto components = static_cast<std::size_t>(a.components);
  if (!origins.given("attention.sigma2_scale")) a.sigma2_scale.assign(components, 1.0);
  usage_require(a.sigma2_scale.size() == components, origins.who("attention.sigma2_scale"),
                "expected {} factors, one a component, got {}", components, a.sigma2_scale.size());
  for (const std::int64_t layer : a.gate_layers)
    usage_require(layer < c.model.depth, origins.who("attention.gate_layers"),
                  "expected layers below model.depth = {}, got {}", c.model.depth, layer);
}

void check_selection(const Config& c, const Origins& origins) {
  if (!c.select.heuristic) return;
  const std::int64_t side = c.model.img_size / c.model.patch_size, patches = side * side;
  const std::int64_t kept = c.select.top_k.of(patches);
  using Heuristic = PatchScoreOptions::Heuristic;
  usage_require(kept >= 1 && kept <= patches, origins.who("select.top_k"),
                "expected 1 to {} patches, got {}", patches, kept);
  usage_require(c.model.in_channels == 1 || c.model.in_channels == 3,
                origins.who("select.heuristic"),
                "expected \"none\" with model.in_channels = {}: patches are scored in gray or RGB",
                c.model.in_channels);
  usage_require(c.select.heuristic != Heuristic::variance || c.model.patch_size >= 2,
                origins.who("select.heuristic"),
                "expected another than \"variance\" with model.patch_size = 1: a pixel has none");
  const bool fine = c.select.bins == 256;
  usage_require(fine || c.select.bins == 32, origins.who("select.bins"),
                "expected 256 or 32, got {}", c.select.bins);
  usage_require(fine || (c.select.heuristic == Heuristic::entropy &&
                         c.select.form != PatchScoreOptions::Form::ref),
                origins.who("select.bins"),
                "expected 256 with select.heuristic = \"{}\" in form \"{}\", which has no bins, "
                "got {}",
                enum_name(*c.select.heuristic), enum_name(c.select.form), c.select.bins);
  usage_require(fine || c.model.patch_size <= 8, origins.who("select.bins"),
                "expected 256 with model.patch_size = {}, got {}", c.model.patch_size,
                c.select.bins);
}

void check_phase(Config& c, std::size_t index, const Origins& origins) {
  PhaseConfig& phase = c.phases[index];
  const std::string prefix = fmt::format("phase.{}", index);
  check_options<sections::PhaseOptions>(prefix, "kind", phase.kind, origins);
  if (const auto resolve_kind = kind_of(phase).resolve) resolve_kind(c, index, origins);
}

void check_teacher(const LossConfig& loss, const Origins& origins) {
  usage_require(loss.teacher.empty() == (loss.distill == 0), origins.who("loss.distill"),
                "expected {}, got {}",
                loss.teacher.empty() ? "0 without loss.teacher" : "more than 0 with loss.teacher",
                loss.distill);
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
  resolve_model(config.model, origins);
  check_size(config.model, origins);
  resolve_attention(config, origins);
  check_selection(config, origins);
  check_teacher(config.loss, origins);
  for (std::size_t i = 0; i < config.phases.size(); ++i) check_phase(config, i, origins);
}

}  // namespace hg
