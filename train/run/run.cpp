#include "train/run/run.h"

#include "tensor/base/files.h"
#include "tensor/base/usage_error.h"
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
  same.run.save_minutes = before.run.save_minutes;
  usage_require(same == before, kept,
                "differs from the configuration given; a run resumes with its own settings");
}

RunEnding train_run(const Config& config, PhaseData data, const RunOptions& options) {
  const RunFolder folder{options.folder};
  keep_config(folder.config(), config, options.resume);
  RunEnding ending = Trainer(config, std::move(data), options).run();
  write_file(folder.summary(), to_json(ending.summary, 2) + "\n");
  report::write({options.folder}, folder.report());
  return ending;
}

}  // namespace hg
