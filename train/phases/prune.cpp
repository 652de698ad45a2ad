// prune: drops what the learned priors say matters least, sets what survives to 1 (the priors are
// gone) and judges the result. It trains nothing; a phase after it does.
#include "nn/attention/prune.h"

#include <nlohmann/json.hpp>

#include "tensor/base/enum_names.h"
#include "tensor/base/usage_error.h"
#include "tensor/random.h"
#include "tensor/transfer.h"
#include "train/phases/registry.h"
#include "train/phases/sample_batch.h"
#include "train/store/model.h"

namespace hg {
namespace {

using Method = nn::PruneOptions::Method;

class PrunePhase final : public TrainingPhase {
 public:
  PrunePhase(const PhaseSetting& setting, const Safetensors* before, bool resumed);

  std::optional<EpochReport> finish_epoch(const std::function<bool()>& stop) override;
  ModelWeights weights() const override { return {weights_of(*model_), metadata_}; }

 private:
  void prune_model(const PhaseConfig& phase);

  std::unique_ptr<const nn::Vit> model_;
  Loader test_loader_;
  std::map<std::string, std::string> metadata_;  // "prune": how, and what came of it
  std::string note_;
};

nn::VitOptions options_at_start(const PhaseSetting& s, const Safetensors* before) {
  return before ? vit_options(s.config, *before, s.weights_source) : vit_options(s.config);
}

std::vector<Tensor> priors_of(const nn::Vit& model) {
  std::vector<Tensor> priors;
  for (std::int64_t i = 0; i < model.options().depth; ++i) {
    const std::string name = fmt::format("blocks.{}.attn.pi", i);
    const nn::Parameter* pi = model.parameters().find(name);
    require(pi != nullptr, "prune", "the model has no {}", name);
    priors.push_back(on_host(pi->value));
  }
  return priors;
}

nn::PruneOptions prune_options(const PhaseConfig& phase) {
  nn::PruneOptions o;
  o.method = phase.method;
  o.fraction = phase.fraction;
  o.key_fraction = phase.method == Method::mixed ? phase.key_fraction : 0;
  o.scope = phase.scope;
  o.min_per_row = phase.min_per_row;
  o.protect_cls = phase.protect_cls;
  o.block = phase.block;
  return o;
}

std::string describe(const PhaseConfig& phase, const nn::Pruned& pruned) {
  const nn::PruneCounts& c = pruned.counts;
  nlohmann::ordered_json out{{"method", enum_name(phase.method)},
                             {"fraction", phase.fraction},
                             {"key_fraction", prune_options(phase).key_fraction},
                             {"scope", enum_name(phase.scope)},
                             {"min_per_row", phase.min_per_row},
                             {"protect_cls", phase.protect_cls},
                             {"block", phase.block},
                             {"pairs", c.pairs},
                             {"kept_pairs", c.kept_pairs},
                             {"keys", c.keys},
                             {"kept_keys", c.kept_keys},
                             {"restored_rows", c.restored_rows}};
  for (const auto& support : pruned.supports)
    out["kept_pairs_of_layers"].push_back(support->pairs());
  return out.dump();
}

PrunePhase::PrunePhase(const PhaseSetting& s, const Safetensors* before, bool resumed)
    : model_(std::make_unique<const nn::Vit>(options_at_start(s, before),
                                             static_cast<std::uint64_t>(s.config.run.seed))),
      test_loader_(*s.data.test, s.loading(Split::test)) {
  if (before) {
    metadata_ = before->metadata;
    take_weights(*model_, *before, resumed);
  }
  if (!resumed) prune_model(s.phase());
}

void PrunePhase::prune_model(const PhaseConfig& phase) {
  const nn::Pruned pruned = nn::prune(priors_of(*model_), prune_options(phase));
  nn::VitOptions options = model_->options();
  options.attention.variant = "fiak_pruned";
  options.supports = pruned.supports;
  const NamedTensors all = weights_of(*model_);
  auto model = std::make_unique<const nn::Vit>(options, model_->parameters().seed());
  take_weights(*model, {{all.begin(), all.end()}, {}}, false);
  model_ = std::move(model);
  metadata_["prune"] = describe(phase, pruned);
  const nn::PruneCounts& c = pruned.counts;
  note_ = fmt::format("kept {} of {} pairs and {} of {} keys", c.kept_pairs, c.pairs, c.kept_keys,
                      c.keys);
  if (c.restored_rows > 0) note_ += fmt::format(", {} emptied rows restored", c.restored_rows);
}

std::optional<EpochReport> PrunePhase::finish_epoch(const std::function<bool()>& stop) {
  std::optional<EpochReport> report = report_on(*model_, test_loader_, Judged::classes, stop);
  if (report) report->note = note_;
  return report;
}

void check_keys(Config& config, std::size_t index, const Origins& origins) {
  const PhaseConfig& phase = config.phases[index];
  if (phase.method == Method::mixed)
    usage_require(
        phase.fraction >= phase.key_fraction, origins.who(fmt::format("phase.{}.fraction", index)),
        "expected at least key_fraction = {}, got {}", phase.key_fraction, phase.fraction);
}

void check_priors(const Config& config, std::size_t index) {
  const PhaseConfig& phase = config.phases[index];
  const std::string kind = fmt::format("phase.{}.kind", index);
  for (std::size_t i = 0; i < index; ++i)
    usage_require(!kind_of(config.phases[i]).prunes, kind,
                  "a second \"prune\" has no priors left to prune by");
  const char* const needed = phase.method == Method::keys ? "gmm" : "fiak";
  usage_require(config.model.attention == needed, kind,
                "\"prune\" with method = \"{}\" needs model.attention = \"{}\", got \"{}\"",
                enum_name(phase.method), needed, config.model.attention);
  usage_require(phase.freeze.empty(), fmt::format("phase.{}.freeze", index),
                "not an option of \"prune\", which trains nothing");
}

}  // namespace

nn::VitOptions options_to_measure(const Config& config) {
  nn::VitOptions options = vit_options(config);
  if (config.model.attention != "fiak_pruned") return options;
  for (const PhaseConfig& phase : config.phases) {
    if (!kind_of(phase).prunes) continue;
    const std::int64_t tokens = options.patches() + 1;
    std::vector<Tensor> priors;
    RandomStream stream(static_cast<std::uint64_t>(config.run.seed), "priors");
    for (std::int64_t l = 0; l < options.depth; ++l) {
      priors.push_back(Tensor::empty(phase.method == Method::keys
                                         ? Shape{options.heads, tokens}
                                         : Shape{options.heads, tokens, tokens}));
      fill_uniform(priors.back(), stream, 0, 1);
    }
    options.supports = nn::prune(priors, prune_options(phase)).supports;
    return options;
  }
  return options;
}

const PhaseKind kPrune{.name = "prune",
                       .prunes = true,
                       .resolve = check_keys,
                       .check = check_priors,
                       .phase = [](const PhaseSetting& s, const Safetensors* before,
                                   bool resumed) -> std::unique_ptr<TrainingPhase> {
                         return std::make_unique<PrunePhase>(s, before, resumed);
                       }};

}  // namespace hg
