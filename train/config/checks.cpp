// What no key alone can show: settings that contradict each other. What concerns one kind of phase
// stands with that kind.
#include <algorithm>

#include "tensor/base/enum_names.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/config/key.h"
#include "train/config/load.h"
#include "train/config/model_options.h"
#include "train/config/phase_kind.h"
#include "train/config/selection.h"

namespace hg {
namespace {

// More than any machine holds; beyond it, products of extents are close to overflow.
constexpr double kMostParameters = 1e11, kMostTokens = 1e6;

void check_model(const ModelConfig& m, const Origins& origins) {
  usage_require(m.img_size % m.patch_size == 0, origins.who("model.patch_size"),
                "expected a divisor of model.img_size = {}, got {}", m.img_size, m.patch_size);
  const double hidden = m.mlp_ratio * static_cast<double>(m.emb_size);
  usage_require(hidden >= 1 && hidden == std::floor(hidden), origins.who("model.mlp_ratio"),
                "expected a whole hidden width, got {} * emb_size = {}", m.mlp_ratio, hidden);
}

// Parameters as in nn/METHODS.md, appendix A, but for biases.
void check_size(const ModelConfig& m, const Origins& origins) {
  const std::int64_t per_side = m.img_size / m.patch_size;
  const double side = static_cast<double>(per_side), tokens = side * side + 1;
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

// Patches without scores can be drawn, but none is better than another.
void check_random_patches(const SelectConfig& s, const Origins& origins) {
  constexpr std::string_view kNoScore = "with select.heuristic = \"random\", which has no scores";
  usage_require(s.probabilistic, origins.who("select.probabilistic"), "expected true {}", kNoScore);
  usage_require(s.eval == SelectConfig::Eval::all, origins.who("select.eval"),
                "expected \"all\" {}, got \"{}\"", kNoScore, enum_name(s.eval));
  usage_require(s.form == PatchScoreOptions::Form::robust, origins.who("select.form"),
                "expected \"robust\" {}, got \"{}\"", kNoScore, enum_name(s.form));
}

void check_selection(const Config& c, const Origins& origins) {
  if (!c.select.heuristic) return;
  const std::int64_t patches = patches_of(c.model);
  const KeptPatches kept = kept_patches(c);
  using Heuristic = PatchScoreOptions::Heuristic;
  for (const auto& [key, k] :
       {std::pair{"select.top_k", kept.first}, {"select.top_k_end", kept.last}})
    usage_require(k >= 1 && k <= patches, origins.who(key), "expected 1 to {} patches, got {}",
                  patches, k);
  const bool random = c.select.heuristic == Heuristic::random;
  if (random) check_random_patches(c.select, origins);
  usage_require(
      random || c.model.in_channels == 1 || c.model.in_channels == 3,
      origins.who("select.heuristic"),
      "expected \"none\" or \"random\" with model.in_channels = {}: patches are scored in "
      "gray or RGB",
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

void check_teacher(const LossConfig& loss, const Origins& origins) {
  usage_require(loss.teacher.empty() == (loss.distill == 0), origins.who("loss.distill"),
                "expected {}, got {}",
                loss.teacher.empty() ? "0 without loss.teacher" : "more than 0 with loss.teacher",
                loss.distill);
}

// Gates that the attention cannot have, and options of a gate that is not there.
void check_gates(const Config& config, const nn::AttentionOptions& o, const Origins& origins) {
  using Gate = nn::AttentionOptions::Gate;
  const nn::AttentionTraits traits = nn::attention_traits(o);
  const AttentionConfig& a = config.attention;
  const bool pruned = any_phase(config, &PhaseKind::prunes);
  const auto possible = [&](bool can, std::string_view why) {
    usage_require(can, origins.who("attention.gate"),
                  "\"{}\" cannot be with model.attention = \"{}\" and its options, {}",
                  enum_name(a.gate), o.variant, why);
  };
  if (o.gate == Gate::head) {
    possible(traits.some_heads && !pruned, "which need all heads");
    const std::int64_t kept = nn::kept_of(a.gate_keep, config.model.heads);
    usage_require(std::max<std::int64_t>(1, kept) >= traits.least_heads,
                  origins.who("attention.gate_keep"),
                  "expected a share of at least {} of {} heads with model.attention = \"{}\", "
                  "got {}",
                  traits.least_heads, config.model.heads, o.variant, a.gate_keep);
  }
  if (o.gate == Gate::token) possible(traits.some_queries && !pruned, "which need all queries");
  usage_require(o.gate == Gate::head || o.gate == Gate::token || a.gate_keep == 1,
                origins.who("attention.gate_keep"),
                "expected 1 with attention.gate = \"{}\", got {}", enum_name(a.gate), a.gate_keep);
  usage_require(o.gate == Gate::head || a.per_batch, origins.who("attention.per_batch"),
                "expected true with attention.gate = \"{}\"", enum_name(a.gate));
  usage_require((o.gate == Gate::layer) == !a.gate_layers.empty(),
                origins.who("attention.gate_layers"),
                "expected {} with attention.gate = \"{}\", got {}",
                o.gate == Gate::layer ? "one or more layers" : "none", enum_name(a.gate),
                a.gate_layers.size());
  usage_require(o.gate == Gate::head || config.loss.gate_budget == 0,
                origins.who("loss.gate_budget"), "expected 0 with attention.gate = \"{}\", got {}",
                enum_name(a.gate), config.loss.gate_budget);
}

// A last block of the class token alone needs a head that reads no other, and an attention whose
// queries do not need each other.
void check_last_block(const Config& config, const nn::AttentionOptions& o, const Origins& origins) {
  if (config.model.last_block == nn::VitOptions::LastBlock::all) return;
  using Gate = nn::AttentionOptions::Gate;
  const auto needs = [&](bool has, std::string_view what) {
    usage_require(has, origins.who("model.last_block"), "expected \"all\" {}, got \"cls\"", what);
  };
  needs(config.model.pool == nn::VitOptions::Pool::cls, "with model.pool = \"mean\"");
  needs(o.gate == Gate::none || o.gate == Gate::layer,
        fmt::format("with attention.gate = \"{}\"", enum_name(o.gate)));
  needs(nn::attention_traits(o).some_queries && !any_phase(config, &PhaseKind::prunes),
        fmt::format("with model.attention = \"{}\" and its options, which need all queries",
                    o.variant));
}

// The sparsity term must find what it acts on.
void check_sparsity(const Config& config, const nn::AttentionOptions& o, const Origins& origins) {
  const LossConfig& loss = config.loss;
  if (loss.sparsity == 0) return;
  const nn::AttentionTraits traits = nn::attention_traits(o);
  const bool gated = o.gate == nn::AttentionOptions::Gate::head;
  const auto needs = [&](bool has, std::string_view what) {
    usage_require(has, origins.who("loss.sparsity_kind"),
                  "\"{}\" needs {}, which model.attention = \"{}\" with its options does not have",
                  enum_name(loss.sparsity_kind), what, o.variant);
  };
  if (loss.sparsity_kind == nn::Sparsity::gate_l1)
    needs(traits.gates || gated, "gates (SE-K, or attention.gate = \"head\")");
  else if (loss.sparsity_kind == nn::Sparsity::hoyer || loss.sparsity_kind == nn::Sparsity::l1_pi)
    needs(traits.priors, "learned priors");
  else
    needs(traits.spread, "weights of tokens on tokens");
}

// Options of value propagation (prob) need it.
void check_values(const AttentionConfig& a, const Origins& origins) {
  for (const auto& [key, value] : {std::pair{"theta_v", a.theta_v}, {"beta", a.beta}})
    usage_require(a.value_propagation || value == 1, origins.who(fmt::format("attention.{}", key)),
                  "expected 1 without attention.value_propagation, got {}", value);
}

// Settings that contradict the variant of attention.
void check_attention(const Config& config, const Origins& origins) {
  const AttentionConfig& a = config.attention;
  check_options<AttentionConfig>("attention", "model.attention", config.model.attention, origins);
  const auto components = static_cast<std::size_t>(a.components);
  usage_require(a.sigma2_scale.size() == components, origins.who("attention.sigma2_scale"),
                "expected {} factors, one a component, got {}", components, a.sigma2_scale.size());
  for (const std::int64_t layer : a.gate_layers)
    usage_require(layer < config.model.depth, origins.who("attention.gate_layers"),
                  "expected layers below model.depth = {}, got {}", config.model.depth, layer);
  const nn::AttentionOptions o = attention_options(config);
  const nn::AttentionTraits traits = nn::attention_traits(o);
  check_gates(config, o, origins);
  check_last_block(config, o, origins);
  check_sparsity(config, o, origins);
  check_values(a, origins);
  usage_require(a.buckets % 2 == 0, origins.who("attention.buckets"),
                "expected an even number, got {}", a.buckets);
  usage_require(o.weight_dropout == 0 || traits.weights, origins.who("attention.dropout"),
                "expected 0 with model.attention = \"{}\", which has no attention weights, got {}",
                o.variant, o.weight_dropout);
  usage_require(config.loss.mle == 0 || traits.likelihood, origins.who("loss.mle"),
                "expected 0 with model.attention = \"{}\" and its options, which have no "
                "likelihood, got {}",
                o.variant, config.loss.mle);
  usage_require(config.model.heads >= traits.least_heads, origins.who("model.heads"),
                "expected at least {} with model.attention = \"{}\", got {}", traits.least_heads,
                o.variant, config.model.heads);
  if (traits.likelihood) return;  // of Gaussians, whose options these are
  usage_require(o.mode == nn::AttentionOptions::Mode::soft, origins.who("attention.mode"),
                "expected \"soft\" with model.attention = \"{}\", got \"{}\"", o.variant,
                enum_name(o.mode));
  usage_require(!o.norm_const, origins.who("attention.norm_const"),
                "expected false with model.attention = \"{}\", which has no Gaussians", o.variant);
  for (const double factor : o.sigma2_scale)
    usage_require(factor == 1, origins.who("attention.sigma2_scale"),
                  "expected 1 with model.attention = \"{}\", which has no Gaussians, got {}",
                  o.variant, factor);
}

// How many patches are left by each block, of all: what a block cannot do is refused.
void check_merged_counts(const Config& config, const Origins& origins) {
  const MergeConfig& m = config.merge;
  const nn::MergeOptions options{m.method, m.per_block, m.keep};
  const std::string who = origins.who(m.keep.empty() ? "merge.per_block" : "merge.keep");
  std::int64_t patches = patches_of(config.model);
  for (std::int64_t i = 0; i < config.model.depth; ++i) {
    const std::int64_t left = options.left_by(i, patches);
    const std::int64_t wanted =
        m.keep.empty() ? patches - m.per_block : m.keep[static_cast<std::size_t>(i)];
    usage_require(left == wanted, who,
                  "expected block {} to leave {} to {} of its patches with merge.method = \"{}\", "
                  "got {}",
                  i, m.method == nn::MergeOptions::Method::tome ? (patches + 1) / 2 : 1, patches,
                  enum_name(*m.method), wanted);
    patches = left;
  }
}

void check_merging(const Config& config, const Origins& origins) {
  const nn::AttentionOptions o = attention_options(config);
  const MergeConfig& m = config.merge;
  if (!m.method) {
    usage_require(m.per_block == 0, origins.who("merge.per_block"),
                  "expected 0 without merge.method");
    usage_require(m.keep.empty(), origins.who("merge.keep"), "expected none without merge.method");
    return;
  }
  const auto needs = [&](bool has, const std::string& what) {
    usage_require(has, origins.who("merge.method"), "expected \"none\" {}, got \"{}\"", what,
                  enum_name(*m.method));
  };
  needs(
      nn::attention_traits(o).sizes,
      fmt::format("with model.attention = \"{}\", as sizes of tokens are for softmax", o.variant));
  needs(config.model.pool == nn::VitOptions::Pool::cls, "with model.pool = \"mean\"");
  needs(o.gate == nn::AttentionOptions::Gate::none,
        fmt::format("with attention.gate = \"{}\"", enum_name(o.gate)));
  for (const PhaseConfig& phase : config.phases) {
    needs(phase.kind != "pretrain" && phase.kind != "finetune",
          fmt::format("with a phase \"{}\", which needs every token", phase.kind));
    needs(phase.freeze.empty(), "with freeze, as a frozen front hands on every token");
  }
  usage_require((m.per_block > 0) != !m.keep.empty(), origins.who("merge.method"),
                "expected either merge.per_block or merge.keep beside it");
  usage_require(m.keep.empty() || static_cast<std::int64_t>(m.keep.size()) == config.model.depth,
                origins.who("merge.keep"), "expected as many numbers as blocks, {}, got {}",
                config.model.depth, m.keep.size());
  check_merged_counts(config, origins);
}

// Muon changes whole matrices; a gate leaves those of some heads as they are.
void check_optimizers(const Config& config, const Origins& origins) {
  using Gate = nn::AttentionOptions::Gate;
  for (std::size_t i = 0; i < config.phases.size(); ++i)
    usage_require(config.phases[i].train.optimizer != TrainConfig::Optimizer::muon ||
                      config.attention.gate != Gate::head,
                  origins.who("train.optimizer"),
                  "expected another than \"muon\" with attention.gate = \"head\", got \"muon\" in "
                  "phase {}",
                  i);
}

}  // namespace

void check(const Config& config, const Origins& origins) {
  usage_require(!config.device.tf32 || config.run.device != RunConfig::DeviceChoice::cpu,
                origins.who("device.tf32"), "expected false with run.device = \"cpu\"");
  check_model(config.model, origins);
  check_size(config.model, origins);
  check_selection(config, origins);
  check_teacher(config.loss, origins);
  check_attention(config, origins);
  check_merging(config, origins);
  check_optimizers(config, origins);
  for (std::size_t i = 0; i < config.phases.size(); ++i)
    check_options<sections::PhaseOptions>(fmt::format("phase.{}", i), "kind", config.phases[i].kind,
                                          origins);
}

}  // namespace hg
