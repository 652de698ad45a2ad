// hgtrain: trains, evaluates and exchanges Vision Transformers.
#include <algorithm>

#include "tensor/base/usage_error.h"
#include "train/commands/cli.h"
#include "train/config/variants.h"
#include "train/version.h"

namespace {

using namespace hg;

void add_config(CLI::App& app, ModelOptions& o) {
  app.add_option("CONFIG", o.config, config_help())->required();
  add_model_options(app, o);
}

struct Commands {
  TrainOptions train;
  EvalOptions eval;
  PredictOptions predict;
  InfoOptions info;
  ForwardOptions forward;
  BenchOptions bench;
  CompareOptions compare;
  ExperimentOptions experiment;
  ReportOptions report;
  ConfigOptions config;
  MetersOptions meters;
  std::function<int()> chosen;

  void add_to(CLI::App& app) {
    add_train(*app.add_subcommand("train", "Train a model; the results go into a run folder"));
    add_eval(*app.add_subcommand("eval", "Accuracy, F1 and a table per class on the test images"));
    add_predict(*app.add_subcommand("predict", "Class, probability and box of image files"));
    CLI::App* i =
        app.add_subcommand("info", "Parameters, FLOPs and bytes per layer, for one image");
    add_config(*i, info);
    add_json(*i, info);
    i->add_option("--weights", info.weights, "model file, whose pruned pairs are not counted");
    i->callback([this] { chosen = [this] { return info_command(info); }; });
    add_forward(*app.add_subcommand("forward", "Logits, loss and gradients of given weights"));
    add_bench(*app.add_subcommand("bench", "Time of a training step on random data"));
    add_compare(
        *app.add_subcommand("compare", "Variants of attention side by side: F1, cost, time"));
    add_experiment(*app.add_subcommand(
        "experiment", "Repeated runs of several arms, and what they say about a question"));
    add_report(*app.add_subcommand("report", "A page on a run, or on several side by side"));
    add_config_command(*app.add_subcommand("config", "Every key of a configuration"));
    add_meters(*app.add_subcommand("meters", "Every energy meter considered, and why it is used"));
  }

  void add_train(CLI::App& app) {
    add_config(app, train);
    add_json(app, train);
    app.add_option("--out", train.out, "run folder (default: runs/NAME)");
    app.add_flag("--resume", train.resume, "go on where the run in --out was");
    app.add_flag("--quiet", train.quiet, "show nothing while training");
    app.add_flag("--trace", train.trace, "write trace.json, for Perfetto or chrome://tracing");
    app.callback([this] { chosen = [this] { return train_command(train); }; });
  }
  void add_eval(CLI::App& app) {
    app.add_option("TARGET", eval.target, "run folder or model.safetensors")->required();
    app.add_option("--config", eval.config, "configuration, where it isn't beside the model");
    add_model_options(app, eval);
    add_json(app, eval);
    app.callback([this] { chosen = [this] { return eval_command(eval); }; });
  }
  void add_predict(CLI::App& app) {
    app.add_option("RUN_DIR", predict.run, "run folder")->required();
    app.add_option("IMAGE", predict.images, "image files: PNG, JPEG, BMP")->required();
    app.add_option("--draw", predict.draw, "folder for PNG files with the box drawn in");
    add_model_options(app, predict);
    add_json(app, predict);
    app.callback([this] { chosen = [this] { return predict_command(predict); }; });
  }
  void add_forward(CLI::App& app) {
    add_config(app, forward);
    app.add_option("--weights", forward.weights, "weights (safetensors, timm's names)")->required();
    app.add_option("--input", forward.input,
                   "images [B,C,H,W] and optionally labels [B], keep [B,k]")
        ->required();
    app.add_option("--output", forward.output, "file to write: logits, loss, grad.*")->required();
    app.callback([this] { chosen = [this] { return forward_command(forward); }; });
  }
  void add_bench(CLI::App& app) {
    add_config(app, bench);
    add_json(app, bench);
    app.add_option("--steps", bench.steps, "steps to time")->check(CLI::Range(1, 1000000));
    add_phase(app, bench.phase);
    app.callback([this] { chosen = [this] { return bench_command(bench); }; });
  }
  void add_compare(CLI::App& app) {
    add_config(app, compare);
    add_json(app, compare);
    app.add_option("--attention", compare.attention, kVariantsHelp)->required();
    app.add_option("--steps", compare.steps, "rounds in which each variant makes a step or more")
        ->check(CLI::Range(1, 1000000));
    app.add_flag("--train", compare.train, "also train each variant, for its F1");
    app.add_option("--out", compare.out, "with --train: folder for the run folders");
    app.add_flag("--quiet", compare.quiet, "show nothing while training");
    app.callback([this] { chosen = [this] { return compare_command(compare); }; });
  }
  void add_experiment(CLI::App& app) {
    app.add_option("NAME", experiment.experiment,
                   "rq1 (attentions), rq2 (patch filters), rq3 (pretraining) or quick")
        ->required();
    app.add_option("--scale", experiment.scale, "smoke, small or paper (default: small)");
    app.add_option("--repeats", experiment.repeats, "runs an arm, each with its own seed")
        ->check(CLI::Range(1, 1000));
    app.add_option("--target", experiment.target,
                   "micro F1 whose energy is compared (default: 0.99 of the baseline's mean)");
    app.add_option("--out", experiment.out,
                   "folder, gone on with if it holds this experiment (default: "
                   "experiments/NAME-SCALE)");
    app.add_flag("--quiet", experiment.quiet, "show nothing while training");
    add_model_options(app, experiment);
    add_json(app, experiment);
    app.callback([this] { chosen = [this] { return experiment_command(experiment); }; });
  }
  void add_report(CLI::App& app) {
    app.add_option("RUN_DIR", report.folders, "run folders")->required();
    app.add_option("--out", report.out,
                   "file to write (default: report.html in the run folder; of several runs, here)");
    app.callback([this] { chosen = [this] { return report_command(report); }; });
  }
  void add_config_command(CLI::App& app) {
    app.add_option("CONFIG", config.config, "configuration whose values are shown");
    add_settings(app, config.settings);
    add_json(app, config.json);
    app.callback([this] { chosen = [this] { return config_command(config); }; });
  }
  void add_meters(CLI::App& app) {
    app.add_option("--watch", meters.watch, "also read the meter for so many seconds")
        ->check(CLI::Range(0.001, 1e6));
    add_json(app, meters.json);
    app.callback([this] { chosen = [this] { return meters_command(meters); }; });
  }
};

// CLI11 does not name a command it doesn't know.
void require_known_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands({})) known.push_back(command->get_name());
  if (std::find(known.begin(), known.end(), argv[1]) != known.end()) return;
  usage_fail(argv[1], "unknown command; expected one of {}", fmt::join(known, ", "));
}

int run(int argc, char** argv) {
  CLI::App app("Trains, evaluates and exchanges Vision Transformers.", "hgtrain");
  app.set_version_flag("--version", version_of("hgtrain"));
  app.require_subcommand(1);
  Commands commands;
  commands.add_to(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    require_known_command(app, argc, argv);
    fmt::print(stderr, "hgtrain: {} (hgtrain --help shows how)\n", e.what());
    return 2;
  }
  return commands.chosen();
}

}  // namespace

int main(int argc, char** argv) {
  return hg::run_program("hgtrain", [&] { return run(argc, argv); });
}
