// hgtrain experiment: repeated runs of several arms, and what they say about a question.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "tensor/base/columns.h"
#include "tensor/base/files.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/commands/commands.h"
#include "train/experiment/folder.h"
#include "train/experiment/share.h"
#include "train/experiment/stored.h"
#include "train/ranks/launcher.h"
#include "train/run/rank_checks.h"
#include "train/run/run.h"

namespace hg {
namespace {

using namespace experiment;
using Json = nlohmann::ordered_json;

// "half, run 7 of 15: green, seed 2, about 41:20 left"
void announce(const std::string& folder, const Plan& plan, const std::vector<PlannedRun>& runs,
              std::size_t next) {
  std::vector<std::string> arms;
  for (std::size_t i = next; i < runs.size(); ++i)
    if (progress_of(folder, runs[i]) != RunProgress::finished) arms.push_back(runs[i].arm->name);
  const auto seconds = seconds_of(arms, finished_runs(folder, runs));
  fmt::print(stderr, "{}, run {} of {}: {}, seed {}{}\n", described(plan.experiment, plan.scale),
             next + 1, runs.size(), runs[next].arm->name, runs[next].seed,
             seconds ? fmt::format(", about {} left", format_duration(*seconds)) : "");
}

// Of several shares, each merges what all have finished; the last one to come finds all runs.
Results merge_results(const RunShare& share, const std::string& folder, const Plan& plan,
                      const std::string& missing) {
  std::optional<FolderLock> lock;
  if (!share.whole()) lock.emplace(folder, FolderLock::Held::wait);
  return write_results(folder, plan, schedule(plan), missing);
}

// Trains what is not finished yet, with the ranks of the group. False: a signal came.
bool train_all(const ExperimentOptions& options, const RunShare& share, const std::string& folder,
               const Plan& plan, const std::vector<PlannedRun>& runs) {
  const StopSignals signals;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const PlannedRun& run = runs[i];
    Ranks& group = ranks();
    group.set_timeout(
        std::numeric_limits<double>::infinity());  // its first may wait for the folder
    if (group.any(group.first() && progress_of(folder, run) == RunProgress::finished)) continue;
    if (group.any(signals.requested())) return false;
    if (!options.quiet) announce(folder, plan, runs, i);
    const Config config = run.config();
    const std::string own = group.first() ? run_folder(folder, run) : "";
    PhaseData data = open_run(config);
    if (group.first()) make_folder(own);
    const RunEnding ending = train_run(config, std::move(data),
                                       {own, true, false, progress_mode(stderr, options.quiet)});
    if (ending.end == RunEnd::interrupted) return false;
    if (group.first()) merge_results(share, folder, plan, kRunning);
  }
  return true;
}

std::string default_folder(const Plan& plan) {
  return fmt::format("experiments/{}{}{}", plan.experiment, plan.scale.empty() ? "" : "-",
                     plan.scale);
}

void list_experiments(bool json) {
  Json all = Json::array();
  for (const BuiltinText& builtin : builtin_experiments()) {
    const ExperimentFile file = load_experiment(std::string(builtin.name));
    std::vector<std::string> arms;
    for (const FileArm& arm : file.arms) arms.push_back(arm.name);
    if (!json)
      print_folded(stdout,
                   fmt::format("{}: {}\n  {}\n", file.name, file.question, fmt::join(arms, ", ")));
    all.push_back({{"name", file.name}, {"question", file.question}, {"arms", arms}});
  }
  if (json) fmt::print("{}\n", Json{{"experiments", all}}.dump());
}

void show_experiment(const std::string& which) {
  usage_require(!which.empty(), "experiment show", "expected the experiment to show");
  fmt::print("{}", find_text(which, builtin_experiments(), printable(which), "experiment").toml);
}

// Lists or shows experiments. False: one is to be run.
bool told(const ExperimentOptions& options) {
  if (options.experiment == "show") {
    show_experiment(options.shown);
    return true;
  }
  usage_require(options.shown.empty(), printable(options.shown), "expected one experiment");
  if (options.experiment == "list") list_experiments(options.json);
  return options.experiment == "list";
}

void print_results(const ExperimentOptions& options, const RunShare& share,
                   const std::string& folder, const Results& results) {
  if (options.json)
    fmt::print("{}\n", to_json(results));
  else if (share.whole() || results.status == "finished")
    fmt::print("{}\nResults: {}\nReport: {}\n", to_table(results, columns_of(stdout)),
               results_file(folder), page_file(folder));
  else
    fmt::print("{} is done; the last share to be done has the results: {}\n", share.text(),
               results_file(folder));
}

// Makes the folder the plan's, and holds it where nobody else has a share.
std::unique_ptr<FolderLock> open_folder(const std::string& folder, const Plan& plan,
                                        const RunShare& share,
                                        const std::vector<PlannedRun>& runs) {
  std::unique_ptr<FolderLock> lock =
      claim_folder(folder, plan, share.whole() ? FolderLock::Held::refuse : FolderLock::Held::wait);
  for (const PlannedRun& run : runs) progress_of(folder, run);  // refuses what is not of this plan
  if (!is_file(results_file(folder))) write_results(folder, plan, schedule(plan), kRunning);
  if (!share.whole()) lock.reset();
  return lock;
}

// Each group of ranks takes a part of this process's share, and the first rank waits for all.
int run_share(const ExperimentOptions& options, const RunShare& whole, Ranks& all) {
  const RunShare share = whole.part(all.rank() / ranks().size(), all.size() / ranks().size());
  const Plan plan = make_plan({options.experiment, options.scale, options.all_settings(),
                               options.repeats, options.target, options.margin_points});
  for (const auto& arm : plan.arms) check_run(arm.config);
  use_device(plan.arms[0].config);
  for (const auto& arm : plan.arms) check_lanes(arm.config);
  if (all.first()) options.tell_device(plan.arms[0].config);
  open_phases(plan.arms[0].config);  // fails before a folder is made
  const std::string folder = options.out.empty() ? default_folder(plan) : options.out;
  const MachineClaim machine(share);
  const std::vector<PlannedRun> runs = share.of(schedule(plan), plan);
  std::unique_ptr<FolderLock> lock;
  if (ranks().first()) lock = open_folder(folder, plan, share, runs);
  const bool own = train_all(options, share, folder, plan, runs);
  all.set_timeout(std::numeric_limits<double>::infinity());
  const bool done = !all.any(!own);
  if (!all.first()) return done ? 0 : kInterruptedExitCode;
  print_results(options, whole, folder,
                merge_results(share, folder, plan, done ? kRunning : kInterrupted));
  return done ? 0 : kInterruptedExitCode;
}

}  // namespace

int experiment_command(const ExperimentOptions& options) {
  if (told(options)) return 0;
  return on_ranks([&] {
    Ranks& all = ranks();
    usage_require(all.size() % options.ranks_per_run == 0, "--ranks-per-run",
                  "expected a divisor of {}, the number of ranks here, got {}", all.size(),
                  options.ranks_per_run);
    ExperimentOptions own = options;
    own.quiet = options.quiet || !all.first();
    Ranks group(all, static_cast<int>(options.ranks_per_run));
    const RanksScope scope(group);
    const int code = run_share(own, share_from(options.share), all);
    group.finish();
    return code;
  });
}

}  // namespace hg
