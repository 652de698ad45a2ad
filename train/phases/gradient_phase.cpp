// A phase that trains by gradients: a learner, loaders, schedule and optimizer.
#include "tensor/random.h"
#include "train/phases/learner.h"
#include "train/phases/registry.h"
#include "train/step/optimizer.h"
#include "train/step/owners.h"
#include "train/step/schedule.h"

namespace hg {
namespace {

LoaderOptions loading(const PhaseSetting& s, Split split, const Learner& learner) {
  const PhaseKind& kind = kind_of(s.phase());
  LoaderOptions options = kind.loading ? kind.loading(s, split) : s.loading(split);
  options.needed = [&learner, split](const Batch& b) { return learner.needed_images(b, split); };
  return options;
}

std::unique_ptr<Learner> learner_of(const PhaseSetting& s, const Safetensors* before,
                                    bool resumed) {
  const nn::VitOptions options =
      before ? vit_options(s.config, *before, s.weights_source) : vit_options(s.config);
  return kind_of(s.phase()).learner({s.config, s.index, options, &s.data, false, before, resumed});
}

class GradientPhase final : public TrainingPhase {
 public:
  GradientPhase(const PhaseSetting& s, const Safetensors* before, bool resumed)
      : learner_(learner_of(s, before, resumed)),
        train_loader_(*s.data.train, loading(s, Split::train, *learner_)),
        test_loader_(*s.data.test, loading(s, Split::test, *learner_)),
        metadata_(before ? before->metadata : std::map<std::string, std::string>()),
        schedule_(s.phase().train, train_loader_.batches()),
        optimizer_(learner_->trained(), s.phase().train,
                   owning_ranks(learner_->model().parameters().device())) {}

  std::int64_t batches() const override { return train_loader_.batches(); }
  std::int64_t steps() const override { return optimizer_.steps(); }
  void start_epoch(std::int64_t epoch, std::int64_t first) override {
    train_loader_.start_epoch(epoch, first);
  }
  std::optional<StepReport> step() override;
  std::optional<EpochReport> finish_epoch(const std::function<bool()>& stop) override {
    return learner_->judge(test_loader_, stop);
  }
  ModelWeights weights() const override { return {weights_of(learner_->model()), metadata_}; }
  std::int64_t trained_parameters() const override { return learner_->trained_count(); }
  NamedTensors moments() const override { return optimizer_.state(); }
  void load_moments(const RunState& state) override {
    optimizer_.load(state.moments, state.steps, state.source);
  }

 private:
  const std::unique_ptr<Learner> learner_;
  Loader train_loader_, test_loader_;
  const std::map<std::string, std::string> metadata_;  // of the weights it began with
  const Schedule schedule_;
  Optimizer optimizer_;
  Batch batch_;
};

std::optional<StepReport> GradientPhase::step() {
  if (!train_loader_.next(batch_)) return std::nullopt;
  const Batchwise done = learner_->learn_from(batch_);
  const double learning_rate = schedule_.learning_rate(optimizer_.steps());
  if (!optimizer_.step(done.gradients, learning_rate, done.ranges, done.loss))
    learner_->explain(batch_);
  return StepReport{batch_.size(),
                    done.loss,
                    done.sparsity,
                    learning_rate,
                    batch_.size() * learner_->tokens_per_image(batch_),
                    batch_.selection.unscored,
                    batch_.selection.flops};
}

}  // namespace

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

std::unique_ptr<TrainingPhase> make_phase(const PhaseSetting& setting, const Safetensors* before,
                                          bool resumed) {
  const PhaseKind& kind = kind_of(setting.phase());
  if (kind.phase) return kind.phase(setting, before, resumed);
  return std::make_unique<GradientPhase>(setting, before, resumed);
}

}  // namespace hg
