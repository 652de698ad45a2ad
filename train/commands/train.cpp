// hgtrain train: a run folder with configuration, metrics, checkpoint and summary.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "train/commands/commands.h"
#include "train/files.h"
#include "train/selection.h"
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

// A resumed run goes on with the configuration it was started with.
Config configuration(const TrainOptions& options) {
  const Config given = options.load();
  if (!options.resume || options.out.empty()) return given;
  const std::string kept = options.out + "/config.toml";
  if (!std::filesystem::exists(kept)) return given;
  Config before = load_config(kept);
  Config same = given;
  same.run.name = before.run.name;
  same.run.threads = before.run.threads;
  usage_require(same == before, kept,
                "differs from the configuration given; a run resumes with its own settings");
  return given;
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

Json summary(const Config& config, const RunResult& r) {
  const auto score = [&](double Scores::*which) {
    return r.scores ? Json((*r.scores).*which) : Json();
  };
  return {{"name", config.run.name},
          {"status", r.interrupted ? "interrupted" : "finished"},
          {"accuracy", score(&Scores::accuracy)},
          {"micro_f1", score(&Scores::micro_f1)},
          {"macro_f1", score(&Scores::macro_f1)},
          {"energy_j", nullptr},
          {"energy_kind", "unavailable"},
          {"energy_source", "no meter in this version"},
          {"co2_g", nullptr},
          {"seconds", r.position.seconds},
          {"flops", r.position.flops},
          {"flops_matmul", r.position.flops_matmul},
          {"images", r.position.images},
          {"peak_rss_bytes", peak_rss_bytes()},
          {"joules_per_f1", nullptr},
          {"select", selection_summary(config, r)}};
}

void print_result(const Config& config, const RunResult& r, const std::string& folder) {
  const std::string scores =
      r.scores ? fmt::format("accuracy {:.4f}, micro F1 {:.4f}, macro F1 {:.4f}",
                             r.scores->accuracy, r.scores->micro_f1, r.scores->macro_f1)
               : "not evaluated yet";
  const auto selection = patch_selection(config, Split::train);
  const bool zeroed = selection && selection->mode == PatchSelection::Mode::zero;
  fmt::print("{}: {}{}, {:.0f} s{}; {}\n", config.run.name, r.interrupted ? "interrupted, " : "",
             scores, r.position.seconds,
             zeroed ? " (patches zeroed, not dropped: nothing saved)" : "", folder);
}

}  // namespace

int train_command(const TrainOptions& options) {
  const Config config = configuration(options);
  vit_options(config);
  check_phases(config);
  PhaseData data = open_phases(config);  // fails before a folder is made
  const std::string folder = prepare_folder(options, config);
  const std::string kept = folder + "/config.toml";
  if (!options.resume || !std::filesystem::exists(kept)) write_file(kept, to_toml(config));
  const bool fresh = options.resume && !std::filesystem::exists(folder + "/state.safetensors");
  Trainer trainer(config, std::move(data),
                  {folder, options.resume && !fresh, progress_mode(stderr, options.quiet)});
  const RunResult result = trainer.run();
  const Json json = summary(config, result);
  write_file(folder + "/summary.json", json.dump(2) + "\n");
  if (options.json)
    fmt::print("{}\n", json.dump());
  else if (!options.quiet)
    print_result(config, result, folder);
  return result.interrupted ? kInterruptedExitCode : 0;
}

}  // namespace hg
