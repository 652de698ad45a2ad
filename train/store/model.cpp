#include "train/store/model.h"

#include <algorithm>

#include "nn/attention/prune.h"
#include "tensor/base/enum_names.h"
#include "tensor/base/usage_error.h"
#include "tensor/cuda_device.h"
#include "tensor/transfer.h"
#include "train/config/phase_kind.h"

namespace hg {
namespace {

nn::AttentionOptions attention_options(const Config& config) {
  const AttentionConfig& a = config.attention;
  nn::AttentionOptions o;
  o.variant = config.model.attention;
  o.weight_dropout = a.dropout;
  o.gate = a.gate;
  o.gate_keep = a.gate_keep;
  o.gate_per_batch = a.per_batch;
  o.components = a.components;
  o.shift_keys = a.keys == AttentionConfig::Keys::shift;
  o.sigma2_scale = a.sigma2_scale;
  o.norm_const = a.norm_const;
  o.pi_shape = a.pi_shape;
  o.pi_param = a.pi_param;
  o.mode = a.mode;
  o.feature_norm = a.feature_norm;
  o.rbf_score = a.score == AttentionConfig::Score::rbf;
  o.steps = a.steps;
  o.theta = a.theta;
  o.magnitude_prior = a.magnitude_prior;
  o.stop_grad_em = a.stop_grad_em;
  o.value_propagation = a.value_propagation;
  o.theta_v = a.theta_v;
  o.beta = a.beta;
  o.feature_axis = a.axis == AttentionConfig::Axis::feature;
  o.squeeze = a.squeeze;
  o.reduction = a.reduction;
  o.se = a.se;
  o.features = a.features;
  o.redraw = a.redraw;
  o.rows = a.rows;
  return o;
}

// Of gates: what they cannot do, and options without the gate they are of.
void require_consistent_gates(const Config& config, const nn::AttentionOptions& o) {
  using Gate = nn::AttentionOptions::Gate;
  const nn::AttentionTraits traits = nn::attention_traits(o);
  const AttentionConfig& a = config.attention;
  const bool pruned = any_phase(config, &PhaseKind::prunes);
  const auto possible = [&](bool can, std::string_view why) {
    usage_require(can, "attention.gate",
                  "\"{}\" cannot be with model.attention = \"{}\" and its options, {}",
                  enum_name(a.gate), o.variant, why);
  };
  if (o.gate == Gate::head) {
    possible(traits.some_heads && !pruned, "which need all heads");
    const std::int64_t kept = nn::kept_of(a.gate_keep, config.model.heads);
    usage_require(std::max<std::int64_t>(1, kept) >= traits.least_heads, "attention.gate_keep",
                  "expected a share of at least {} of {} heads with model.attention = \"{}\", "
                  "got {}",
                  traits.least_heads, config.model.heads, o.variant, a.gate_keep);
  }
  if (o.gate == Gate::token) possible(traits.some_queries && !pruned, "which need all queries");
  usage_require(o.gate == Gate::head || o.gate == Gate::token || a.gate_keep == 1,
                "attention.gate_keep", "expected 1 with attention.gate = \"{}\", got {}",
                enum_name(a.gate), a.gate_keep);
  usage_require(o.gate == Gate::head || a.per_batch, "attention.per_batch",
                "expected true with attention.gate = \"{}\"", enum_name(a.gate));
  usage_require((o.gate == Gate::layer) == !a.gate_layers.empty(), "attention.gate_layers",
                "expected {} with attention.gate = \"{}\", got {}",
                o.gate == Gate::layer ? "one or more layers" : "none", enum_name(a.gate),
                a.gate_layers.size());
  usage_require(o.gate == Gate::head || config.loss.gate_budget == 0, "loss.gate_budget",
                "expected 0 with attention.gate = \"{}\", got {}", enum_name(a.gate),
                config.loss.gate_budget);
}

// The sparsity term must find what it acts on.
void require_consistent_sparsity(const Config& config, const nn::AttentionOptions& o) {
  const LossConfig& loss = config.loss;
  if (loss.sparsity == 0) return;
  const nn::AttentionTraits traits = nn::attention_traits(o);
  const bool gated = o.gate == nn::AttentionOptions::Gate::head;
  const auto needs = [&](bool has, std::string_view what) {
    usage_require(has, "loss.sparsity_kind",
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

// Options of prob's value propagation without it.
void require_consistent_values(const AttentionConfig& a) {
  for (const auto& [key, value] : {std::pair{"theta_v", a.theta_v}, {"beta", a.beta}})
    usage_require(a.value_propagation || value == 1, fmt::format("attention.{}", key),
                  "expected 1 without attention.value_propagation, got {}", value);
}

// Settings that contradict the variant of attention.
void require_consistent(const Config& config, const nn::AttentionOptions& o) {
  const nn::AttentionTraits traits = nn::attention_traits(o);
  require_consistent_gates(config, o);
  require_consistent_sparsity(config, o);
  require_consistent_values(config.attention);
  usage_require(o.weight_dropout == 0 || traits.weights, "attention.dropout",
                "expected 0 with model.attention = \"{}\", which has no attention weights, got {}",
                o.variant, o.weight_dropout);
  usage_require(config.loss.mle == 0 || traits.likelihood, "loss.mle",
                "expected 0 with model.attention = \"{}\" and its options, which have no "
                "likelihood, got {}",
                o.variant, config.loss.mle);
  usage_require(config.model.heads >= traits.least_heads, "model.heads",
                "expected at least {} with model.attention = \"{}\", got {}", traits.least_heads,
                o.variant, config.model.heads);
  if (traits.likelihood) return;  // of Gaussians, whose options these are
  usage_require(o.mode == nn::AttentionOptions::Mode::soft, "attention.mode",
                "expected \"soft\" with model.attention = \"{}\", got \"{}\"", o.variant,
                enum_name(o.mode));
  usage_require(!o.norm_const, "attention.norm_const",
                "expected false with model.attention = \"{}\", which has no Gaussians", o.variant);
  for (const double factor : o.sigma2_scale)
    usage_require(factor == 1, "attention.sigma2_scale",
                  "expected 1 with model.attention = \"{}\", which has no Gaussians, got {}",
                  o.variant, factor);
}

}  // namespace

nn::VitOptions vit_options(const Config& config) {
  const nn::AttentionOptions attention = attention_options(config);
  require_consistent(config, attention);
  const ModelConfig& m = config.model;
  return {.channels = m.in_channels,
          .img_size = m.img_size,
          .patch_size = m.patch_size,
          .width = m.emb_size,
          .depth = m.depth,
          .heads = m.heads,
          .dim_head = m.dim_head,
          .mlp_ratio = m.mlp_ratio,
          .classes = m.num_classes,
          .pool = m.pool,
          .dropout = m.dropout,
          .qkv_bias = m.qkv_bias,
          .device = device_of(config.run),
          .box_head = any_phase(config, &PhaseKind::finds_boxes),
          .attention = attention,
          .gate_layers = config.attention.gate_layers};
}

nn::VitOptions vit_options(const Config& config, const Safetensors& weights,
                           const std::string& source) {
  nn::VitOptions options = vit_options(config);
  const auto mask_of = [&](std::int64_t block) {
    return weights.tensors.find(fmt::format("blocks.{}.attn.mask", block));
  };
  if (mask_of(0) == weights.tensors.end()) return options;
  const nn::AttentionTraits traits = nn::attention_traits(options.attention);
  usage_require(traits.priors || traits.pruned, source,
                "holds masks of pruned attention, but model.attention is \"{}\"",
                options.attention.variant);
  options.attention.variant = "fiak_pruned";
  for (std::int64_t i = 0; i < options.depth; ++i) {
    const auto mask = mask_of(i);
    usage_require(mask != weights.tensors.end(), source, "blocks.{}.attn.mask is missing", i);
    const Tensor& bits = mask->second;
    const std::int64_t tokens = options.patches() + 1;
    usage_require(bits.rank() == 3 && bits.dim(0) == options.heads && bits.dim(1) == tokens, source,
                  "blocks.{}.attn.mask is {}, expected {} heads of {} tokens", i, bits,
                  options.heads, tokens);
    try {
      options.supports.push_back(nn::support_of(bits));
    } catch (const Error& e) {
      usage_fail(source, "blocks.{}.attn.mask: {}", i, e.what());
    }
  }
  return options;
}

Device device_of(const RunConfig& run) {
  using Choice = RunConfig::DeviceChoice;
  if (run.device == Choice::auto_) return cuda::unavailable().empty() ? Device::cuda : Device::cpu;
  return run.device == Choice::cuda ? Device::cuda : Device::cpu;
}

void load_weights(const nn::Vit& model, const Safetensors& file, const std::string& source,
                  bool foreign) {
  require_finite(file, source);
  const NamedTensors mine = weights_of(model);
  for (const auto& [name, tensor] : file.tensors)
    usage_require(is_training_head(name) || std::any_of(mine.begin(), mine.end(),
                                                        [&](auto& m) { return m.first == name; }),
                  source, "{} {} is no parameter of this model", name, tensor);
  const std::vector<nn::Buffer>& buffers = model.parameters().buffers();
  for (const auto& [name, value] : mine) {
    const auto found = file.tensors.find(name);
    if (foreign && found == file.tensors.end() &&
        std::any_of(buffers.begin(), buffers.end(),
                    [&, &own = name](auto& b) { return b.name == own && b.optional; }))
      continue;
    usage_require(found != file.tensors.end(), source, "{} is missing, expected {}", name, value);
    usage_require(found->second.shape() == value.shape(), source, "{} is {}, expected {}", name,
                  found->second, value);
    usage_require(is_float(found->second.dtype()) == is_float(value.dtype()), source,
                  "{} is {}, expected {}", name, found->second, value);
    const Tensor from =
        found->second.dtype() == value.dtype() ? found->second : found->second.to(value.dtype());
    copy_into(value, from);
  }
}

void take_weights(const nn::Vit& model, const Safetensors& before, bool all) {
  if (all) return load_weights(model, before, "state.safetensors");
  for (const auto& [name, value] : weights_of(model)) {
    const auto found = before.tensors.find(name);
    if (is_training_head(name)) continue;
    if (found != before.tensors.end() && found->second.shape() == value.shape() &&
        found->second.dtype() == value.dtype())
      copy_into(value, found->second);
  }
}

bool begins_with_parts(std::string_view name, std::string_view start) {
  if (start.empty() || !name.starts_with(start)) return false;
  return name.size() == start.size() || start.back() == '.' || name[start.size()] == '.';
}

std::vector<nn::Parameter> trained_parameters(const nn::Parameters& parameters,
                                              const std::vector<std::string>& freeze,
                                              const std::string& key) {
  std::vector<nn::Parameter> trained = parameters.all();
  for (const std::string& start : freeze) {
    const auto named = [&](const nn::Parameter& p) { return begins_with_parts(p.name, start); };
    usage_require(std::any_of(parameters.all().begin(), parameters.all().end(), named), key,
                  "\"{}\" is the beginning of no parameter's name", start);
    std::erase_if(trained, named);
  }
  usage_require(!trained.empty(), key, "every parameter is frozen, nothing is left to train");
  return trained;
}

NamedTensors weights_of(const nn::Vit& model) {
  NamedTensors weights;
  for (const nn::Parameter& p : model.parameters().all()) weights.emplace_back(p.name, p.value);
  for (const nn::Buffer& b : model.parameters().buffers()) weights.emplace_back(b.name, b.value);
  return weights;
}

}  // namespace hg
