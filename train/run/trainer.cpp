#include "train/run/trainer.h"

#include <algorithm>

#include "tensor/backend.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/phases/registry.h"
#include "train/step/non_finite.h"

namespace hg {
namespace {

const CsvRow kColumns{"phase",    "epoch",    "step",     "train_loss",   "test_loss",
                      "accuracy", "micro_f1", "macro_f1", "images_per_s", "tokens_per_image",
                      "flops",    "energy_j", "co2_g",    "seconds"};
// Behind them, where there is a sparsity term: it without its weight, and what it has achieved.
const CsvRow kSparsityColumns{"sparsity", "small_weights", "effective_support"};

CsvRow columns_of(const Config& config) {
  CsvRow columns = kColumns;
  if (config.loss.sparsity > 0)
    columns.insert(columns.end(), kSparsityColumns.begin(), kSparsityColumns.end());
  return columns;
}

std::int64_t now_ns() { return backend(Device::cpu).timestamp_ns(); }

std::string exact(double value) { return fmt::format("{}", value); }

// The state is read before the log, which must not hold rows that come after it.
CsvLog open_log(const Config& config, const TrainerOptions& options, const Position& position) {
  const std::string path = options.folder + "/metrics.csv";
  if (!options.resume) return CsvLog::create(path, columns_of(config));
  return CsvLog::resume(path, columns_of(config), static_cast<std::size_t>(position.rows));
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

// Nothing where an epoch had no such figure.
std::optional<double> field_of(const CsvRow& row, const CsvRow& columns, std::string_view column) {
  const auto index =
      static_cast<std::size_t>(std::find(columns.begin(), columns.end(), column) - columns.begin());
  if (index == columns.size()) return std::nullopt;
  const std::string& text = row[index];
  if (text.empty()) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  usage_require(*end == '\0', "metrics.csv", "{} is \"{}\", expected a number", column, text);
  return value;
}

std::optional<Scores> scores_of(const CsvRow& row) {
  const auto accuracy = field_of(row, kColumns, "accuracy"),
             micro = field_of(row, kColumns, "micro_f1"),
             macro = field_of(row, kColumns, "macro_f1");
  if (!accuracy || !micro || !macro) return std::nullopt;
  return Scores{*accuracy, *micro, *macro};
}

void take_sparsity(const CsvRow& row, const CsvRow& columns, RunResult& result) {
  const auto small = field_of(row, columns, "small_weights"),
             support = field_of(row, columns, "effective_support");
  if (const auto term = field_of(row, columns, "sparsity")) result.sparsity = term;
  if (small && support) result.spread = WeightSpread{*small, *support};
}

std::string field(const std::optional<double>& value) { return value ? exact(*value) : ""; }

// "loss 0.1  test loss 0.2  accuracy 0.9": what the epoch has of it
std::string figures(std::optional<double> loss, std::optional<double> sparsity,
                    const EpochReport& report) {
  std::string text;
  if (loss) text += fmt::format("  loss {:.4f}", *loss);
  if (sparsity) text += fmt::format("  sparsity {:.4f}", *sparsity);
  if (report.spread)
    text += fmt::format("  small weights {:.1f} %  support {:.1f}",
                        100 * report.spread->small_share, report.spread->effective_support);
  if (report.test_loss) text += fmt::format("  test loss {:.4f}", *report.test_loss);
  if (report.scores)
    text += fmt::format("  accuracy {:.4f}  macro F1 {:.4f}", report.scores->accuracy,
                        report.scores->macro_f1);
  return report.note.empty() ? text : text + "  " + report.note;
}

}  // namespace

Trainer::Trainer(const Config& config, PhaseData data, const TrainerOptions& options)
    : Trainer(config, std::move(data), options,
              options.resume ? std::make_unique<RunState>(load_state(options.folder)).get()
                             : nullptr) {}

Trainer::Trainer(const Config& config, PhaseData data, const TrainerOptions& options,
                 const RunState* state)
    : config_(config),
      data_(std::move(data)),
      options_(options),
      position_(state ? (check_phase(config, *state), state->position) : Position{}),
      phase_(first_phase(state)),
      log_((check_place(config, state, phase_->batches()), open_log(config, options, position_))) {
  if (state)
    phase_->load_moments(*state);
  else if (options_.init)
    notes_ = differences(*options_.init, config, phase_->weights().tensors);
  counter_.start_at(position_.flops, position_.flops_matmul);
  energy_ = std::make_unique<RunEnergy>(
      config.run, RunEnergyOptions{options.folder, options.keep_energy,
                                   position_.energy_before_epoch_uj, options.trace});
  for (const CsvRow& row : log_.rows()) {
    if (const auto scores = scores_of(row)) result_.scores = scores;
    take_sparsity(row, columns_of(config), result_);
  }
}

std::unique_ptr<TrainingPhase> Trainer::first_phase(const RunState* state) {
  if (state) return phase_at(position_.phase, &state->weights, true);
  return phase_at(0, options_.init ? &options_.init->weights : nullptr, false);
}

std::unique_ptr<TrainingPhase> Trainer::phase_at(std::int64_t index, const Safetensors* before,
                                                 bool resumed) {
  const auto i = static_cast<std::size_t>(index);
  const auto note = [this](Split split, std::int64_t start_ns, std::int64_t end_ns) {
    energy_->note_loading(split, start_ns, end_ns);
  };
  PhaseSetting setting{config_, i, *data_[i], note};
  if (index == 0 && !resumed && options_.init) setting.weights_source = options_.init->source;
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

RunResult Trainer::run() {
  {
    const ObserverGuard guard(counter_);
    run_phase();
    while (result_.end == RunEnd::finished &&
           position_.phase + 1 < static_cast<std::int64_t>(config_.phases.size())) {
      enter_next_phase();
      run_phase();
    }
  }
  result_.position = position_;
  result_.steps = phase_->steps();
  result_.trained_parameters = phase_->trained_parameters();
  result_.test_images = phase_data().test->size();
  result_.energy = energy_->stop();
  result_.co2 = energy_->co2({result_.energy.energy_uj});
  result_.faults = energy_->faults();
  result_.idle_before = energy_->idle_before();
  result_.idle_after = energy_->idle_after();
  result_.trace_note = energy_->trace_note();
  return result_;
}

void Trainer::enter_next_phase() {
  const ModelWeights left = phase_->weights();
  const Safetensors before{{left.tensors.begin(), left.tensors.end()}, left.metadata};
  position_.phase += 1;
  position_.epoch = 0;
  phase_.reset();  // its optimizer and loaders go first
  phase_ = phase_at(position_.phase, &before, false);
}

void Trainer::run_phase() {
  const std::int64_t epochs = epochs_of(phase_config());
  Progress progress(stderr, options_.progress, phase_->batches() * epochs, phase_->steps());
  for (const std::string& note : std::exchange(notes_, {})) progress.line(note);
  if (position_.epoch == epochs) save();  // all done before: files may be missing
  while (position_.epoch < epochs && result_.end == RunEnd::finished) {
    progress.begin(title());
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
  phase_->start_epoch(position_.epoch, position_.batch);
  while (const auto step = phase_->step()) {
    const double elapsed = static_cast<double>(now_ns() - start) * 1e-9;
    position_.epoch_loss += step->loss * static_cast<double>(step->images);
    position_.epoch_sparsity += step->sparsity * static_cast<double>(step->images);
    position_.epoch_images += step->images;
    position_.epoch_tokens += step->tokens;
    position_.unscored_images += step->unscored_images;
    counter_.add(step->data_flops);
    position_.images += step->images;
    position_.batch += 1;
    position_.epoch_seconds = before + elapsed;
    position_.seconds = run_before + elapsed;
    if (!position_.forecast.made()) foretell_energy(progress);
    progress.step(step->images, step->loss, [this] { return energy_fields(); });
    if (must_stop()) return false;
  }
  return true;
}

// Made once, early in the first epoch. Of a run of one phase: others may cost anything.
void Trainer::foretell_energy(Progress& progress) {
  if (config_.phases.size() > 1) return;
  const double now = energy::to_joules(energy_->cut()).value;
  step_joules_.push_back(now - last_joules_);
  last_joules_ = now;
  const std::int64_t batches = phase_->batches(), epochs = phase_config().train.epochs;
  if (position_.batch < forecast_step(batches)) return;
  const double evaluation = static_cast<double>(phase_data().test->size()) *
                            energy_->forward_share() /
                            static_cast<double>(phase_config().train.batch_size);
  position_.forecast =
      foretell(step_joules_, {now, static_cast<double>(batches * epochs - phase_->steps()),
                              static_cast<double>(epochs - position_.epoch) * evaluation});
  position_.forecast.step = phase_->steps();
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
  const std::optional<EpochReport> done = phase_->finish_epoch([this] { return must_stop(); });
  if (!done) {  // a resumed run begins it anew
    counter_.start_at(flops, flops_matmul);
    return false;
  }
  const EpochReport& report = *done;
  counter_.add(report.data_flops);
  const double evaluating = static_cast<double>(now_ns() - start) * 1e-9;
  position_.seconds += evaluating;
  const double seconds = position_.epoch_seconds + evaluating;
  const auto images = static_cast<double>(position_.epoch_images);
  std::optional<double> loss, sparsity, rate, tokens;
  if (images > 0) {
    loss = position_.epoch_loss / images;
    if (config_.loss.sparsity > 0) sparsity = position_.epoch_sparsity / images;
    rate = images / position_.epoch_seconds;
    tokens = static_cast<double>(position_.epoch_tokens) / images;
  }
  const energy::MicroJoules total = energy_->cut(),
                            used{total.value - position_.energy_before_epoch_uj};
  if (report.scores) result_.scores = report.scores;
  position_.figures = report.figures;
  const auto score = [&](double Scores::*which) {
    return report.scores ? exact((*report.scores).*which) : "";
  };
  CsvRow row{phase_config().kind,
             std::to_string(position_.epoch + 1),
             std::to_string(phase_->steps()),
             field(loss),
             field(report.test_loss),
             score(&Scores::accuracy),
             score(&Scores::micro_f1),
             score(&Scores::macro_f1),
             field(rate),
             field(tokens),
             std::to_string(counter_.flops() - position_.flops_before_epoch),
             exact(energy::to_joules(used).value),
             exact(energy_->co2(used).value),
             exact(seconds)};
  if (config_.loss.sparsity > 0) {
    const auto spread = [&](double WeightSpread::*which) {
      return report.spread ? exact((*report.spread).*which) : "";
    };
    row.insert(row.end(), {field(sparsity), spread(&WeightSpread::small_share),
                           spread(&WeightSpread::effective_support)});
    take_sparsity(row, columns_of(config_), result_);
  }
  log_.append(row);
  progress.line(title() + figures(loss, sparsity, report) +
                (rate ? fmt::format("  {:.0f} images/s", *rate) : "") +
                fmt::format("  {}  {}  {:.1f} s", with_prefix(energy::to_joules(used).value, "J"),
                            with_prefix(energy_->co2(used).value, "g CO2"), seconds));
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

// The ledger comes first, as the state counts on what it holds; then the model: with it newer than
// the state, a resumed run just makes it again.
void Trainer::save() {
  const ModelWeights weights = phase_->weights();
  const NamedTensors moments = phase_->moments();
  require_finite_update(weights.tensors);
  require_finite_update(moments);
  position_.flops = counter_.flops();
  position_.flops_matmul = counter_.flops_matmul();
  energy_->save();
  const Dataset& data = *phase_data().train;
  save_model(options_.folder, weights,
             {data.class_names(),
              data.normalization().for_channels(static_cast<int>(config_.model.in_channels))});
  save_state(options_.folder, weights, moments, phase_->steps(), position_);
}

}  // namespace hg
