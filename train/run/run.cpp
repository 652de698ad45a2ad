#include "train/run/run.h"

#include <algorithm>

#include "tensor/base/files.h"
#include "tensor/base/folder_lock.h"
#include "tensor/base/usage_error.h"
#include "train/phases/registry.h"
#include "train/report/page.h"
#include "train/run/memory.h"
#include "train/run/rank_checks.h"
#include "train/store/launches.h"
#include "train/store/run_folder.h"

namespace hg {
namespace {

void keep_config(const std::string& path, const Config& config, bool resume) {
  if (!resume || !is_file(path) || load_config(path) != config) write_file(path, to_toml(config));
}

}  // namespace

void check_run(const Config& config) {
  carbon_intensity_of(config.run);
  energy::load_calibration(config.run.energy_profile);
  check_phases(config);
}

PhaseData open_run(const Config& config) {
  check_run(config);
  check_memory(config);
  PhaseData data = open_phases(config);
  check_phases(config, data);
  check_ranks(config, data);
  link_gpus(config);
  return data;
}

Config config_to_resume(const std::string& folder, const std::string& given,
                        const std::vector<std::string>& settings) {
  const std::string path = RunFolder{folder}.config();
  const Config kept = load_config(path), own = load_config(path, settings);
  const Config wanted = given.empty() ? own : load_config(given, settings);
  Config config = kept;
  config.run.threads = wanted.run.threads;
  config.run.save_minutes = wanted.run.save_minutes;
  config.run.rank_timeout = wanted.run.rank_timeout;
  config.data.workers = wanted.data.workers;
  for (std::size_t i = 0; i < std::min(config.phases.size(), wanted.phases.size()); ++i)
    config.phases[i].data.workers = wanted.phases[i].data.workers;
  config.run.joule_budget =
      wanted.run.joule_budget > 0 ? wanted.run.joule_budget : own.run.joule_budget;
  const std::int64_t epochs = wanted.phases.back().train.epochs;
  if (epochs > config.phases.back().train.epochs) {
    config.phases.back().train.epochs = epochs;
    config.train.epochs = wanted.train.epochs;
  }
  Config asked = wanted;
  asked.run.name = config.run.name;
  asked.run.joule_budget = config.run.joule_budget;
  const std::string difference = first_difference(config, asked);
  usage_require(difference.empty(), path,
                "has {}; a run resumes with its own settings, but for threads, budget and more "
                "epochs",
                difference);
  return config;
}

RunEnding train_run(const Config& config, PhaseData data, const RunOptions& options) {
  if (options.folder.empty()) return Trainer(config, std::move(data), options).run();
  const RunFolder folder{options.folder};
  const FolderLock lock(options.folder);
  usage_require(options.resume || !is_file(folder.state()), options.folder, "{}", kHoldsRun);
  keep_config(folder.config(), config, options.resume);
  note_launch(folder.launches(), this_launch(), options.resume);
  RunEnding ending = Trainer(config, std::move(data), options).run();
  write_file(folder.summary(), to_json(ending.summary, 2) + "\n");
  report::write({options.folder}, folder.report());
  return ending;
}

}  // namespace hg
