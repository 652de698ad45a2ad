#include "train/experiment/stored.h"

#include "energy/meters/cpu_info.h"
#include "tensor/base/files.h"
#include "tensor/base/json_value.h"
#include "tensor/base/usage_error.h"

namespace hg::experiment {
namespace {

std::string identity_file(const std::string& folder) { return folder + "/experiment.json"; }

Results judged(const std::string& folder, const Plan& plan, const std::vector<PlannedRun>& runs,
               const std::string& missing, const std::string& machine) {
  const std::vector<RunFigures> figures = finished_runs(folder, runs);
  Results results{plan,
                  figures.size() == runs.size() ? std::string(kFinished) : missing,
                  machine,
                  analyse(plan, figures),
                  {}};
  results.answer = answer(plan, results.analysis);
  return results;
}

// Folders of earlier versions lack it.
void take_details(const JsonValue& results, Plan& plan) {
  plan.called = described(plan.experiment, plan.scale);
  if (!results.has("plan")) return;
  const JsonValue json = results["plan"];
  plan.called = json["called"].text();
  plan.target_f1 = json.number_if_any("target_f1");
  plan.target_from = json["target_from"].text();
  if (json.has("goal"))
    plan.goal = Goal{json["goal"]["saving_percent"].number(), json["goal"]["f1_points"].number()};
  for (Arm& arm : plan.arms) arm.title = json["titles"].text_if_any(arm.name);
}

Plan plan_of(const std::string& folder, const JsonValue& results) {
  const JsonValue identity = JsonValue::read(identity_file(folder));
  Plan plan;
  plan.experiment = identity["experiment"].text();
  plan.scale = identity["scale"].text();
  for (const std::string& name : identity["arms"].keys()) {
    const JsonValue toml = identity["arms"][name];
    plan.arms.push_back({name, "", parse_config(toml.text(), toml.where())});
  }
  usage_require(!plan.arms.empty(), identity_file(folder), "expected arms, got none");
  plan.question = results["question"].text();
  for (const JsonValue& setting : results["settings"].items())
    plan.settings.push_back(setting.text());
  plan.repeats = results["repeats"].integer();
  plan.first_seed = results["first_seed"].integer();
  plan.margin_points = results["margin_points"].number();
  take_details(results, plan);
  return plan;
}

}  // namespace

std::string results_file(const std::string& folder) { return folder + "/results.json"; }
std::string page_file(const std::string& folder) { return folder + "/report.html"; }
bool is_experiment(const std::string& folder) { return is_file(identity_file(folder)); }

std::vector<RunFigures> finished_runs(const std::string& folder,
                                      const std::vector<PlannedRun>& runs) {
  std::vector<RunFigures> figures;
  for (const PlannedRun& run : runs) {
    if (progress_of(folder, run) != RunProgress::finished) continue;
    figures.push_back(read_figures(run_folder(folder, run)));
    figures.back().arm = run.arm->name;
    figures.back().seed = run.seed;
    figures.back().folder = "runs/" + run.name();
  }
  return figures;
}

Results write_results(const std::string& folder, const Plan& plan,
                      const std::vector<PlannedRun>& runs, const std::string& missing) {
  const std::string machine = energy::described(energy::read_cpu_info("/sys"));
  const Results results = judged(folder, plan, runs, missing, machine);
  write_file(results_file(folder), to_json(results, 2) + "\n");
  write_file(page_file(folder), to_page(results));
  return results;
}

Results read_results(const std::string& folder) {
  usage_require(is_experiment(folder), folder, "holds no experiment.json: not an experiment");
  usage_require(is_file(results_file(folder)), folder,
                "holds no results.json: the experiment has not begun yet");
  const JsonValue json = JsonValue::read(results_file(folder));
  const Plan plan = plan_of(folder, json);
  return judged(folder, plan, schedule(plan), json["status"].text(), json["machine"].text());
}

}  // namespace hg::experiment
