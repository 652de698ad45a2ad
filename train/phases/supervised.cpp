#include "train/phases/supervised.h"

#include "train/evaluate.h"
#include "train/groups.h"

namespace hg {

SupervisedPhase::SupervisedPhase(const PhaseSetting& s, const Safetensors* before, bool resumed)
    : loss_(s.config.loss),
      seed_(s.seed()),
      metadata_(before ? before->metadata : std::map<std::string, std::string>()),
      model_(vit_options(s.config), static_cast<std::uint64_t>(s.config.run.seed)),
      optimizer_(model_, s.phase().train),
      train_loader_(*s.data.train, s.loading(Split::train)),
      test_loader_(*s.data.test, s.loading(Split::test)),
      schedule_(s.phase().train, train_loader_.batches()) {
  if (before) take_weights(model_, *before, resumed);
}

void SupervisedPhase::start_epoch(std::int64_t epoch, std::int64_t first) {
  train_loader_.start_epoch(epoch, first);
}

std::optional<StepReport> SupervisedPhase::step() {
  if (!train_loader_.next(batch_)) return std::nullopt;
  const StepInput input{batch_.images, batch_.labels,      loss_,
                        seed_,         optimizer_.steps(), batch_.keep};
  const Batchwise done = forward_backward(model_, input);
  if (!optimizer_.step(done.gradients, schedule_.learning_rate(optimizer_.steps())))
    explain_non_finite_step(model_, input);
  return StepReport{batch_.size(), done.loss, batch_.size() * tokens_of(model_, batch_.keep),
                    batch_.selection.unscored, batch_.selection.flops};
}

std::optional<EpochReport> SupervisedPhase::finish_epoch(const std::function<bool()>& stop) {
  const std::optional<Evaluation> e = evaluate(model_, test_loader_, stop);
  if (!e) return std::nullopt;
  EpochReport report;
  report.test_loss = e->loss;
  report.scores = Scores{e->metrics.accuracy, e->metrics.micro_f1, e->metrics.macro_f1};
  report.data_flops = e->selection_flops;
  return report;
}

void SupervisedPhase::load_moments(const RunState& state) {
  optimizer_.load(state.moments, state.steps, state.source);
}

}  // namespace hg
