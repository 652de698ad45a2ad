// The commands of hgprof, one file each; options are read in hgprof.cpp. Each returns the exit
// code.
#pragma once

#include <string>

#include "train/commands/commands.h"

namespace hg::prof {

struct ProfileOptions : ModelOptions {
  std::int64_t steps = 10;
  std::optional<std::int64_t> phase;  // as for MeasuredStep
  std::string by, sort = "energy";
  std::string csv, trace, html;  // files to write; empty: none
  std::string profile;           // of the machine's energy; empty: the default one
};
int profile_command(const ProfileOptions& options);

struct OpsOptions {
  std::string filter, device = "cpu";
  std::int64_t threads = 0;
  std::uint64_t bytes = 4 << 20;  // of an op's inputs and outputs
  bool json = false;
};
int ops_command(const OpsOptions& options);

struct AttentionBenchOptions {
  std::string variants;  // as parse_variants() reads them; empty: all that work with one head
  std::vector<std::int64_t> lengths{256, 1024, 4096, 16384};
  std::int64_t dim = 64, rounds = 5, threads = 1, seed = 1;
  double pruned = 0.7;                 // share of pairs, of fiak_pruned
  double seconds = 10, gigabytes = 4;  // a call that needs more is left out
  bool json = false;
};
int attention_command(const AttentionBenchOptions& options);

struct CalibrateOptions {
  std::string out, name, device = "cpu";
  double seconds = 0.3;      // of one trial
  std::int64_t enlarge = 0;  // the GPU's kernels, so many times as many rows; 0: as suits a GPU
  std::int64_t threads = 0;
};
int calibrate_command(const CalibrateOptions& options);

struct DiffOptions {
  std::string a, b;
  std::optional<double> fail_above;  // percent
  bool json = false;
};
int diff_command(const DiffOptions& options);

}  // namespace hg::prof
