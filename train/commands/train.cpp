// hgtrain train: a run folder with configuration, metrics, energy, checkpoint and summary.
#include "tensor/base/columns.h"
#include "tensor/base/files.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/commands/commands.h"
#include "train/ranks/launcher.h"
#include "train/run/run.h"
#include "train/store/run_folder.h"

namespace hg {
namespace {

std::string prepare_folder(const TrainOptions& options, const Config& config) {
  if (options.out.empty()) return make_fresh_folder("runs", config.run.name);
  usage_require(options.resume || !is_file(RunFolder{options.out}.state()), options.out, "{}",
                kHoldsRun);
  if (options.resume && !is_folder(options.out) && !options.quiet)
    fmt::print(stderr, "{}: no run there yet, so it begins\n", options.out);
  make_folder(options.out);
  return options.out;
}

// A resumed run goes on with the configuration it was started with.
Config configuration(const TrainOptions& options) {
  usage_require(!options.resume || !options.out.empty(), "--resume", "needs --out RUN_DIR");
  if (options.resume && is_file(RunFolder{options.out}.config())) {
    const Config config = config_to_resume(options.out, options.config, options.all_settings());
    use_device(config);
    return config;
  }
  usage_require(!options.config.empty(), "CONFIG",
                "expected a configuration{}; hgtrain train --help lists those that are built in",
                options.resume ? ", as there is no run in " + options.out : "");
  return options.load();
}

void print_result(const Config& config, const RunEnding& ending, const std::string& folder) {
  const RunSummary& s = ending.summary;
  std::string scores = s.accuracy ? fmt::format("accuracy {:.4f}, micro F1 {:.4f}, macro F1 {:.4f}",
                                                *s.accuracy, *s.micro_f1, *s.macro_f1)
                       : ending.end == RunEnd::finished ? "not judged by classes"
                                                        : "not evaluated yet";
  for (const auto& [name, value] : s.figures) scores += fmt::format(", {} {:.4f}", name, value);
  std::string text;
  if (ending.end == RunEnd::budget)
    text += fmt::format(
        "{}: joule budget of {} J used up ({:.3f} J) after step {}; --resume with a larger "
        "run.joule_budget goes on\n",
        s.name, config.run.joule_budget, s.energy_j.value, ending.steps);
  text += fmt::format(
      "{}: {}{}, {:.0f} s, {}, {} {}, {} to {}, {}{}; {}\n", s.name,
      ending.end == RunEnd::interrupted ? "interrupted, " : "", scores, s.seconds,
      with_prefix(static_cast<double>(s.flops), "FLOP"), with_prefix(s.energy_j.value, "J"),
      s.energy_kind, with_prefix(s.energy_j.low, "J"), with_prefix(s.energy_j.high, "J"),
      with_prefix(s.co2_g, "g CO2"),
      s.select && !s.select->saves ? " (patches zeroed, not dropped: nothing saved)" : "", folder);
  if (const std::string note = s.cpu_share_note(); !note.empty())
    text += fmt::format("{}: {}\n", s.name, note);
  if (!s.meter_notes.empty())
    text += fmt::format("{}: faults of the meter: {}; the energy is between {} and {}\n", s.name,
                        s.meter_notes, with_prefix(s.energy_j.low, "J"),
                        with_prefix(s.energy_j.high, "J"));
  if (!ending.trace_note.empty()) text += fmt::format("{}: {}\n", s.name, ending.trace_note);
  print_folded(stdout, text);
}

// The first rank reads it and, where ranks are several, tells the others.
Config shared_configuration(const TrainOptions& options) {
  if (ranks().alone()) return configuration(options);
  const std::string text =
      ranks().broadcast(ranks().first() ? to_toml(configuration(options)) : "");
  const Config config = parse_config(text, options.config);
  use_device(config);
  return config;
}

int train(const TrainOptions& options) {
  const Config config = shared_configuration(options);
  // What fails does so before a folder is made.
  PhaseData data = open_run(config);
  if (!goes_on(options.out, options.resume)) initial_weights(config);
  const bool quiet = options.quiet || !ranks().first();
  const std::string folder = ranks().first() ? prepare_folder(options, config) : "";
  if (!quiet) options.tell_device(config);
  const RunEnding ending =
      train_run(config, std::move(data),
                {folder, options.resume, options.trace, progress_mode(stderr, quiet), true});
  if (!ranks().first()) return ending.end == RunEnd::interrupted ? kInterruptedExitCode : 0;
  if (options.json)
    fmt::print("{}\n", to_json(ending.summary));
  else if (!options.quiet)
    print_result(config, ending, folder);
  if (const std::string& reason = ending.summary.energy_unsaved; !reason.empty())
    fmt::print(stderr, "hgtrain: {}; energy files lack the end of the run\n", reason);
  if (ending.end == RunEnd::interrupted) return kInterruptedExitCode;
  return ending.summary.energy_unsaved.empty() ? 0 : 1;
}

}  // namespace

int train_command(const TrainOptions& options) {
  return on_ranks([&] { return train(options); });
}

}  // namespace hg
