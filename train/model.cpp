#include "train/model.h"

#include "tensor/backend.h"
#include "train/usage_error.h"

namespace hg {
namespace {

void require_supported(const Config& config) {
  usage_require(config.model.attention == "softmax", "model.attention",
                "\"{}\" is not available in this version; expected \"softmax\"",
                config.model.attention);
  usage_require(config.attention.gate == "none", "attention.gate",
                "\"{}\" is not available in this version; expected \"none\"",
                config.attention.gate);
  usage_require(config.attention.dropout == 0, "attention.dropout",
                "{} is not available in this version; expected 0", config.attention.dropout);
  usage_require(config.select.heuristic == "none", "select.heuristic",
                "\"{}\" is not available in this version; expected \"none\"",
                config.select.heuristic);
  usage_require(config.loss.sparsity == 0 && config.loss.mle == 0, "loss",
                "sparsity and mle are not available in this version; expected 0");
  for (const PhaseConfig& phase : config.phases)
    usage_require(phase.kind == "supervised" && phase.freeze.empty(), "phase.kind",
                  "\"{}\" or freeze is not available in this version; expected \"supervised\"",
                  phase.kind);
}

}  // namespace

nn::VitOptions vit_options(const Config& config) {
  require_supported(config);
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
          .qkv_bias = m.qkv_bias};
}

void load_weights(const nn::Vit& model, const Safetensors& file, const std::string& source) {
  require_finite(file, source);
  for (const auto& [name, tensor] : file.tensors)
    usage_require(model.parameters().find(name) != nullptr, source,
                  "{} {} is no parameter of this model", name, tensor);
  for (const nn::Parameter& p : model.parameters().all()) {
    const auto found = file.tensors.find(p.name);
    usage_require(found != file.tensors.end(), source, "{} is missing, expected {}", p.name,
                  p.value);
    usage_require(found->second.shape() == p.value.shape(), source, "{} is {}, expected {}", p.name,
                  found->second, p.value);
    const Tensor from =
        found->second.dtype() == DType::f32 ? found->second : found->second.to(DType::f32);
    backend(Device::cpu).copy(p.value.raw(), from.raw(), p.value.bytes());
  }
}

NamedTensors weights_of(const nn::Vit& model) {
  NamedTensors weights;
  for (const nn::Parameter& p : model.parameters().all()) weights.emplace_back(p.name, p.value);
  return weights;
}

}  // namespace hg
