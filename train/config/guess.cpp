// Which key was meant by one that is not there.
#include <algorithm>
#include <limits>

#include "tensor/base/text.h"
#include "train/config/key.h"

namespace hg {
namespace {

// Names that timm, PyTorch and transformers have for keys of ours, without their section.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"lr", "train.learning_rate"},
    {"lr_base", "train.learning_rate"},
    {"base_lr", "train.learning_rate"},
    {"max_lr", "train.learning_rate"},
    {"wd", "train.weight_decay"},
    {"l2", "train.weight_decay"},
    {"b", "train.batch_size"},
    {"bs", "train.batch_size"},
    {"batch", "train.batch_size"},
    {"train_batch_size", "train.batch_size"},
    {"per_device_train_batch_size", "train.batch_size"},
    {"epoch", "train.epochs"},
    {"num_epochs", "train.epochs"},
    {"n_epochs", "train.epochs"},
    {"max_epochs", "train.epochs"},
    {"num_train_epochs", "train.epochs"},
    {"opt", "train.optimizer"},
    {"optim", "train.optimizer"},
    {"sched", "train.schedule"},
    {"scheduler", "train.schedule"},
    {"lr_scheduler", "train.schedule"},
    {"lr_scheduler_type", "train.schedule"},
    {"warmup", "train.warmup_epochs"},
    {"warmup_steps", "train.warmup_epochs"},
    {"warmup_ratio", "train.warmup_epochs"},
    {"clip_grad", "train.grad_clip"},
    {"clip_grad_norm", "train.grad_clip"},
    {"gradient_clip_val", "train.grad_clip"},
    {"max_grad_norm", "train.grad_clip"},
    {"max_norm", "train.grad_clip"},
    {"betas", "train.beta1"},
    {"opt_betas", "train.beta1"},
    {"adam_beta1", "train.beta1"},
    {"adam_beta2", "train.beta2"},
    {"eps", "train.epsilon"},
    {"opt_eps", "train.epsilon"},
    {"adam_epsilon", "train.epsilon"},
    {"smoothing", "loss.label_smoothing"},
    {"label_smoothing_factor", "loss.label_smoothing"},
    {"teacher_path", "loss.teacher"},
    {"teacher_model", "loss.teacher"},
    {"layers", "model.depth"},
    {"num_layers", "model.depth"},
    {"n_layers", "model.depth"},
    {"n_layer", "model.depth"},
    {"num_hidden_layers", "model.depth"},
    {"blocks", "model.depth"},
    {"embed_dim", "model.emb_size"},
    {"hidden_dim", "model.emb_size"},
    {"hidden_size", "model.emb_size"},
    {"d_model", "model.emb_size"},
    {"width", "model.emb_size"},
    {"dim", "model.emb_size"},
    {"num_heads", "model.heads"},
    {"n_head", "model.heads"},
    {"nhead", "model.heads"},
    {"num_attention_heads", "model.heads"},
    {"head_dim", "model.dim_head"},
    {"mlp_dim", "model.mlp_ratio"},
    {"intermediate_size", "model.mlp_ratio"},
    {"dim_feedforward", "model.mlp_ratio"},
    {"image_size", "model.img_size"},
    {"input_size", "model.img_size"},
    {"resolution", "model.img_size"},
    {"patch", "model.patch_size"},
    {"in_chans", "model.in_channels"},
    {"num_channels", "model.in_channels"},
    {"channels", "model.in_channels"},
    {"classes", "model.num_classes"},
    {"n_classes", "model.num_classes"},
    {"num_labels", "model.num_classes"},
    {"drop", "model.dropout"},
    {"drop_rate", "model.dropout"},
    {"proj_drop_rate", "model.dropout"},
    {"hidden_dropout_prob", "model.dropout"},
    {"global_pool", "model.pool"},
    {"gp", "model.pool"},
    {"weight_init", "model.init"},
    {"pos_embed", "model.positions"},
    {"attn", "model.attention"},
    {"attn_drop", "attention.dropout"},
    {"attn_drop_rate", "attention.dropout"},
    {"attention_dropout", "attention.dropout"},
    {"attention_probs_dropout_prob", "attention.dropout"},
    {"dataset", "data.name"},
    {"path", "data.root"},
    {"dir", "data.root"},
    {"data_dir", "data.root"},
    {"data_path", "data.root"},
    {"val_split", "data.validation"},
    {"augmentation", "data.augment"},
    {"hflip", "data.augment"},
    {"pretrained", "run.init_from"},
    {"checkpoint", "run.init_from"},
    {"initial_checkpoint", "run.init_from"},
    {"weights", "run.init_from"},
    {"manual_seed", "run.seed"},
    {"num_threads", "run.threads"},
    {"num_workers", "run.threads"},
    {"workers", "run.threads"},
};

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// "Weight-Decay" -> "weight_decay": options of timm's programs have hyphens.
std::string as_key(std::string_view name) {
  std::string key(name);
  for (char& c : key)
    c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return key;
}

// The key of ours; "" without one.
std::string_view other_name(std::string_view name) {
  for (const auto& [other, ours] : kOtherNames)
    if (name == other) return ours;
  return "";
}

}  // namespace

std::string nearest_key(std::string_view given) {
  const std::string name = as_key(given);
  const std::string phase = phase_part(name);
  const std::vector<KeyText> keys = key_texts(phase);
  if (const std::string_view ours = other_name(last_part(name)); !ours.empty()) {
    const std::string of_phase = fmt::format("{}.{}", phase, ours);
    const bool is_key = std::ranges::any_of(keys, [&](auto& key) { return key.name == of_phase; });
    return name.starts_with("phase.") && is_key ? of_phase : std::string(ours);
  }
  std::string best;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const KeyText& known : keys) {
    const std::size_t changes = std::min(edit_distance(name, known.name),
                                         edit_distance(last_part(name), last_part(known.name)) + 1);
    if (changes < least) least = changes, best = known.name;
  }
  return best;
}

std::string key_meant(std::string_view given) {
  const std::string name = as_key(given);
  if (const std::string_view ours = other_name(name); !ours.empty()) return std::string(ours);
  for (const KeyText& known : key_texts())
    if (last_part(known.name) == name) return known.name;
  return "";
}

}  // namespace hg
