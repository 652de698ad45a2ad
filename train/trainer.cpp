#include "train/trainer.h"

#include <algorithm>

#include "tensor/backend.h"
#include "train/groups.h"
#include "train/non_finite.h"
#include "train/text.h"
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

// Where a resumed run goes on, which must be a place in its `epochs` of `batches`.
Position start_position(const TrainerOptions& options, const nn::Vit& model, Optimizer& optimizer,
                        std::int64_t epochs, std::int64_t batches) {
  if (!options.resume) return {};
  const Position p = load_state(options.folder, model, optimizer);
  usage_require(p.phase == 0 && p.epoch <= epochs && p.batch <= batches && p.rows == p.epoch &&
                    optimizer.steps() == p.epoch * batches + p.batch,
                options.folder + "/state.safetensors",
                "step {}, batch {} of epoch {}, is no place in {} epochs of {} batches",
                optimizer.steps(), p.batch, p.epoch, epochs, batches);
  return p;
}

double field_of(const CsvRow& row, std::string_view column) {
  const auto index = std::find(kColumns.begin(), kColumns.end(), column) - kColumns.begin();
  const std::string& text = row[static_cast<std::size_t>(index)];
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  usage_require(*end == '\0' && !text.empty(), "metrics.csv", "{} is \"{}\", expected a number",
                column, text);
  return value;
}

Scores scores_of(const CsvRow& row) {
  return {field_of(row, "accuracy"), field_of(row, "micro_f1"), field_of(row, "macro_f1")};
}

}  // namespace

Trainer::Trainer(const Config& config, RunData data, const TrainerOptions& options)
    : config_(config),
      options_(options),
      model_(vit_options(config), static_cast<std::uint64_t>(config.run.seed)),
      optimizer_(model_, phase().train),
      data_(std::move(data)),
      train_loader_(*data_.train, options_of(Split::train)),
      test_loader_(*data_.test, options_of(Split::test)),
      schedule_(phase().train, train_loader_.batches()),
      position_(start_position(options, model_, optimizer_, phase().train.epochs,
                               train_loader_.batches())),
      log_(open_log(options, position_)) {
  counter_.start_at(position_.flops, position_.flops_matmul);
  if (!log_.rows().empty()) result_.scores = scores_of(log_.rows().back());
  energy_ = std::make_unique<RunEnergy>(
      config.run, RunEnergyOptions{options.folder, options.keep_energy,
                                   position_.energy_before_epoch_uj, options.trace});
}

LoaderOptions Trainer::options_of(Split split) {
  LoaderOptions options = loader_options(config_, phase(), split);
  options.on_work = [this, split](std::int64_t start_ns, std::int64_t end_ns) {
    energy_->note_loading(split, start_ns, end_ns);
  };
  return options;
}

RunResult Trainer::run() {
  const std::int64_t steps = train_loader_.batches() * phase().train.epochs;
  Progress progress(stderr, options_.progress, steps, optimizer_.steps());
  train(progress);
  result_.position = position_;
  result_.steps = optimizer_.steps();
  result_.test_images = data_.test->size();
  result_.energy = energy_->stop();
  result_.co2 = energy_->co2({result_.energy.energy_uj});
  result_.faults = energy_->faults();
  result_.trace_note = energy_->trace_note();
  return result_;
}

void Trainer::train(Progress& progress) {
  const ObserverGuard guard(counter_);
  if (position_.epoch == phase().train.epochs) save();  // all done before: files may be missing
  while (position_.epoch < phase().train.epochs && result_.end == RunEnd::finished) {
    progress.begin(fmt::format("epoch {}/{}", position_.epoch + 1, phase().train.epochs));
    if (over_budget() || !train_epoch(progress) || !finish_epoch(progress)) save();
  }
}

bool Trainer::must_stop() {
  if (!signals_.requested()) return over_budget();
  result_.end = RunEnd::interrupted;
  return true;
}

// The budget is of the whole run, parts before a resume included.
bool Trainer::over_budget() {
  const double budget = config_.run.joule_budget;
  if (budget == 0 || energy::to_joules(energy_->cut()).value < budget) return false;
  result_.end = RunEnd::budget;
  return true;
}

bool Trainer::train_epoch(Progress& progress) {
  const std::int64_t start = now_ns();
  const double before = position_.epoch_seconds, run_before = position_.seconds;
  if (position_.batch == 0) position_.flops_before_epoch = counter_.flops();
  if (!position_.forecast.made()) last_joules_ = energy::to_joules(energy_->cut()).value;
  Batch batch;
  train_loader_.start_epoch(position_.epoch, position_.batch);
  while (train_loader_.next(batch)) {
    const StepInput input{batch.images,
                          batch.labels,
                          batch.keep,
                          config_.loss,
                          static_cast<std::uint64_t>(config_.run.seed),
                          optimizer_.steps()};
    const Batchwise step = forward_backward(model_, input);
    if (!optimizer_.step(step.gradients, schedule_.learning_rate(optimizer_.steps())))
      explain_non_finite_step(model_, input);
    const double elapsed = static_cast<double>(now_ns() - start) * 1e-9;
    position_.epoch_loss += step.loss * static_cast<double>(batch.size());
    position_.epoch_images += batch.size();
    position_.epoch_tokens += batch.size() * (tokens_of(model_, batch.keep));
    position_.unscored_images += batch.selection.unscored;
    counter_.add(batch.selection.flops);
    position_.images += batch.size();
    position_.batch += 1;
    position_.epoch_seconds = before + elapsed;
    position_.seconds = run_before + elapsed;
    if (!position_.forecast.made()) foretell_energy(progress);
    progress.step(batch.size(), step.loss, [this] { return energy_fields(); });
    if (must_stop()) return false;
  }
  return true;
}

