#include "train/run/trainer.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "tensor/base/clock.h"
#include "tensor/base/process.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/config/selection.h"
#include "train/phases/registry.h"
#include "train/phases/step_cost.h"
#include "train/run/confusion_rows.h"
#include "train/run/forecast.h"
#include "train/run/overview.h"
#include "train/run/rank_checks.h"
#include "train/step/non_finite.h"
#include "train/store/run_folder.h"

namespace hg {
namespace {

// The log must not hold rows that come after the state.
std::optional<std::size_t> rows_of(const RunState* state) {
  if (!state) return std::nullopt;
  return static_cast<std::size_t>(state->position.rows);
}

std::optional<StepsLog::Place> place_of(const RunState* state) {
  if (!state) return std::nullopt;
  return StepsLog::Place{state->position.phase, state->steps};
}

// A resumed run must stand at a place in its phases, epochs and batches.
void check_phase(const Config& config, const RunState& state) {
  usage_require(state.position.phase < static_cast<std::int64_t>(config.phases.size()),
                state.source, "phase {} of a run of {} phases", state.position.phase,
                config.phases.size());
}

void check_place(const Config& config, const RunState* state, std::int64_t batches) {
  if (!state) return;
  const Position& p = state->position;
  const auto phase = config.phases.begin() + p.phase;
  std::int64_t rows = p.epoch;
  std::for_each(config.phases.begin(), phase, [&](auto& before) { rows += epochs_of(before); });
  usage_require(p.epoch <= epochs_of(*phase) && p.batch <= batches && p.rows == rows &&
                    state->steps == p.epoch * batches + p.batch,
                state->source,
                "step {}, batch {} of epoch {}, is no place in {} epochs of {} batches",
                state->steps, p.batch, p.epoch, epochs_of(*phase), batches);
}

// "loss 0.1  test loss 0.2  accuracy 0.9": what the epoch has of it
std::string line_of(const EpochRow& row, const std::string& note) {
  std::string text;
  if (row.train_loss) text += fmt::format("  loss {:.4f}", *row.train_loss);
  if (row.sparsity) text += fmt::format("  sparsity {:.4f}", *row.sparsity);
  if (row.small_weights)
    text += fmt::format("  small weights {:.1f} %  support {:.1f}", 100 * *row.small_weights,
                        *row.effective_support);
  if (row.test_loss) text += fmt::format("  test loss {:.4f}", *row.test_loss);
  if (row.accuracy)
    text += fmt::format("  accuracy {:.4f}  macro F1 {:.4f}", *row.accuracy, *row.macro_f1);
  if (!note.empty()) text += "  " + note;
  if (row.images_per_s) text += fmt::format("  {:.0f} images/s", *row.images_per_s);
  return text + fmt::format("  {}  {}  {:.1f} s", with_prefix(row.energy_j, "J"),
                            with_prefix(row.co2_g, "g CO2"), row.seconds);
}

// The first rank reads it for all. None: the run begins.
std::unique_ptr<RunState> state_of(const RunOptions& options) {
  const bool here = goes_on(options.folder, options.resume);
  if (ranks().alone())
    return here ? std::make_unique<RunState>(load_state(options.folder)) : nullptr;
  const std::string path = RunFolder{options.folder}.state();
  const std::string bytes = ranks().broadcast(here ? read_text(path) : "");
  return bytes.empty() ? nullptr : std::make_unique<RunState>(parse_state(bytes, path));
}

// Where this rank keeps the file; empty: another one does.
std::string kept(const RunOptions& options, std::string (RunFolder::*file)() const) {
  return options.folder.empty() ? "" : (RunFolder{options.folder}.*file)();
}

}  // namespace

bool goes_on(const std::string& folder, bool resume) {
  return resume && !folder.empty() && is_file(RunFolder{folder}.state());
}

Trainer::Trainer(const Config& config, PhaseData data, const RunOptions& options)
    : Trainer(config, std::move(data), options, state_of(options).get()) {}

Trainer::Trainer(const Config& config, PhaseData data, const RunOptions& options,
                 const RunState* state)
    : config_(config),
      data_(std::move(data)),
      options_(options),
      init_(state ? std::nullopt : initial_weights(config)),
      position_(state ? (check_phase(config, *state), state->position) : Position{}),
      phase_(first_phase(state)),
      log_((check_place(config, state, phase_->batches()), kept(options, &RunFolder::metrics)),
           config.loss.sparsity > 0, rows_of(state)),
      steps_(kept(options, &RunFolder::steps), place_of(state)) {
  if (state) {
    phase_->load_moments(*state);
    notes_.push_back(fmt::format("goes on at step {} of {} epoch {}/{}, after {} of {} batches",
                                 state->steps, phase_config().kind, position_.epoch + 1,
                                 epochs_of(phase_config()), position_.batch, phase_->batches()));
  } else if (init_) {
    notes_ = differences(*init_, config, phase_->weights().tensors);
  }
  if (options.overview) {
    const std::vector<std::string> lines = overview(config, data_);
    notes_.insert(notes_.end(), lines.begin(), lines.end());
  }
  if (config.phases.size() == 1 && !position_.forecast.made())
    epoch_flops_ = flops_by_epoch(config, 0);
  flops_beside_ = {position_.flops, position_.flops_matmul};
  energy_ = std::make_unique<RunEnergy>(
      config.run, RunEnergyOptions{options.folder,
                                   options.resume,
                                   {position_.energy_saved_uj, position_.energy_before_epoch_uj},
                                   options.trace});
  if (options.overview) notes_.push_back("energy: " + energy_->described());
  saved_ns_ = shared_ns_ = now_ns();
  check_same_weights();
}

std::unique_ptr<TrainingPhase> Trainer::first_phase(const RunState* state) {
  if (state) return phase_at(position_.phase, &state->weights, true);
  return phase_at(0, init_ ? &init_->weights : nullptr, false);
}

std::unique_ptr<TrainingPhase> Trainer::phase_at(std::int64_t index, const Safetensors* before,
                                                 bool resumed) {
  const auto i = static_cast<std::size_t>(index);
  const auto note = [this](Split split, std::int64_t start_ns, std::int64_t end_ns) {
    energy_->note_loading(split, start_ns, end_ns);
  };
  PhaseSetting setting{config_, i, *data_[i], note};
  if (index == 0 && !resumed && init_) setting.weights_source = init_->source;
  return make_phase(setting, before, resumed);
}

const PhaseConfig& Trainer::phase_config() const {
  return config_.phases[static_cast<std::size_t>(position_.phase)];
}

const RunData& Trainer::phase_data() const {
  return *data_[static_cast<std::size_t>(position_.phase)];
}

std::string Trainer::title() const {
  const std::string epoch =
      fmt::format("epoch {}/{}", position_.epoch + 1, epochs_of(phase_config()));
  return config_.phases.size() == 1 ? epoch : fmt::format("{} {}", phase_config().kind, epoch);
}

RunEnding Trainer::run() {
  run_phase();
  while (ending_.end == RunEnd::finished &&
         position_.phase + 1 < static_cast<std::int64_t>(config_.phases.size())) {
    enter_next_phase();
    run_phase();
  }
  ending_.steps = phase_->steps();
  summarize(ending_.summary);
  ending_.trace_note = energy_->trace_note();
  return ending_;
}

// Scores, and how sparse weights are, come from the last epoch that has them.
void Trainer::summarize(RunSummary& s) {
  energy_->stop(s);
  s.name = config_.run.name;
  s.status = enum_name(ending_.end);
  s.seconds = position_.seconds;
  s.flops = position_.flops;
  s.flops_matmul = position_.flops_matmul;
  s.images = position_.images;
  s.test_images = phase_data().test->size();
  s.trained_parameters = phase_->trained_parameters();
  s.prediction = position_.forecast;
  s.figures = position_.figures;
  if (const auto selection = patch_selection(config_, phase_config(), Split::train))
    s.select = {std::string(enum_name(config_.select.mode)),
                selection->keep,
                *selection->keep_end,
                patches_of(config_.model),
                selection->mode == PatchSelection::Mode::drop,
                position_.unscored_images};
  SparsitySummary sparse{
      std::string(enum_name(config_.loss.sparsity_kind)), config_.loss.sparsity, {}, {}, {}};
  for (const EpochRow& row : log_.rows()) {
    if (row.accuracy) {
      s.accuracy = row.accuracy;
      s.micro_f1 = row.micro_f1;
      s.macro_f1 = row.macro_f1;
    }
    if (row.sparsity) sparse.term = row.sparsity;
    if (row.small_weights) sparse.small_weights = row.small_weights;
    if (row.effective_support) sparse.effective_support = row.effective_support;
  }
  if (config_.loss.sparsity > 0) s.sparsity = sparse;
  if (s.micro_f1 && *s.micro_f1 > 0) s.joules_per_f1 = s.energy_j.value / *s.micro_f1;
}

void Trainer::enter_next_phase() {
  const ModelWeights left = phase_->weights();
  const Safetensors before{{left.tensors.begin(), left.tensors.end()}, left.metadata};
  position_.phase += 1;
  position_.epoch = 0;
  phase_.reset();  // its optimizer and loaders go first
  phase_ = phase_at(position_.phase, &before, false);
  check_same_weights();
}

void Trainer::check_same_weights() const {
  check_same(ranks(), "weights", fingerprint_of(phase_->weights().tensors));
}

void Trainer::run_phase() {
  const std::int64_t epochs = epochs_of(phase_config());
  Progress progress(stderr, options_.progress, phase_->batches() * epochs, phase_->steps());
  if (!notes_.empty()) progress.line(fmt::format("{}", fmt::join(std::exchange(notes_, {}), "\n")));
  if (position_.epoch == epochs) save();  // all done before: files may be missing
  while (position_.epoch < epochs && ending_.end == RunEnd::finished) {
    progress.begin(title());
    energy_uj_ = energy_->cut().value;
    if (over_budget() || !train_epoch(progress) || !finish_epoch(progress)) save();
  }
}

bool Trainer::train_epoch(Progress& progress) {
  const std::int64_t start = now_ns();
  const double before = position_.epoch_seconds, run_before = position_.seconds;
  if (position_.batch == 0) position_.flops_before_epoch = flops().all;
  last_joules_ = energy::to_joules({energy_uj_}).value;
  phase_->start_epoch(position_.epoch, position_.batch);
  const auto next_step = [this] {
    energy_->begin_step(Phase::forward);
    return phase_->step();
  };
  while (const auto step = next_step()) {
    const double elapsed = seconds_since(start);
    position_.epoch_loss += step->loss * static_cast<double>(step->images);
    position_.epoch_sparsity += step->sparsity * static_cast<double>(step->images);
    position_.epoch_images += step->images;
    position_.epoch_tokens += step->tokens;
    position_.images += step->images;
    position_.batch += 1;
    position_.epoch_seconds = before + elapsed;
    position_.seconds = run_before + elapsed;
    steps_.add(
        {position_.phase, position_.epoch + 1, phase_->steps(), step->loss, step->learning_rate});
    const Told told = agree(*step);
    if (!position_.forecast.made()) predict(progress);
    progress.step(step->images, step->loss, [this] { return energy_fields(); });
    tell_trouble(progress);
    if (told.stop) return false;
    if (told.save) save();
  }
  return true;
}

void Trainer::tell_trouble(Progress& progress) {
  const std::string trouble = energy_->new_trouble();
  if (!trouble.empty())
    progress.warning(trouble + "; the run goes on, and the next save tries again");
}

double Trainer::relative_flops(std::int64_t epoch) const {
  return epoch_flops_[static_cast<std::size_t>(epoch)] /
         epoch_flops_[static_cast<std::size_t>(position_.epoch)];
}

// Made once, early in the first epoch. Of a run of one phase: others may cost anything.
void Trainer::predict(Progress& progress) {
  if (epoch_flops_.empty()) return;
  const double now = energy::to_joules({energy_uj_}).value;
  step_joules_.push_back(now - last_joules_);
  last_joules_ = now;
  const std::int64_t batches = phase_->batches(), epochs = phase_config().train.epochs;
  if (position_.batch < forecast_step(batches)) return;
  // In steps of this epoch: others may keep more patches, or filter fewer batches.
  double steps = static_cast<double>(batches - position_.batch);
  std::int64_t evaluations = 0;
  for (std::int64_t e = position_.epoch; e < epochs; ++e) {
    if (e > position_.epoch) steps += static_cast<double>(batches) * relative_flops(e);
    evaluations += is_evaluated(phase_config(), e);
  }
  const double evaluation = static_cast<double>(phase_data().test->size()) *
                            energy_->forward_share() /
                            static_cast<double>(phase_config().train.batch_size);
  position_.forecast =
      predict_energy(step_joules_, {now, steps, static_cast<double>(evaluations) * evaluation});
  position_.forecast.step = phase_->steps();
  progress.note(fmt::format("the whole run is predicted to take {}",
                            with_prefix(position_.forecast.energy_j, "J")));
}

ProgressFields Trainer::energy_fields() const {
  const energy::MicroJoules total = energy_->total();
  ProgressFields fields{with_prefix(energy_->power().value, "W"),
                        with_prefix(energy::to_joules(total).value, "J"),
                        with_prefix(energy_->co2(total).value, "g CO2")};
  if (const Forecast& f = position_.forecast; f.made())
    fields.push_back("predicted " + with_prefix(f.energy_j, "J"));
  return fields;
}

bool Trainer::finish_epoch(Progress& progress) {
  const std::int64_t start = now_ns();
  const Flops before = flops();
  const bool evaluated = is_evaluated(phase_config(), position_.epoch);
  std::optional<EpochReport> report(std::in_place);
  const auto next_batch = [this] {
    energy_->begin_step(Phase::eval);
    return must_stop();
  };
  if (evaluated) report = phase_->finish_epoch(next_batch);
  if (!report) {  // a resumed run begins it anew
    Flops undone = flops();
    flops_beside_ -= undone -= before;
    return false;
  }
  flops_beside_.all += report->data_flops;
  const double evaluating = seconds_since(start);
  position_.seconds += evaluating;
  const energy::MicroJoules total = energy_->cut(),
                            used{total.value - position_.energy_before_epoch_uj};
  const EpochRow row = row_of(*report, position_.epoch_seconds + evaluating, used);
  log_.append(row);
  if (report->confusion && !options_.folder.empty())
    write_confusion(RunFolder{options_.folder}.confusion(),
                    confusion_rows(*report->confusion, phase_data().train->class_names()));
  progress.line(title() + line_of(row, report->note));
  if (evaluated) position_.figures = report->figures;
  position_.epoch += 1;
  position_.rows += 1;
  position_.batch = 0;
  position_.epoch_loss = 0;
  position_.epoch_sparsity = 0;
  position_.epoch_images = 0;
  position_.epoch_tokens = 0;
  position_.epoch_seconds = 0;
  position_.energy_before_epoch_uj = total.value;
  save();
  return true;
}

EpochRow Trainer::row_of(const EpochReport& report, double seconds,
                         energy::MicroJoules used) const {
  EpochRow row;
  row.phase = phase_config().kind;
  row.epoch = position_.epoch + 1;
  row.step = phase_->steps();
  if (const auto images = static_cast<double>(position_.epoch_images); images > 0) {
    row.train_loss = position_.epoch_loss / images;
    if (config_.loss.sparsity > 0) row.sparsity = position_.epoch_sparsity / images;
    row.images_per_s = images / position_.epoch_seconds;
    row.tokens_per_image = static_cast<double>(position_.epoch_tokens) / images;
  }
  row.test_loss = report.test_loss;
  if (const std::optional<Scores>& scores = report.scores) {
    row.accuracy = scores->accuracy;
    row.micro_f1 = scores->micro_f1;
    row.macro_f1 = scores->macro_f1;
  }
  if (report.spread) {
    row.small_weights = report.spread->small_share;
    row.effective_support = report.spread->effective_support;
  }
  row.flops = flops().all - position_.flops_before_epoch;
  row.energy_j = energy::to_joules(used).value;
  row.co2_g = energy_->co2(used).value;
  row.seconds = seconds;
  return row;
}

// The ledger comes first, as the state counts on what it holds; then the model: with it newer than
// the state, a resumed run just makes it again.
void Trainer::save() {
  const ModelWeights weights = phase_->weights();
  const NamedTensors moments = phase_->moments();
  require_finite_update(weights.tensors);
  require_finite_update(moments);
  const Flops done = flops();
  position_.flops = done.all;
  position_.flops_matmul = done.matmul;
  energy_->save();
  steps_.save();
  saved_ns_ = shared_ns_ = now_ns();
  if (options_.folder.empty()) return;
  position_.energy_saved_uj = std::min(position_.energy_before_epoch_uj, energy_->saved_uj());
  const Dataset& data = *phase_data().train;
  save_model(options_.folder, weights,
             {data.class_names(),
              data.normalization().for_channels(static_cast<int>(config_.model.in_channels))});
  save_state(options_.folder, weights, moments, phase_->steps(), position_);
  saved_ns_ = now_ns();
}

}  // namespace hg
