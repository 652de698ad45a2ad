// hgtrain tune: each arm's settings, chosen on images held out, within one budget for all arms.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tensor/base/columns.h"
#include "tensor/base/files.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/commands/commands.h"
#include "train/experiment/figures.h"
#include "train/experiment/folder.h"
#include "train/experiment/tune.h"
#include "train/run/run.h"

namespace hg {
namespace {

using namespace experiment;
using Json = nlohmann::ordered_json;

struct TriedRun {
  std::size_t candidate = 0, rung = 0;
  std::int64_t epochs = 0;
  std::string folder;
  double micro_f1 = 0, energy_j = 0, seconds = 0;
};

struct ArmOutcome {
  std::size_t tried = 0;  // candidates
  std::vector<TriedRun> runs;
  std::optional<std::size_t> chosen;
  std::string note;  // what a small budget left out; empty: nothing

  double joules() const {
    double sum = 0;
    for (const TriedRun& run : runs) sum += run.energy_j;
    return sum;
  }
};

std::vector<std::string> texts_of(const std::vector<Setting>& settings) {
  std::vector<std::string> texts;
  for (const Setting& setting : settings) texts.push_back(setting.text);
  return texts;
}

class Tuning {
 public:
  Tuning(const TuneOptions& options, const ExperimentFile& file, const TunePlan& tuning)
      : options_(options), file_(file), tuning_(tuning), outcomes_(tuning.arms.size()) {
    const Plan& plan = tuning.plan;
    folder_ = options.out.empty() ? fmt::format("experiments/{}{}{}-tune", plan.experiment,
                                                plan.scale.empty() ? "" : "-", plan.scale)
                                  : options.out;
  }

  // False: a signal came.
  bool run();
  void tell() const;

 private:
  Plan identity() const;
  bool tune_arm(std::size_t arm);
  bool train(std::size_t arm, std::size_t candidate, std::size_t rung);
  std::size_t affordable(std::size_t arm);
  void save(const char* status) const;
  std::string table() const;
  Json arm_json(std::size_t arm) const;
  Json to_json(const char* status) const;