// Made once, early in the first epoch.
void Trainer::foretell_energy(Progress& progress) {
  const double now = energy::to_joules(energy_->cut()).value;
  step_joules_.push_back(now - last_joules_);
  last_joules_ = now;
  const std::int64_t batches = train_loader_.batches(), epochs = phase().train.epochs;
  if (position_.batch < forecast_step(batches)) return;
  const double evaluation = static_cast<double>(data_.test->size()) * energy_->forward_share() /
                            static_cast<double>(phase().train.batch_size);
  position_.forecast =
      foretell(step_joules_, {now, static_cast<double>(batches * epochs - optimizer_.steps()),
                              static_cast<double>(epochs - position_.epoch) * evaluation});
  position_.forecast.step = optimizer_.steps();
  const Forecast& f = position_.forecast;
  progress.note(fmt::format("the whole run is predicted to take {} ({} to {})",
                            with_prefix(f.energy_j, "J"), with_prefix(f.low_j, "J"),
                            with_prefix(f.high_j, "J")));
}

ProgressFields Trainer::energy_fields() const {
  const energy::MicroJoules total = energy_->total();
  ProgressFields fields{with_prefix(energy_->power().value, "W"),
                        with_prefix(energy::to_joules(total).value, "J"),
                        with_prefix(energy_->co2(total).value, "g CO2")};
  if (const Forecast& f = position_.forecast; f.made())
    fields.push_back(fmt::format("predicted {} ({} to {})", with_prefix(f.energy_j, "J"),
                                 with_prefix(f.low_j, "J"), with_prefix(f.high_j, "J")));
  return fields;
}

bool Trainer::finish_epoch(Progress& progress) {
  const std::int64_t start = now_ns();
  const std::uint64_t flops = counter_.flops(), flops_matmul = counter_.flops_matmul();
  const std::optional<Evaluation> e =
      evaluate(model_, test_loader_, [this] { return must_stop(); });
  if (!e) {  // a resumed run begins it anew
    counter_.start_at(flops, flops_matmul);
    return false;
  }
  counter_.add(e->selection_flops);
  const double evaluating = static_cast<double>(now_ns() - start) * 1e-9;
  result_.scores = {e->metrics.accuracy, e->metrics.micro_f1, e->metrics.macro_f1};
  const auto images = static_cast<double>(position_.epoch_images);
  const double loss = position_.epoch_loss / images, rate = images / position_.epoch_seconds;
  const energy::MicroJoules total = energy_->cut(),
                            used{total.value - position_.energy_before_epoch_uj};
  position_.seconds += evaluating;
  log_.append({phase().kind, std::to_string(position_.epoch + 1),
               std::to_string(optimizer_.steps()), exact(loss), exact(e->loss),
               exact(e->metrics.accuracy), exact(e->metrics.micro_f1), exact(e->metrics.macro_f1),
               exact(rate), exact(static_cast<double>(position_.epoch_tokens) / images),
               std::to_string(counter_.flops() - position_.flops_before_epoch),
               exact(energy::to_joules(used).value), exact(energy_->co2(used).value),
               exact(position_.epoch_seconds + evaluating)});
  progress.line(fmt::format(
      "epoch {}/{}  loss {:.4f}  test loss {:.4f}  accuracy {:.4f}  macro F1 {:.4f}  {:.0f} "
      "images/s  {}  {}  {:.1f} s",
      position_.epoch + 1, phase().train.epochs, loss, e->loss, e->metrics.accuracy,
      e->metrics.macro_f1, rate, with_prefix(energy::to_joules(used).value, "J"),
      with_prefix(energy_->co2(used).value, "g CO2"), position_.epoch_seconds + evaluating));
  position_.epoch += 1;
  position_.rows += 1;
  position_.batch = 0;
  position_.epoch_loss = 0;
  position_.epoch_images = 0;
  position_.epoch_tokens = 0;
  position_.epoch_seconds = 0;
  position_.energy_before_epoch_uj = total.value;
  save();
  return true;
}

// The ledger comes first, as the state counts on what it holds; then the model: with it newer than
// the state, a resumed run just makes it again.
void Trainer::save() {
  require_finite_update(weights_of(model_));
  require_finite_update(optimizer_.state());
  position_.flops = counter_.flops();
  position_.flops_matmul = counter_.flops_matmul();
  energy_->save();
  save_model(options_.folder, model_,
             {data_.train->class_names(), data_.train->normalization().for_channels(
                                              static_cast<int>(config_.model.in_channels))});
  save_state(options_.folder, model_, optimizer_, position_);
}

}  // namespace hg
