// hgprof: where the joules of training go, by layer, op and phase.
#include <algorithm>
#include <filesystem>

#include "tensor/base/process.h"
#include "tensor/base/usage_error.h"
#include "tools/hgprof/commands.h"
#include "train/commands/cli.h"
#include "train/config/variants.h"
#include "train/version.h"

namespace {

using namespace hg;

void add_profile(CLI::App& app, prof::ProfileOptions& o) {
  app.add_option("CONFIG", o.config, kConfigHelp);
  add_model_options(app, o);
  add_json(app, o);
  app.add_option("--steps", o.steps, "training steps to profile")->check(CLI::Range(1, 1000000));
  add_phase(app, o.phase);
  app.add_option("--by", o.by, "sum over all but one of: layer (a tree), op, phase")
      ->type_name("layer|op|phase");
  app.add_option("--sort", o.sort, "what rows are sorted by")->type_name("energy|time|flops|name");
  app.add_option("--csv", o.csv, "file for the rows, as a run's ledger.csv")->type_name("FILE");
  app.add_option("--trace", o.trace, "file for a Chrome/Perfetto trace")->type_name("FILE");
  app.add_option("--html", o.html, "file for a page with a flame graph of joules")
      ->type_name("FILE");
  app.add_option("--profile", o.profile,
                 "energy profile of this machine (hgprof calibrate); else a rough default")
      ->type_name("FILE");
}
void add_ops(CLI::App& app, prof::OpsOptions& o) {
  app.add_option("--filter", o.filter, "only ops whose name contains this");
  app.add_option("--device", o.device, "cpu, cuda or auto (cpu)");
  app.add_option("--threads", o.threads, "threads; 0: every core");
  add_json(app, o.json);
}
void add_attention(CLI::App& app, prof::AttentionBenchOptions& o) {
  app.add_option("--lengths", o.lengths, "numbers of tokens")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--variants", o.variants,
                 variants_help() + " (default: all that work with one head)")
      ->type_name(kVariantsType);
  app.add_option("--dim", o.dim, "width of the head")->check(CLI::Range(1, 4096));
  app.add_option("--pruned", o.pruned, "share of pairs that fiak_pruned lacks")
      ->check(number_between(0, 1));
  app.add_option("--rounds", o.rounds, "measurements, of which the fastest counts")
      ->check(CLI::Range(1, 1000));
  app.add_option("--seconds", o.seconds, "leave out calls that would take longer")
      ->check(number_between(0, 1e6));
  app.add_option("--memory", o.gigabytes, "leave out layers that would need more GB")
      ->check(number_between(0, 1e6));
  app.add_option("--threads", o.threads, "threads inside an op; 0: every core");
  app.add_option("--seed", o.seed, "seed of every random draw")->check(CLI::NonNegativeNumber);
  add_json(app, o.json);
}
void add_calibrate(CLI::App& app, prof::CalibrateOptions& o) {
  app.add_option("--out", o.out, "file to write")->type_name("FILE")->required();
  app.add_option("--name", o.name, "name of the profile (default: the CPU's)");
  app.add_option("--device", o.device, "cpu, or cuda: the GPU as well (cpu)");
  app.add_option("--seconds", o.seconds, "length of one trial")->check(number_between(0.01, 60));
  app.add_option("--threads", o.threads, "threads; 0: every core");
}
void add_diff(CLI::App& app, prof::DiffOptions& o) {
  app.add_option("A", o.a, "profile written by hgprof CONFIG --json")
      ->type_name("FILE")
      ->required();
  app.add_option("B", o.b, "profile to compare with it")->type_name("FILE")->required();
  app.add_option("--fail-above", o.fail_above,
                 "exit 1 if the joules of a step, or of an op that matters, grew by more than "
                 "this percentage and more than noise")
      ->check(number_between(0, 1e6));
  add_json(app, o.json);
}

void add_commands(Commands& all) {
  all.add("ops", "Each registered op alone", add_ops, prof::ops_command)
      .example("hgprof ops --filter softmax");
  all.add("attention", "Cores of attention by sequence length", add_attention,
          prof::attention_command)
      .example("hgprof attention --lengths 256,1024 --variants softmax,favor");
  all.add("calibrate", "Fit this machine's energy profile", add_calibrate, prof::calibrate_command)
      .example("hgprof calibrate --out machine.json");
  all.add("diff", "What changed between two profiles", add_diff, prof::diff_command)
      .example("hgprof diff before.json after.json --fail-above 5")
      .exits(1, "a failure of the work, or joules grew by more than --fail-above");
  all.add("completion", "Completion for a shell", add_completion, completion_command)
      .example("hgprof completion bash");
  all.add("man", "The man page", add_man, man_command).example("hgprof man");
}

// A word alone may be a configuration or a command.
void require_config(const Command& app, const std::string& config) {
  usage_require(
      !config.empty(), "CONFIG",
      "expected a configuration or ops, attention, calibrate, diff (hgprof --help shows how)");
  const auto known = [&](const BuiltinText& text) { return text.name == config; };
  if (std::ranges::any_of(builtin_configs(), known) || std::filesystem::exists(config)) return;
  const std::string meant = manual::command_meant(app, config);
  usage_require(meant.empty(), printable(config),
                "neither a command nor a configuration; did you mean {}?", meant);
}

int run(int argc, char** argv) {
  Command app("Says where the joules of training go, by layer, op and phase", "hgprof");
  app.example("hgprof cifar10 --by layer --html joules.html");
  set_program_version(version_of("hgprof"));
  app.require_subcommand(0, 1);
  prepare(app, version_of("hgprof"));
  prof::ProfileOptions profile;
  add_profile(app, profile);
  Commands all{app};
  add_commands(all);
  if (const auto code = parse_arguments(app, argc, argv)) return *code;
  if (all.chosen) {
    usage_require(profile.config.empty(), profile.config,
                  "a configuration and a command; expected one of them");
    return all.chosen();
  }
  require_config(app, profile.config);
  return profile_command(profile);
}

}  // namespace

int main(int argc, char** argv) {
  return hg::run_program("hgprof", [&] { return run(argc, argv); });
}
