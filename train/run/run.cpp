#include "train/run/run.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tensor/base/enum_names.h"
#include "tensor/base/files.h"
#include "tensor/base/peak_rss.h"
#include "tensor/base/usage_error.h"
#include "train/config/selection.h"
#include "train/phases/registry.h"
#include "train/report/page.h"
#include "train/run/energy_profile.h"

namespace hg {
namespace {

using Json = nlohmann::ordered_json;

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
  return {{"mode", enum_name(config.select.mode)},
          {"kept", selection->keep},
          {"patches", patches_of(config.model)},
          {"saves", drop},  // zeroed patches stay in the sequence
          {"unscored_images", r.position.unscored_images}};
}

Json watts(const std::optional<energy::Watts>& power) {
  return power ? Json(power->value) : Json();
}

// The sparsity term and what it achieved; null: there was none.
Json sparsity_summary(const LossConfig& loss, const RunResult& r) {
  if (loss.sparsity == 0) return {};
  Json json{{"kind", enum_name(loss.sparsity_kind)},
            {"weight", loss.sparsity},
            {"term", nullptr},
            {"small_weights", nullptr},
            {"effective_support", nullptr}};
  if (r.sparsity) json["term"] = *r.sparsity;
  if (r.spread) {
    json["small_weights"] = r.spread->small_share;
    json["effective_support"] = r.spread->effective_support;
  }
  return json;
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
          {"trained_parameters", r.trained_parameters},
          {"prediction", forecast_of(r)},
          {"select", selection_summary(config, r)},
          {"sparsity", sparsity_summary(config.loss, r)}};
}

}  // namespace

void check_run(const Config& config) {
  carbon_intensity_of(config.run);
  load_energy_profile(config.run.energy_profile);
  check_phases(config);
}

PhaseData open_run(const Config& config) {
  check_run(config);
  PhaseData data = open_phases(config);
  check_phases(config, data);
  return data;
}

void check_resumable(const std::string& folder, const Config& config) {
  const std::string kept = folder + "/config.toml";
  if (!std::filesystem::exists(kept)) return;
  const Config before = load_config(kept);
  Config same = config;
  same.run.name = before.run.name;
  same.run.threads = before.run.threads;
  same.run.joule_budget = before.run.joule_budget;
  usage_require(same == before, kept,
                "differs from the configuration given; a run resumes with its own settings");
}

bool goes_on(const std::string& folder, bool resume) {
  return resume && std::filesystem::exists(folder + "/state.safetensors");
}

RunEnding train_run(const Config& config, PhaseData data, const RunOptions& options) {
  const std::string& folder = options.folder;
  keep_config(folder, config, options.resume);
  TrainerOptions trainer_options;
  trainer_options.folder = folder;
  trainer_options.resume = goes_on(folder, options.resume);
  trainer_options.keep_energy = options.resume;
  trainer_options.trace = options.trace;
  if (!trainer_options.resume) trainer_options.init = initial_weights(config);
  trainer_options.progress = options.progress;
  Trainer trainer(config, std::move(data), trainer_options);
  RunResult result = trainer.run();
  Json json = summary(config, result);
  for (const auto& [name, value] : result.position.figures) json[name] = value;
  write_file(folder + "/summary.json", json.dump(2) + "\n");
  report::write({folder}, folder + "/report.html");
  return {std::move(result), json.dump()};
}

}  // namespace hg
