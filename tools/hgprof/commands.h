// The commands of hgprof, one file each; options are read in hgprof.cpp. Each returns the exit
// code.
#pragma once

#include <string>

#include "train/commands/commands.h"

namespace hg::prof {

struct ProfileOptions : ModelOptions {
  std::int64_t steps = 10;
  std::string by, sort = "energy";
  std::string csv, trace, html;  // files to write; empty: none
  std::string profile;           // of the machine's energy; empty: the default one
};
int profile_command(const ProfileOptions& options);

struct OpsOptions {
  std::string filter;
  std::int64_t threads = 0;
  bool json = false;
};
int ops_command(const OpsOptions& options);

struct CalibrateOptions {
  std::string out, name;
  double seconds = 0.3;  // of one trial
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