  const TuneOptions& options_;
  const ExperimentFile& file_;
  const TunePlan& tuning_;
  std::string folder_;
  std::vector<ArmOutcome> outcomes_;
  const StopSignals signals_;
  const char* status_ = "running";
};

// The folder is that of all candidates: with another sweep it is another folder's.
Plan Tuning::identity() const {
  Plan all = tuning_.plan;
  all.experiment = "tune of " + all.experiment;
  all.arms.clear();
  for (const TunedArm& arm : tuning_.arms)
    for (std::size_t i = 0; i < arm.candidates.size(); ++i)
      all.arms.push_back({fmt::format("{}-c{}", arm.name, i + 1), "", arm.candidates[i].config});
  return all;
}

// One run, unless it is there already; its figures are added to the arm's. False: a signal came.
bool Tuning::train(std::size_t arm, std::size_t candidate, std::size_t rung) {
  const TunedArm& tuned = tuning_.arms[arm];
  const Config config = at_rung(tuned.candidates[candidate].config, tuned.divisors[rung]);
  const experiment::Arm as_arm{fmt::format("{}-c{}-r{}", tuned.name, candidate + 1, rung + 1), "",
                               config};
  const PlannedRun run{&as_arm, tuning_.plan.first_seed};
  const std::string own = run_folder(folder_, run);
  if (progress_of(folder_, run) != RunProgress::finished) {
    if (signals_.requested()) return false;
    if (!options_.quiet)
      fmt::print(stderr, "{}, rung {} of {}: {}\n", tuned.name, rung + 1, tuned.divisors.size(),
                 fmt::join(texts_of(tuned.candidates[candidate].settings), " "));
    PhaseData data = open_run(run.config());
    make_folder(own);
    const RunEnding ending = train_run(run.config(), std::move(data),
                                       {own, true, false, progress_mode(stderr, options_.quiet)});
    if (ending.end == RunEnd::interrupted) return false;
  }
  const RunFigures figures = read_figures(own);
  outcomes_[arm].runs.push_back({candidate, rung, figures.epochs, "runs/" + run.name(),
                                 *figures.micro_f1, figures.energy_j.value, figures.seconds});
  save("running");
  return true;
}

// How many candidates the budget allows. That of joules is known once one run has been measured:
// the first drawn, at the first rung.
std::size_t Tuning::affordable(std::size_t arm) {
  const TunedArm& tuned = tuning_.arms[arm];
  const std::size_t n = tuned.candidates.size();
  if (options_.runs)
    return most_within(static_cast<double>(*options_.runs), n,
                       std::vector<double>(tuned.divisors.size(), 1.0));
  if (!options_.joules || n == 1) return n;
  std::vector<double> cost;
  for (const std::int64_t divisor : tuned.divisors)
    cost.push_back(outcomes_[arm].runs.at(0).energy_j * static_cast<double>(tuned.divisors[0]) /
                   static_cast<double>(divisor));
  return most_within(*options_.joules, n, cost);
}

bool Tuning::tune_arm(std::size_t arm) {
  const TunedArm& tuned = tuning_.arms[arm];
  ArmOutcome& outcome = outcomes_[arm];
  const std::size_t n = tuned.candidates.size(), first = tuned.draw_order[0];
  const bool measured = options_.joules && n > 1;
  if (measured && !train(arm, first, 0)) return false;
  outcome.tried = affordable(arm);
  if (outcome.tried < n)
    outcome.note =
        fmt::format("the budget allows {} of {} candidates, drawn by seed {}{}", outcome.tried, n,
                    tuning_.plan.first_seed, outcome.tried == 1 ? ": nothing was compared" : "");
  std::vector<std::size_t> left(
      tuned.draw_order.begin(),
      tuned.draw_order.begin() + static_cast<std::ptrdiff_t>(outcome.tried));
  std::sort(left.begin(), left.end());
  const std::vector<std::size_t> counts = halving(left.size(), tuned.divisors.size());
  for (std::size_t rung = 0; rung < counts.size(); ++rung) {
    for (const std::size_t candidate : left)
      if (!(measured && rung == 0 && candidate == first) && !train(arm, candidate, rung))
        return false;
    std::vector<TuneScore> scores;
    for (const TriedRun& run : outcome.runs)
      if (run.rung == rung) scores.push_back({run.candidate, run.micro_f1, run.energy_j});
    left = survivors(scores, rung + 1 < counts.size() ? counts[rung + 1] : 1);
  }
  outcome.chosen = left[0];
  return true;
}

bool Tuning::run() {
  const std::unique_ptr<FolderLock> lock = claim_folder(folder_, identity());
  bool done = true;
  for (std::size_t arm = 0; arm < tuning_.arms.size() && done; ++arm) done = tune_arm(arm);
  status_ = done ? "finished" : "interrupted";
  save(status_);
  if (!done) return false;
  std::vector<std::vector<Setting>> chosen;
  for (std::size_t arm = 0; arm < outcomes_.size(); ++arm)
    chosen.push_back(tuning_.arms[arm].candidates[*outcomes_[arm].chosen].settings);
  write_file(folder_ + "/tuned.toml",
             fmt::format("# Settings of the arms as `hgtrain tune {}` chose them; tune.json beside "
                         "it holds all that was tried.\n{}",
                         printable(file_.source), experiment::to_toml(tuned_file(file_, chosen))));
  return true;
}

Json Tuning::arm_json(std::size_t arm) const {
  const ArmOutcome& outcome = outcomes_[arm];
  const TunedArm& tuned = tuning_.arms[arm];
  return {{"arm", tuned.name},
          {"candidates", tuned.candidates.size()},
          {"tried", outcome.tried},
          {"runs", outcome.runs.size()},
          {"energy_j", outcome.joules()},
          {"chosen",
           outcome.chosen ? Json(texts_of(tuned.candidates[*outcome.chosen].settings)) : Json()},
          {"note", outcome.note}};
}

Json Tuning::to_json(const char* status) const {
  Json arms = Json::array(), runs = Json::array();
  for (std::size_t arm = 0; arm < outcomes_.size(); ++arm) {
    arms.push_back(arm_json(arm));
    for (const TriedRun& run : outcomes_[arm].runs)
      runs.push_back({{"arm", tuning_.arms[arm].name},
                      {"candidate", run.candidate + 1},
                      {"settings", texts_of(tuning_.arms[arm].candidates[run.candidate].settings)},
                      {"rung", run.rung + 1},
                      {"epochs", run.epochs},
                      {"micro_f1", run.micro_f1},
                      {"energy_j", run.energy_j},
                      {"seconds", run.seconds},
                      {"folder", run.folder}});
  }
  return {{"experiment", tuning_.plan.experiment},
          {"scale", tuning_.plan.scale},
          {"status", status},
          {"seed", tuning_.plan.first_seed},
          {"budget_runs", options_.runs ? Json(*options_.runs) : Json()},
          {"budget_joules", options_.joules ? Json(*options_.joules) : Json()},
          {"validation_images", tuning_.held_out},
          {"held_out_by_tune", tuning_.held_out_here},
          {"arms", arms},
          {"runs", runs}};
}

void Tuning::save(const char* status) const {
  write_file(folder_ + "/tune.json", to_json(status).dump(2) + "\n");
}

std::string Tuning::table() const {
  std::string text;
  for (std::size_t arm = 0; arm < outcomes_.size(); ++arm) {
    const ArmOutcome& outcome = outcomes_[arm];
    const TunedArm& tuned = tuning_.arms[arm];
    text += fmt::format("{}: {} of {} candidates, {} runs, {}", tuned.name, outcome.tried,
                        tuned.candidates.size(), outcome.runs.size(),
                        with_prefix(outcome.joules(), "J"));
    if (outcome.chosen) {
      const auto settings = texts_of(tuned.candidates[*outcome.chosen].settings);
      text += settings.empty() ? "; nothing to choose"
                               : fmt::format("; chosen: {}", fmt::join(settings, " "));
    }
    text += (outcome.note.empty() ? "" : "; " + outcome.note) + "\n";
    for (const TriedRun& run : outcome.runs)
      text += fmt::format("  rung {}, {:3} epochs  micro F1 {:.4f}  {:>8}  {}\n", run.rung + 1,
                          run.epochs, run.micro_f1, with_prefix(run.energy_j, "J"),
                          fmt::join(texts_of(tuned.candidates[run.candidate].settings), " "));
  }
  return text;
}

void Tuning::tell() const {
  if (options_.json) {
    fmt::print("{}\n", to_json(status_).dump());
    return;
  }
  const std::string text = fmt::format(
      "{}Judged on {} training images that are held out{}; the test images were not used.\n",
      table(), tuning_.held_out,
      tuning_.held_out_here ? ", a tenth, as data.validation is 0" : " (data.validation)");
  print_folded(stdout, text);
  const bool done = std::string_view(status_) == "finished";
  fmt::print("All that was tried: {}/tune.json\n", folder_);
  if (done) fmt::print("To be run by hgtrain experiment: {}/tuned.toml\n", folder_);
}

}  // namespace

int tune_command(const TuneOptions& options) {
  const ExperimentFile file = load_experiment(options.experiment);
  const Request request{options.experiment, options.scale, options.all_settings()};
  const TunePlan tuning = plan_tuning(file, request);
  for (const TunedArm& arm : tuning.arms)
    for (const Candidate& candidate : arm.candidates) check_run(candidate.config);
  const Config& first = tuning.arms[0].candidates[0].config;
  use_device(first);
  options.tell_device(first);
  open_phases(first);  // fails before a folder is made
  Tuning work(options, file, tuning);
  const bool done = work.run();
  work.tell();
  return done ? 0 : kInterruptedExitCode;
}

}  // namespace hg
