#include "train/phases/phase.h"

#include <algorithm>

#include "tensor/base/enum_names.h"
#include "tensor/base/usage_error.h"
#include "tensor/random.h"
#include "train/config/selection.h"
#include "train/phases/contrastive.h"
#include "train/phases/detect.h"
#include "train/phases/pretrain.h"
#include "train/phases/prune.h"
#include "train/phases/supervised.h"

namespace hg {

std::uint64_t PhaseSetting::seed() const {
  const auto seed = static_cast<std::uint64_t>(config.run.seed);
  return index == 0 ? seed : RandomStream(seed, fmt::format("phase.{}", index)).key();
}

LoaderOptions PhaseSetting::loading(Split split) const {
  LoaderOptions options = loader_options(config, phase(), split, seed());
  options.on_work = [note = on_loading, split](std::int64_t start_ns, std::int64_t end_ns) {
    note(split, start_ns, end_ns);
  };
  return options;
}

std::optional<EpochReport> judge(const nn::Vit& model, Loader& loader, Judged what,
                                 const std::function<bool()>& stop, const PooledOf& pooled) {
  const std::optional<Evaluation> e = evaluate(model, loader, what, stop, pooled);
  if (!e) return std::nullopt;
  EpochReport report;
  report.test_loss = e->loss;
  report.scores = Scores{e->metrics.accuracy, e->metrics.micro_f1, e->metrics.macro_f1};
  report.data_flops = e->selection_flops;
  if (!e->detection) return report;
  const DetectionMetrics& d = *e->detection;
  report.scores->micro_f1 = d.micro_f1;
  report.scores->macro_f1 = d.macro_f1;
  report.figures = figures_of(d);
  report.note = fmt::format("mean IoU {:.4f}  IoU >= 0.5 {:.4f}  localised {:.4f}  mAP@0.5 {:.4f}",
                            d.mean_iou, d.iou_50, d.localization_accuracy, d.map_50);
  return report;
}

std::int64_t epochs_of(const PhaseConfig& phase) {
  return phase.kind == "prune" ? 1 : phase.train.epochs;
}

std::unique_ptr<TrainingPhase> make_phase(const PhaseSetting& setting, const Safetensors* before,
                                          bool resumed) {
  const std::string& kind = setting.phase().kind;
  const SupervisedOptions options = supervised_options(setting.config, setting.phase());
  if (kind == "supervised" || kind == "finetune")
    return std::make_unique<SupervisedPhase>(setting, before, resumed, options);
  if (kind == "contrastive") return std::make_unique<ContrastivePhase>(setting, before, resumed);
  if (kind == "detect") return std::make_unique<DetectPhase>(setting, before, resumed, options);
  if (kind == "pretrain") return std::make_unique<PretrainPhase>(setting, before, resumed);
  if (kind == "prune") return std::make_unique<PrunePhase>(setting, before, resumed);
  fail("phase", "no phase is called \"{}\"", kind);
}

namespace {

// Stored features are those of one and the same image each epoch.
void check_deterministic(const Config& config, std::size_t index) {
  const std::string key = fmt::format("phase.{}.cache_features", index);
  usage_require(!config.phases[index].data.augment, key,
                "needs images that stay the same: expected data.augment = false");
  const auto selection = patch_selection(config, Split::train);
  if (!selection) return;
  usage_require(!selection->probabilistic, key,
                "needs patches that stay the same: expected select.probabilistic = false");
  usage_require(selection->prob == 1 && selection->decay_rate == 0, key,
                "needs patches that stay the same: expected select.prob = 1 and "
                "select.prob_decay_rate = 0, so that every batch is filtered");
}

// Terms of [loss] act on phases that learn classes; a run of others alone would not see them.
void check_loss_terms(const Config& config) {
  if (std::any_of(config.phases.begin(), config.phases.end(), learns_classes)) return;
  const LossConfig& loss = config.loss;
  for (const auto& [key, value] : {std::pair{"sparsity", loss.sparsity},
                                   {"gate_budget", loss.gate_budget},
                                   {"mle", loss.mle},
                                   {"label_smoothing", loss.label_smoothing},
                                   {"distill", loss.distill}})
    usage_require(value == 0, fmt::format("loss.{}", key),
                  "expected 0 in a run without a phase that learns classes (supervised, finetune, "
                  "detect), got {}",
                  value);
}

}  // namespace

void check_phases(const Config& config) {
  check_loss_terms(config);
  bool pruned = false;
  for (std::size_t i = 0; i < config.phases.size(); ++i) {
    const PhaseConfig& phase = config.phases[i];
    const std::string kind = fmt::format("phase.{}.kind", i);
    if (phase.kind == "prune") {
      usage_require(!pruned, kind, "a second \"prune\" has no priors left to prune by");
      const char* const needed = phase.method == nn::PruneOptions::Method::keys ? "gmm" : "fiak";
      usage_require(config.model.attention == needed, kind,
                    "\"prune\" with method = \"{}\" needs model.attention = \"{}\", got \"{}\"",
                    enum_name(phase.method), needed, config.model.attention);
      pruned = true;
    }
    usage_require(phase.freeze.empty() || phase.kind != "prune", fmt::format("phase.{}.freeze", i),
                  "not an option of \"prune\", which trains nothing");
    if (phase.cache_features) check_deterministic(config, i);
  }
}

void check_phases(const Config& config, const PhaseData& data) {
  const std::unique_ptr<const Teacher> teacher = teacher_of(config);
  for (std::size_t i = 0; i < config.phases.size(); ++i) {
    if (config.phases[i].kind == "contrastive")
      check_contrastive_data(config.phases[i], i, *data[i]);
    if (teacher && learns_classes(config.phases[i])) teacher->require_knows(*data[i]->train);
  }
}

}  // namespace hg
