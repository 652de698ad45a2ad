#include "train/trainer.h"

#include "tensor/backend.h"
#include "train/groups.h"
#include "train/usage_error.h"

namespace hg {
namespace {

const CsvRow kColumns{"phase",    "epoch",    "step",     "train_loss",   "test_loss",
                      "accuracy", "micro_f1", "macro_f1", "images_per_s", "tokens_per_image",
                      "flops",    "energy_j", "co2_g",    "seconds"};

std::int64_t now_ns() { return backend(Device::cpu).timestamp_ns(); }

std::string exact(double value) { return fmt::format("{}", value); }

// The state is read before the log, which must not hold rows that come after it.
CsvLog open_log(const TrainerOptions& options, const Position& position) {
  const std::string path = options.folder + "/metrics.csv";
  if (!options.resume) return CsvLog::create(path, kColumns);
  return CsvLog::resume(path, kColumns, static_cast<std::size_t>(position.rows));
}

Position start_position(const TrainerOptions& options, const nn::Vit& model, Optimizer& optimizer) {
  return options.resume ? load_state(options.folder, model, optimizer) : Position{};
}

}  // namespace

Trainer::Trainer(const Config& config, const TrainerOptions& options)
    : config_(config),
      options_(options),
      model_(vit_options(config), static_cast<std::uint64_t>(config.run.seed)),
      optimizer_(model_, phase().train),
      train_set_(open_data(config, phase().data, Split::train)),
      test_set_(open_data(config, phase().data, Split::test)),
      train_loader_(*train_set_, loader_options(config, phase(), Split::train)),
      test_loader_(*test_set_, loader_options(config, phase(), Split::test)),
      schedule_(phase().train, train_loader_.batches()),
      position_(start_position(options, model_, optimizer_)),
      log_(open_log(options, position_)) {
  usage_require(config.phases.size() == 1, "phase",
                "{} phases are not available in this version; expected one", config.phases.size());
  counter_.start_at(position_.flops, position_.flops_matmul);
}

RunResult Trainer::run() {
  const ObserverGuard guard(counter_);
  const std::int64_t steps = train_loader_.batches() * phase().train.epochs;
  Progress progress(stderr, options_.progress, steps, optimizer_.steps());
  if (position_.epoch >= phase().train.epochs) {  // a finished run: evaluate once more
    const Evaluation e = evaluate(model_, test_loader_);
    result_.metrics = e.metrics;
    result_.test_loss = e.loss;
  }
  while (position_.epoch < phase().train.epochs && !result_.interrupted) {
    progress.begin(fmt::format("epoch {}/{}", position_.epoch + 1, phase().train.epochs));
    if (train_epoch(progress)) {
      finish_epoch(progress);
    } else {
      result_.interrupted = true;
      save();
    }
  }
  result_.position = position_;
  return result_;
}

bool Trainer::train_epoch(Progress& progress) {
  const std::int64_t start = now_ns();
  const double before = position_.epoch_seconds, run_before = position_.seconds;
  flops_before_epoch_ = counter_.flops();
  Batch batch;
  train_loader_.start_epoch(position_.epoch, position_.batch);
  while (train_loader_.next(batch)) {
    const Batchwise step = forward_backward(
        model_, {batch.images, batch.labels, config_.loss.label_smoothing,
                 static_cast<std::uint64_t>(config_.run.seed), optimizer_.steps()});
    optimizer_.step(step.gradients, schedule_.learning_rate(optimizer_.steps()));
    const double elapsed = static_cast<double>(now_ns() - start) * 1e-9;
    position_.epoch_loss += step.loss * static_cast<double>(batch.size());
    position_.epoch_images += batch.size();
    position_.images += batch.size();
    position_.batch += 1;
    position_.epoch_seconds = before + elapsed;
    position_.seconds = run_before + elapsed;
    progress.step(batch.size(), step.loss);
    if (signals_.requested()) return false;
  }
  return true;
}

void Trainer::finish_epoch(Progress& progress) {
  const std::int64_t start = now_ns();
  const Evaluation e = evaluate(model_, test_loader_);
  const double evaluating = static_cast<double>(now_ns() - start) * 1e-9;
  result_.metrics = e.metrics;
  result_.test_loss = e.loss;
  const auto images = static_cast<double>(position_.epoch_images);
  const double loss = position_.epoch_loss / images, rate = images / position_.epoch_seconds;
  position_.seconds += evaluating;
  log_.append({phase().kind, std::to_string(position_.epoch + 1),
               std::to_string(optimizer_.steps()), exact(loss), exact(e.loss),
               exact(e.metrics.accuracy), exact(e.metrics.micro_f1), exact(e.metrics.macro_f1),
               exact(rate), std::to_string(model_.options().patches() + 1),
               std::to_string(counter_.flops() - flops_before_epoch_), "", "",
               exact(position_.epoch_seconds + evaluating)});
  progress.line(
      fmt::format("epoch {}/{}  loss {:.4f}  test loss {:.4f}  accuracy {:.4f}  macro F1 "
                  "{:.4f}  {:.0f} images/s  {:.1f} s",
                  position_.epoch + 1, phase().train.epochs, loss, e.loss, e.metrics.accuracy,
                  e.metrics.macro_f1, rate, position_.epoch_seconds + evaluating));
  position_.epoch += 1;
  position_.rows += 1;
  position_.batch = 0;
  position_.epoch_loss = 0;
  position_.epoch_images = 0;
  position_.epoch_seconds = 0;
  save();
}

void Trainer::save() {
  position_.flops = counter_.flops();
  position_.flops_matmul = counter_.flops_matmul();
  save_state(options_.folder, model_, optimizer_, position_);
  save_model(options_.folder, model_,
             {train_set_->class_names(), train_set_->normalization().for_channels(
                                             static_cast<int>(config_.model.in_channels))});
}

}  // namespace hg
