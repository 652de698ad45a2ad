// hgtrain: trains, evaluates and exchanges Vision Transformers.
#include "data/image_file.h"
#include "tensor/base/process.h"
#include "train/commands/cli.h"
#include "train/config/variants.h"
#include "train/run/signals.h"
#include "train/version.h"

namespace {

using namespace hg;

void add_config(CLI::App& app, ModelOptions& o) {
  app.add_option("CONFIG", o.config, kConfigHelp)->required();
  add_model_options(app, o);
}

void add_train(CLI::App& app, TrainOptions& o) {
  app.add_option("CONFIG", o.config,
                 std::string(kConfigHelp) + "; with --resume, the run's own by default");
  add_model_options(app, o);
  add_json(app, o);
  app.add_option("--out", o.out, "run folder (default: runs/NAME)")->type_name("DIR");
  app.add_flag("--resume", o.resume,
               "go on where the run in --out was; it begins if there is none yet");
  app.add_flag("--quiet", o.quiet, "show nothing while training");
  app.add_flag_callback(
      "--skip-damaged", [&o] { o.settings.push_back("data.skip_damaged=true"); },
      "leave out image files that cannot be read, as data.skip_damaged = true does");
  app.add_flag("--trace", o.trace, "write trace.json, for Perfetto or chrome://tracing");
}
void add_eval(CLI::App& app, EvalOptions& o) {
  app.add_option("TARGET", o.target, "run folder or model.safetensors")->required();
  app.add_option("--config", o.config, "configuration, where it isn't beside the model")
      ->type_name("CONFIG");
  add_model_options(app, o);
  add_json(app, o);
}
void add_predict(CLI::App& app, PredictOptions& o) {
  app.add_option("RUN_DIR", o.run, "run folder")->required();
  app.add_option("IMAGE", o.images,
                 fmt::format("image files ({}), or folders of them", kImageFormats))
      ->required();
  app.add_option("--top", o.top, "classes to tell of each image, the likeliest first")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--draw", o.draw, "folder for PNG files with the box drawn in")->type_name("DIR");
  add_model_options(app, o);
  add_json(app, o);
}
void add_info(CLI::App& app, InfoOptions& o) {
  add_config(app, o);
  add_json(app, o);
  app.add_option("--weights", o.weights, "model file, whose pruned pairs are not counted")
      ->type_name("FILE");
  app.add_flag("--layers", o.layers, "every op of every layer, instead of the summary");
  app.add_option("--ranks", o.ranks,
                 "1,8,64: also time a step here, and predict it for so many such ranks; under "
                 "mpirun, time it on its ranks as well")
      ->type_name("N,N");
  app.add_option("--network", o.network,
                 "GB/s and microseconds of the network between ranks, for --ranks (default: 10,2)")
      ->type_name("GB/s,us");
}
void add_forward(CLI::App& app, ForwardOptions& o) {
  add_config(app, o);
  app.add_option("--weights", o.weights, "weights (safetensors, timm's names)")
      ->type_name("FILE")
      ->required();
  app.add_option("--input", o.input, "images [B,C,H,W] and optionally labels [B], keep [B,k]")
      ->type_name("FILE")
      ->required();
  app.add_option("--output", o.output, "file to write: logits, loss, grad.*")
      ->type_name("FILE")
      ->required();
}
void add_bench(CLI::App& app, BenchOptions& o) {
  add_config(app, o);
  add_json(app, o);
  app.add_option("--steps", o.steps, "steps to time")->check(CLI::Range(1, 1000000));
  CLI::Option* const phase = add_phase(app, o.phase);
  app.add_flag("--eval", o.eval, "time the pass over a batch of test images instead")
      ->excludes(phase);
}
void add_compare(CLI::App& app, CompareOptions& o) {
  add_config(app, o);
  add_json(app, o);
  app.add_option("--attention", o.attention, variants_help())->type_name(kVariantsType)->required();
  app.add_option("--steps", o.steps, "rounds in which each variant makes a step or more")
      ->check(CLI::Range(1, 1000000));
  app.add_flag("--train", o.train, "also train each variant, for its F1");
  app.add_option("--out", o.out, "with --train: folder for the run folders")->type_name("DIR");
  app.add_flag("--quiet", o.quiet, "show nothing while training");
}
void add_experiment(CLI::App& app, ExperimentOptions& o) {
  app.add_option("EXPERIMENT", o.experiment,
                 "TOML file or a built-in experiment; `list` lists these, `show NAME` prints a "
                 "file to begin with")
      ->type_name("list|show|EXPERIMENT")
      ->required();
  app.add_option("WHICH", o.shown, "of `show`: the experiment")->type_name("EXPERIMENT");
  app.add_option("--scale", o.scale,
                 "scale of the file's; of built-in ones smoke, small (default) or paper")
      ->type_name("smoke|small|paper");
  app.add_option("--repeats", o.repeats, "runs an arm, each with its own seed")
      ->check(CLI::Range(1, 1000));
  app.add_option("--target", o.target,
                 "micro F1 whose energy is compared (default: 0.99 of the baseline's mean)")
      ->check(number_between(0, 1));
  app.add_option("--margin", o.margin_points,
                 "points of micro F1 within which arms have the same (default: 0.5)")
      ->check(number_between(0, 100));
  app.add_option("--out", o.out,
                 "folder, gone on with if it holds this experiment (default: "
                 "experiments/NAME or NAME-SCALE)")
      ->type_name("DIR");
  app.add_option("--share", o.share,
                 "I/N: the runs of every N-th seed from the I-th (default: of a Slurm job array's "
                 "task, its index)")
      ->type_name("I/N");
  app.add_option("--ranks-per-run", o.ranks_per_run,
                 "under mpirun or srun: so many neighbouring ranks train a run together")
      ->check(CLI::Range(1, 1000000));
  app.add_flag("--quiet", o.quiet, "show nothing while training");
  add_model_options(app, o);
  add_json(app, o);
}
void add_tune(CLI::App& app, TuneOptions& o) {
  app.add_option("EXPERIMENT", o.experiment, "experiment file with a section [sweep]")
      ->type_name("FILE")
      ->required();
  app.add_option("--scale", o.scale, "scale of the file's (default: small, if there is one)");
  CLI::Option* const runs =
      app.add_option("--runs", o.runs, "runs of each arm (default: what halving all takes)")
          ->check(CLI::Range(2, 1000000));
  app.add_option("--joules", o.joules, "joules of each arm, instead of runs")
      ->check(number_between(1e-9, 1e15))
      ->excludes(runs);
  app.add_option("--out", o.out,
                 "folder, gone on with if it holds this tuning (default: experiments/NAME-tune)")
      ->type_name("DIR");
  app.add_flag("--quiet", o.quiet, "show nothing while training");
  add_model_options(app, o);
  add_json(app, o);
}
void add_report(CLI::App& app, ReportOptions& o) {
  app.add_option("RUN_DIR", o.folders, "run folders, or the folder of an experiment")->required();
  app.add_option("--out", o.out,
                 "file to write (default: report.html in the run folder; of several runs, here)")
      ->type_name("FILE");
}
void add_watch(CLI::App& app, WatchOptions& o) {
  app.add_option("RUN_DIR", o.folder, "folder of a run or an experiment")->required();
  app.add_option("--port", o.port, "port on this machine; 0: any that is free")
      ->check(CLI::Range(0, 65535));
}
void add_keys(CLI::App& app, ConfigOptions& o) {
  app.add_option("CONFIG", o.config, "configuration whose values are shown");
  add_settings(app, o.settings);
  add_json(app, o.json);
}
void add_check_device(CLI::App& app, CheckDeviceOptions& o) {
  app.add_option("CONFIG", o.config, std::string(kConfigHelp) + "; its ops and steps are checked")
      ->capture_default_str();
  add_model_options(app, o);
  add_json(app, o);
}
void add_meters(CLI::App& app, MetersOptions& o) {
  app.add_option("--watch", o.watch, "also read the meter for so many seconds")
      ->check(number_between(0.001, 1e6));
  add_json(app, o.json);
}

constexpr const char* kInterrupted = "interrupted by Ctrl-C or SIGTERM; what is done is kept";

void add_commands(Commands& all) {
  all.add("train", "Train a model; the results go into a run folder", add_train, train_command)
      .example("hgtrain train cifar10 --set model.attention=gmm --set train.epochs=10")
      .exits(kInterruptedExitCode, kInterrupted);
  all.add("eval", "Accuracy, F1 and a table per class on the test images", add_eval, eval_command)
      .example("hgtrain eval runs/shapes");
  all.add("predict", "Class, probability and box of image files", add_predict, predict_command)
      .example("hgtrain predict runs/shapes photos --top 5")
      .exits(2, "bad usage or input, or an image that could not be read");
  all.add("info", "Parameters, FLOPs and bytes, for one image", add_info, info_command)
      .example("hgtrain info deit-tiny --layers");
  all.add("forward", "Logits, loss and gradients of given weights", add_forward, forward_command)
      .example(
          "hgtrain forward deit-tiny --weights w.safetensors --input i.safetensors "
          "--output o.safetensors");
  all.add("bench", "Time of a training step or of inference, on random data", add_bench,
          bench_command)
      .example("hgtrain bench cifar10 --steps 20 --threads 2");
  all.add("compare", "Variants of attention side by side: F1, cost, time", add_compare,
          compare_command)
      .example("hgtrain compare cifar10 --attention softmax,mgk:heads=2,linformer:rows=32")
      .exits(kInterruptedExitCode, kInterrupted);
  all.add("experiment", "Repeated runs of several arms, and what they say about a question",
          add_experiment, experiment_command)
      .example("hgtrain experiment quick --scale smoke")
      .exits(kInterruptedExitCode, kInterrupted);
  all.add("tune", "Settings of each arm of an experiment, chosen on images held out", add_tune,
          tune_command)
      .example("hgtrain tune mine.toml --runs 12")
      .exits(kInterruptedExitCode, kInterrupted);
  all.add("report", "A page on a run, on several side by side, or on an experiment", add_report,
          report_command)
      .example("hgtrain report runs/a runs/b --out both.html");
  all.add("watch", "The page of a run under way, live in a browser on this machine", add_watch,
          watch_command)
      .example("hgtrain watch runs/shapes");
  all.add("config", "Every key of a configuration", add_keys, config_command)
      .example("hgtrain config cifar10 --set model.attention=mgk");
  all.add("check-device", "Every op on a device against the CPU or the references, with its speed",
          add_check_device, check_device_command)
      .example("hgtrain check-device --device cuda --json")
      .exits(1, "a failure of the work, or of a check");
  all.add("meters", "Every energy meter considered, and why it is used", add_meters, meters_command)
      .example("hgtrain meters --watch 5");
  all.add("completion", "Completion for a shell", add_completion, completion_command)
      .example("hgtrain completion bash");
  all.add("man", "The man page", add_man, man_command).example("hgtrain man");
}

int run(int argc, char** argv) {
  Command app("Trains, evaluates and exchanges Vision Transformers", "hgtrain");
  app.example("hgtrain train shapes").exits(kInterruptedExitCode, kInterrupted);
  set_program_version(version_of("hgtrain"));
  app.require_subcommand(1);
  prepare(app, version_of("hgtrain"));
  Commands commands{app};
  add_commands(commands);
  if (const auto code = parse_arguments(app, argc, argv)) return *code;
  return commands.chosen();
}

}  // namespace

int main(int argc, char** argv) {
  return hg::run_program("hgtrain", [&] { return run(argc, argv); });
}
