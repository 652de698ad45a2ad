#include "train/run/run.h"

#include "tensor/base/enum_names.h"
#include "tensor/base/files.h"
#include "tensor/base/process.h"
#include "tensor/base/usage_error.h"
#include "train/config/selection.h"
#include "train/phases/registry.h"
#include "train/report/page.h"
#include "train/store/run_folder.h"

namespace hg {
namespace {

void keep_config(const std::string& path, const Config& config, bool resume) {
  if (!resume || !is_file(path)) return write_file(path, to_toml(config));
  Config kept = load_config(path);
  if (kept.run.joule_budget == config.run.joule_budget) return;
  kept.run.joule_budget = config.run.joule_budget;
  write_file(path, to_toml(kept));
}

// The last epochs' figures, each from the last row that has it.
void take_scores(const std::vector<EpochRow>& epochs, RunSummary& s) {
  for (const EpochRow& row : epochs) {
    if (row.accuracy)
      s.accuracy = row.accuracy, s.micro_f1 = row.micro_f1, s.macro_f1 = row.macro_f1;
    if (!s.sparsity) continue;
    if (row.sparsity) s.sparsity->term = row.sparsity;
    if (row.small_weights)
      s.sparsity->small_weights = row.small_weights,
      s.sparsity->effective_support = row.effective_support;
  }
  if (s.micro_f1 && *s.micro_f1 > 0) s.joules_per_f1 = s.energy_j.value / *s.micro_f1;
}

void take_energy(const RunResult& r, RunSummary& s) {
  const energy::Ledger& e = r.energy;
  s.energy_j = e.joules();
  s.energy_kind = energy::to_string(e.kind);
  s.energy_source = e.source;
  s.energy_meter = e.meter;
  s.energy_profile = e.calibration;
  s.energy_seconds = e.seconds;
  for (std::size_t d = 0; d < energy::kDomains; ++d)
    if (e.domain_uj[d]) s.domain_j[d] = energy::to_joules({*e.domain_uj[d]}).value;
  s.meter_faults = r.faults;
  s.idle_before = r.idle_before;
  s.idle_after = r.idle_after;
  s.co2_g = r.co2.value;
  s.prediction = r.position.forecast;
}

RunSummary summary_of(const Config& config, const RunResult& r) {
  RunSummary s;
  s.name = config.run.name;
  s.status = enum_name(r.end);
  take_energy(r, s);
  const energy::CarbonIntensity& carbon = carbon_intensity_of(config.run);
  s.country = carbon.iso3;
  s.carbon_g_per_kwh = carbon.g_per_kwh;
  s.carbon_source = fmt::format("{}, {}", carbon.source, carbon.year);
  s.pue = config.run.pue;
  s.seconds = r.position.seconds;
  s.flops = r.position.flops;
  s.flops_matmul = r.position.flops_matmul;
  s.images = r.position.images;
  s.test_images = r.test_images;
  s.trained_parameters = r.trained_parameters;
  s.peak_rss_bytes = peak_rss_bytes();
  s.figures = r.position.figures;
  if (const auto selection = patch_selection(config, Split::train))
    s.select = {std::string(enum_name(config.select.mode)), selection->keep,
                patches_of(config.model), selection->mode == PatchSelection::Mode::drop,
                r.position.unscored_images};
  if (config.loss.sparsity > 0)
    s.sparsity = {
        std::string(enum_name(config.loss.sparsity_kind)), config.loss.sparsity, {}, {}, {}};
  take_scores(r.epochs, s);
  return s;
}

}  // namespace

void check_run(const Config& config) {
  carbon_intensity_of(config.run);
  energy::load_calibration(config.run.energy_profile);
  check_phases(config);
}

PhaseData open_run(const Config& config) {
  check_run(config);
  PhaseData data = open_phases(config);
  check_phases(config, data);
  return data;
}

void check_resumable(const std::string& folder, const Config& config) {
  const std::string kept = RunFolder{folder}.config();
  if (!is_file(kept)) return;
  const Config before = load_config(kept);
  Config same = config;
  same.run.name = before.run.name;
  same.run.threads = before.run.threads;
  same.run.joule_budget = before.run.joule_budget;
  usage_require(same == before, kept,
                "differs from the configuration given; a run resumes with its own settings");
}

bool goes_on(const std::string& folder, bool resume) {
  return resume && is_file(RunFolder{folder}.state());
}

RunEnding train_run(const Config& config, PhaseData data, const RunOptions& options) {
  const RunFolder folder{options.folder};
  keep_config(folder.config(), config, options.resume);
  TrainerOptions trainer_options;
  trainer_options.folder = options.folder;
  trainer_options.resume = goes_on(options.folder, options.resume);
  trainer_options.keep_energy = options.resume;
  trainer_options.trace = options.trace;
  if (!trainer_options.resume) trainer_options.init = initial_weights(config);
  trainer_options.progress = options.progress;
  const RunResult result = Trainer(config, std::move(data), trainer_options).run();
  RunEnding ending{result.end, result.steps, result.trace_note, summary_of(config, result)};
  write_file(folder.summary(), to_json(ending.summary, 2) + "\n");
  report::write({options.folder}, folder.report());
  return ending;
}

}  // namespace hg
