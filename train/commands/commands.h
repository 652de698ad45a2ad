// The commands of hgtrain, one file each. Options are read in hgtrain.cpp; each returns the exit
// code. Results go to standard output, everything else to standard error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/config/config.h"

namespace hg {

// Options that every command that runs a model takes.
struct ModelOptions {
  std::string config;
  std::vector<std::string> settings;  // --set
  std::string device;                 // empty: the configuration's
  std::optional<std::int64_t> threads, seed;
  bool json = false, quiet = false;

  std::vector<std::string> all_settings() const;  // --set and the options above
  // The configuration with these options on top; also sets the number of threads.
  Config load() const;
  // Once nothing can be wrong with the input any more: that the device "auto", which was asked for,
  // is the CPU for want of a better one.
  void tell_device(const Config& loaded) const;
};

// Throws UsageError where the device is not there; sets the number of threads.
void use_device(const Config& config);

struct TrainOptions : ModelOptions {
  std::string out;  // run folder; empty: runs/<name>
  bool resume = false, trace = false;
};
int train_command(const TrainOptions& options);

struct EvalOptions : ModelOptions {
  std::string target;  // run folder or model file
};
int eval_command(const EvalOptions& options);

struct PredictOptions : ModelOptions {
  std::string run;
  std::vector<std::string> images;  // files, and folders of files
  std::int64_t top = 1;             // classes to tell of each image
  std::string draw;  // folder for the images with their boxes drawn in; empty: none are drawn
};
int predict_command(const PredictOptions& options);

struct InfoOptions : ModelOptions {
  std::string weights;         // a model file whose masks count; empty: none
  bool layers = false;         // all of them, not the summary
  std::string ranks, network;  // as scaling.h reads them; empty: no prediction, the usual network
};
int info_command(const InfoOptions& options);

struct ForwardOptions : ModelOptions {
  std::string weights, input, output;
};
int forward_command(const ForwardOptions& options);

struct BenchOptions : ModelOptions {
  std::int64_t steps = 10;
  std::optional<std::int64_t> phase;  // as for MeasuredStep
  bool eval = false;                  // MeasuredPass instead
};
int bench_command(const BenchOptions& options);

struct CompareOptions : ModelOptions {
  std::string attention;    // variants, as parse_variants() reads them
  std::int64_t steps = 10;  // rounds
  bool train = false;
  std::string out;  // folder of the run folders; empty: a new one in runs
};
int compare_command(const CompareOptions& options);

struct ReportOptions {
  std::vector<std::string> folders;
  std::string out;  // empty: report.html of the one run, or here
};
int report_command(const ReportOptions& options);

struct WatchOptions {
  std::string folder;
  int port = 8765;  // 0: any that is free
};
int watch_command(const WatchOptions& options);

struct ExperimentOptions : ModelOptions {
  std::string experiment, shown;  // a built-in name or a file, "list", or "show" and which
  std::string scale, out;
  std::string share;               // "I/N"; empty: a job array's, or all
  std::int64_t ranks_per_run = 1;  // under mpirun
  std::optional<std::int64_t> repeats;
  std::optional<double> target, margin_points;  // micro F1; points of it
};
int experiment_command(const ExperimentOptions& options);

struct TuneOptions : ModelOptions {
  std::string experiment, scale, out;
  std::optional<std::int64_t> runs;  // of each arm; none: as many as the halving takes
  std::optional<double> joules;      // the same
};
int tune_command(const TuneOptions& options);

struct ConfigOptions {
  std::string config;  // empty: none in particular
  std::vector<std::string> settings;
  bool json = false;
};
int config_command(const ConfigOptions& options);

struct CheckDeviceOptions : ModelOptions {
  CheckDeviceOptions() { config = "deit-tiny"; }
};
int check_device_command(const CheckDeviceOptions& options);

struct MetersOptions {
  std::optional<double> watch;  // seconds
  bool json = false;
};
int meters_command(const MetersOptions& options);

}  // namespace hg
