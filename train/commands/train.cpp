// hgtrain train: a run folder with configuration, metrics, energy, checkpoint and summary.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "train/commands/commands.h"
#include "train/energy_profile.h"
#include "train/files.h"
#include "train/report/page.h"
#include "train/selection.h"
#include "train/text.h"
#include "train/trainer.h"
#include "train/usage_error.h"

namespace hg {
namespace {

using Json = nlohmann::ordered_json;

std::string prepare_folder(const TrainOptions& options, const Config& config) {
  if (!options.resume) {
    usage_require(
        options.out.empty() || !std::filesystem::exists(options.out + "/state.safetensors"),
        options.out, "holds a run already; --resume goes on with it");
    if (options.out.empty()) return make_fresh_folder("runs", config.run.name);
    make_folder(options.out);
    return options.out;
  }
  usage_require(!options.out.empty(), "--resume", "needs --out RUN_DIR");
  usage_require(std::filesystem::is_directory(options.out), options.out,
                "no such run folder to resume");
  return options.out;
}

// A resumed run goes on with the configuration it was started with; only its budget may change.
Config configuration(const TrainOptions& options) {
  const Config given = options.load();
  if (!options.resume || options.out.empty()) return given;
  const std::string kept = options.out + "/config.toml";
  if (!std::filesystem::exists(kept)) return given;
  Config before = load_config(kept);
  Config same = given;
  same.run.name = before.run.name;
  same.run.threads = before.run.threads;
  same.run.joule_budget = before.run.joule_budget;
  usage_require(same == before, kept,
                "differs from the configuration given; a run resumes with its own settings");
  return given;
}

void keep_config(const std::string& folder, const Config& config, bool resume) {
  const std::string path = folder + "/config.toml";
  if (!resume || !std::filesystem::exists(path)) return write_file(path, to_toml(config));
  Config kept = load_config(path);
  if (kept.run.joule_budget == config.run.joule_budget) return;
  kept.run.joule_budget = config.run.joule_budget;
  write_file(path, to_toml(kept));
}

std::string_view status_of(RunEnd end) {
  constexpr std::string_view kNames[] = {"finished", "interrupted", "budget"};
  return kNames[static_cast<std::size_t>(end)];
}

double joules(std::int64_t uj) { return energy::to_joules({uj}).value; }

Json energy_by_domain(const energy::Ledger& ledger) {
  Json domains = Json::object();
  for (std::size_t d = 0; d < energy::kDomains; ++d)
    if (ledger.domain_uj[d])
      domains[std::string(energy::to_string(static_cast<energy::Domain>(d)))] =
          joules(*ledger.domain_uj[d]);
  return domains;
}

// What was foretold in the first epoch and, of a run that finished, how right it was.
Json forecast_of(const RunResult& r) {
  const Forecast& f = r.position.forecast;
  if (!f.made()) return nullptr;
  Json json{{"step", f.step},     {"energy_j", f.energy_j}, {"low_j", f.low_j},
            {"high_j", f.high_j}, {"actual_j", nullptr},    {"error_percent", nullptr},
            {"inside", nullptr}};
  if (r.end != RunEnd::finished) return json;
  const double actual = joules(r.energy.energy_uj);
  json["actual_j"] = actual;
  json["error_percent"] = 100 * (f.energy_j / actual - 1);
  json["inside"] = f.low_j <= actual && actual <= f.high_j;
  return json;
}

// How patches were selected in training; null: not at all.
Json selection_summary(const Config& config, const RunResult& r) {
  const auto selection = patch_selection(config, Split::train);
  if (!selection) return {};
  const bool drop = selection->mode == PatchSelection::Mode::drop;
  return {{"mode", config.select.mode},
          {"kept", selection->keep},
          {"patches", patches_of(config.model)},
          {"saves", drop},  // zeroed patches stay in the sequence
          {"unscored_images", r.position.unscored_images}};
}

Json watts(const std::optional<energy::Watts>& power) {
  return power ? Json(power->value) : Json();
}

Json summary(const Config& config, const RunResult& r) {
  const auto score = [&](double Scores::*which) {
    return r.scores ? Json((*r.scores).*which) : Json();
  };
  const energy::Ledger& e = r.energy;
  const energy::CarbonIntensity& carbon = carbon_intensity_of(config.run);
  const bool scored = r.scores && r.scores->micro_f1 > 0;  // else joules per F1 have no bound
  return {{"name", config.run.name},
          {"status", status_of(r.end)},
          {"accuracy", score(&Scores::accuracy)},
          {"micro_f1", score(&Scores::micro_f1)},
          {"macro_f1", score(&Scores::macro_f1)},
          {"energy_j", joules(e.energy_uj)},
          {"energy_kind", energy::to_string(e.kind)},
          {"energy_source", e.source},
          {"co2_g", r.co2.value},
          {"seconds", r.position.seconds},
          {"flops", r.position.flops},
          {"flops_matmul", r.position.flops_matmul},
          {"images", r.position.images},
          {"peak_rss_bytes", peak_rss_bytes()},
          {"joules_per_f1", scored ? Json(joules(e.energy_uj) / r.scores->micro_f1) : Json()},
          {"energy_low_j", joules(e.low_uj)},
          {"energy_high_j", joules(e.high_uj)},
          {"energy_by_domain_j", energy_by_domain(e)},
          {"energy_meter", e.meter},
          {"energy_profile", e.calibration},
          {"energy_seconds", e.seconds},
          {"meter_faults", r.faults},
          {"idle_w", {{"before", watts(r.idle_before)}, {"after", watts(r.idle_after)}}},
          {"country", carbon.iso3},
          {"carbon_g_per_kwh", carbon.g_per_kwh},
          {"carbon_source", fmt::format("{}, {}", carbon.source, carbon.year)},
          {"pue", config.run.pue},
          {"test_images", r.test_images},
          {"prediction", forecast_of(r)},
          {"select", selection_summary(config, r)}};
}

void print_result(const Config& config, const RunResult& r, const std::string& folder) {
  const std::string scores =
      r.scores ? fmt::format("accuracy {:.4f}, micro F1 {:.4f}, macro F1 {:.4f}",
                             r.scores->accuracy, r.scores->micro_f1, r.scores->macro_f1)
               : "not evaluated yet";
  const double used = joules(r.energy.energy_uj);
  if (r.end == RunEnd::budget)
    fmt::print(
        "{}: joule budget of {} J used up ({:.3f} J) after step {}; --resume with a larger "
        "run.joule_budget goes on\n",
        config.run.name, config.run.joule_budget, used, r.steps);
  const auto selection = patch_selection(config, Split::train);
  const bool zeroed = selection && selection->mode == PatchSelection::Mode::zero;
  fmt::print("{}: {}{}, {:.0f} s, {} {}, {}{}; {}\n", config.run.name,
             r.end == RunEnd::interrupted ? "interrupted, " : "", scores, r.position.seconds,
             with_prefix(used, "J"), energy::to_string(r.energy.kind),
             with_prefix(r.co2.value, "g CO2"),
             zeroed ? " (patches zeroed, not dropped: nothing saved)" : "", folder);
  if (!r.trace_note.empty()) fmt::print("{}: {}\n", config.run.name, r.trace_note);
}

}  // namespace

int train_command(const TrainOptions& options) {
  const Config config = configuration(options);
  vit_options(config);
  carbon_intensity_of(config.run);
  load_energy_profile(config.run.energy_profile);
  check_phases(config);
  PhaseData data = open_phases(config);  // fails before a folder is made
  const std::string folder = prepare_folder(options, config);
  keep_config(folder, config, options.resume);
  const bool fresh = options.resume && !std::filesystem::exists(folder + "/state.safetensors");
  TrainerOptions trainer_options;
  trainer_options.folder = folder;
  trainer_options.resume = options.resume && !fresh;
  trainer_options.keep_energy = options.resume;
  trainer_options.trace = options.trace;
  trainer_options.progress = progress_mode(stderr, options.quiet);
  Trainer trainer(config, std::move(data), trainer_options);
  const RunResult result = trainer.run();
  const Json json = summary(config, result);
  write_file(folder + "/summary.json", json.dump(2) + "\n");
  report::write({folder}, folder + "/report.html");
  if (options.json)
    fmt::print("{}\n", json.dump());
  else if (!options.quiet)
    print_result(config, result, folder);
  return result.end == RunEnd::interrupted ? kInterruptedExitCode : 0;
}

}  // namespace hg
