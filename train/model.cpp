#include "train/model.h"

#include <algorithm>

#include "tensor/backend.h"
#include "train/usage_error.h"

namespace hg {
namespace {

void require_supported(const Config& config) {
  usage_require(config.model.attention != "fiak_pruned", "model.attention",
                "\"fiak_pruned\" is not available in this version; expected \"fiak\"");
  usage_require(config.attention.gate == "none", "attention.gate",
                "\"{}\" is not available in this version; expected \"none\"",
                config.attention.gate);
  usage_require(config.loss.sparsity == 0, "loss.sparsity",
                "{} is not available in this version; expected 0", config.loss.sparsity);
}

template <class Enum>
Enum one_of(const std::string& name, std::initializer_list<std::pair<std::string_view, Enum>> all) {
  for (const auto& [known, value] : all)
    if (known == name) return value;
  fail("config", "no option is called {}", name);
}

nn::AttentionOptions attention_options(const Config& config) {
  using O = nn::AttentionOptions;
  const AttentionConfig& a = config.attention;
  O o;
  o.variant = config.model.attention;
  o.weight_dropout = a.dropout;
  o.components = a.components;
  o.shift_keys = a.keys == "shift";
  o.sigma2_scale = a.sigma2_scale;
  o.norm_const = a.norm_const;
  o.pi_shape = one_of<O::PiShape>(a.pi_shape, {{"head", O::PiShape::head},
                                               {"layer", O::PiShape::layer},
                                               {"head_pos", O::PiShape::head_pos}});
  o.pi_param = one_of<O::PiParam>(a.pi_param,
                                  {{"softmax", O::PiParam::softmax}, {"clamp", O::PiParam::clamp}});
  o.mode = one_of<O::Mode>(
      a.mode, {{"soft", O::Mode::soft}, {"hard_e", O::Mode::hard_e}, {"soft_e", O::Mode::soft_e}});
  o.feature_norm = a.feature_norm;
  o.rbf_score = a.score == "rbf";
  o.steps = a.steps;
  o.theta = a.theta;
  o.magnitude_prior = a.magnitude_prior;
  o.stop_grad_em = a.stop_grad_em;
  o.feature_axis = a.axis == "feature";
  o.squeeze = one_of<O::Squeeze>(
      a.squeeze,
      {{"mean", O::Squeeze::mean}, {"max", O::Squeeze::max}, {"mean_pre", O::Squeeze::mean_pre}});
  o.reduction = a.reduction;
  o.se = a.se;
  o.features = a.features;
  o.redraw = a.redraw;
  o.rows = a.rows;
  return o;
}

// Settings that contradict the variant of attention.
void require_consistent(const Config& config, const nn::AttentionOptions& o) {
  const nn::AttentionTraits traits = nn::attention_traits(o);
  usage_require(o.weight_dropout == 0 || traits.weights, "attention.dropout",
                "expected 0 with model.attention = \"{}\", which has no attention weights, got {}",
                o.variant, o.weight_dropout);
  usage_require(config.loss.mle == 0 || traits.likelihood, "loss.mle",
                "expected 0 with model.attention = \"{}\" and its options, which have no "
                "likelihood, got {}",
                o.variant, config.loss.mle);
  usage_require(o.variant != "ref_gmm" || config.model.heads >= 2, "model.heads",
                "expected at least 2 with model.attention = \"ref_gmm\", got {}",
                config.model.heads);
  if (o.variant != "mlk") return;
  usage_require(o.mode == nn::AttentionOptions::Mode::soft, "attention.mode",
                "expected \"soft\" with model.attention = \"mlk\", got \"{}\"",
                config.attention.mode);
  usage_require(!o.norm_const, "attention.norm_const",
                "expected false with model.attention = \"mlk\", which has no Gaussians");
  for (const double factor : o.sigma2_scale)
    usage_require(factor == 1, "attention.sigma2_scale",
                  "expected 1 with model.attention = \"mlk\", which has no Gaussians, got {}",
                  factor);
}

}  // namespace

nn::VitOptions vit_options(const Config& config) {
  require_supported(config);
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
          .pool = m.pool == "mean" ? nn::VitOptions::Pool::mean : nn::VitOptions::Pool::cls,
          .dropout = m.dropout,
          .qkv_bias = m.qkv_bias,
          .attention = attention};
}

void load_weights(const nn::Vit& model, const Safetensors& file, const std::string& source) {
  require_finite(file, source);
  const NamedTensors mine = weights_of(model);
  for (const auto& [name, tensor] : file.tensors)
    usage_require(std::any_of(mine.begin(), mine.end(), [&](auto& m) { return m.first == name; }),
                  source, "{} {} is no parameter of this model", name, tensor);
  for (const auto& [name, value] : mine) {
    const auto found = file.tensors.find(name);
    usage_require(found != file.tensors.end(), source, "{} is missing, expected {}", name, value);
    usage_require(found->second.shape() == value.shape(), source, "{} is {}, expected {}", name,
                  found->second, value);
    const Tensor from =
        found->second.dtype() == DType::f32 ? found->second : found->second.to(DType::f32);
    backend(Device::cpu).copy(value.raw(), from.raw(), value.bytes());
  }
}

void take_weights(const nn::Vit& model, const Safetensors& before, bool all) {
  if (all) return load_weights(model, before, "state.safetensors");
  for (const auto& [name, value] : weights_of(model)) {
    const auto found = before.tensors.find(name);
    if (found != before.tensors.end() && found->second.shape() == value.shape())
      backend(Device::cpu).copy(value.raw(), found->second.raw(), value.bytes());
  }
}

NamedTensors weights_of(const nn::Vit& model) {
  NamedTensors weights;
  for (const nn::Parameter& p : model.parameters().all()) weights.emplace_back(p.name, p.value);
  for (const nn::Buffer& b : model.parameters().buffers()) weights.emplace_back(b.name, b.value);
  return weights;
}

}  // namespace hg
