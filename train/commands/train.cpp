// hgtrain train: a run folder with configuration, metrics, energy, checkpoint and summary.
#include <filesystem>

#include "tensor/base/files.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/commands/commands.h"
#include "train/config/selection.h"
#include "train/run/run.h"

namespace hg {
namespace {

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
  Config given = options.load();
  if (options.resume && !options.out.empty()) check_resumable(options.out, given);
  return given;
}

void print_result(const Config& config, const RunResult& r, const std::string& folder) {
  std::string scores = r.scores
                           ? fmt::format("accuracy {:.4f}, micro F1 {:.4f}, macro F1 {:.4f}",
                                         r.scores->accuracy, r.scores->micro_f1, r.scores->macro_f1)
                       : r.end == RunEnd::finished ? "not judged by classes"
                                                   : "not evaluated yet";
  for (const auto& [name, value] : r.position.figures)
    scores += fmt::format(", {} {:.4f}", name, value);
  const double used = energy::to_joules({r.energy.energy_uj}).value;
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
  // What fails does so before a folder is made.
  PhaseData data = open_run(config);
  if (!goes_on(options.out, options.resume)) initial_weights(config);
  const std::string folder = prepare_folder(options, config);
  if (!options.quiet) options.tell_device(config);
  const RunEnding ending =
      train_run(config, std::move(data),
                {folder, options.resume, options.trace, progress_mode(stderr, options.quiet)});
  if (options.json)
    fmt::print("{}\n", ending.summary);
  else if (!options.quiet)
    print_result(config, ending.result, folder);
  return ending.result.end == RunEnd::interrupted ? kInterruptedExitCode : 0;
}

}  // namespace hg
