#include "train/config/model_options.h"

#include "tensor/cuda_device.h"
#include "train/config/phase_kind.h"

namespace hg {

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
  o.window = a.window;
  o.shift = a.shift;
  o.rounds = a.rounds;
  o.buckets = a.buckets;
  o.tokens_hidden = a.tokens_hidden;
  return o;
}

nn::VitOptions vit_options(const Config& config) {
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
          .last_block = m.last_block,
          .dropout = m.dropout,
          .qkv_bias = m.qkv_bias,
          .init = m.init,
          .positions = m.positions,
          .device = device_of(config.run),
          .box_head = any_phase(config, &PhaseKind::finds_boxes),
          .attention = attention_options(config),
          .gate_layers = config.attention.gate_layers,
          .merge = {config.merge.method, config.merge.per_block, config.merge.keep}};
}

Device device_of(const RunConfig& run) {
  using Choice = RunConfig::DeviceChoice;
  if (run.device == Choice::auto_) return cuda::unavailable().empty() ? Device::cuda : Device::cpu;
  return run.device == Choice::cuda ? Device::cuda : Device::cpu;
}

}  // namespace hg
