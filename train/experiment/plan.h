// What an experiment runs: a baseline and other arms, each a configuration, perhaps at a scale,
// repeated with different seeds.
#pragma once

#include "train/experiment/file.h"

namespace hg::experiment {

struct Arm {
  std::string name;   // in tables and of folders
  std::string title;  // in words
  Config config;      // with the first seed
};

struct Plan {
  std::string experiment, scale;  // scale "": the experiment has none
  std::string called;             // as the command line names it: "rq1 --scale small", "my.toml"
  std::string question;
  std::vector<Arm> arms;              // the baseline first
  std::vector<std::string> settings;  // given on top of the scale's, for all arms
  std::int64_t repeats = 0, first_seed = 1;
  std::optional<double> target_f1;  // none: kTargetShare of the baseline's mean final micro F1
  std::string target_from;          // who gave it: "--target", "my.toml"
  std::optional<Goal> goal;
  double margin_points = 0.5;  // of micro F1: how far apart arms may be that have "the same"
};
inline constexpr double kTargetShare = 0.99;

struct Request {
  std::string experiment,
      scale = "";  // a built-in name or a file; scale "": small, if there is one
  std::vector<std::string> settings = {};
  std::optional<std::int64_t> repeats = {};  // none: the scale's
  std::optional<double> target_f1 = {};
  std::optional<double> margin_points = {};  // none: the plan's
};
// Throws UsageError for an unknown experiment or scale, for settings that an arm cannot have, and
// for those that the arms differ in.
Plan make_plan(const Request& request);
Plan make_plan(const ExperimentFile& file, const Request& request);

// "rq2 at scale smoke", "my"
std::string described(const std::string& experiment, const std::string& scale);

struct PlannedRun {
  const Arm* arm;
  std::int64_t seed;
  std::string name() const;  // "contrast-drop-3", of its folder
  Config config() const;
};
// Interleaved: all arms with the first seed, all arms with the second, ...
std::vector<PlannedRun> schedule(const Plan& plan);

// What makes two configurations' energies incomparable ("data"); empty: nothing. A saving needs
// equal data, device and threads.
std::string incomparable(const Config& a, const Config& b);
// What makes one of them train more than the other ("epochs, 5 and 6"); empty: nothing. Then a
// saving counts at the same F1 alone.
std::string unequal_training(const Config& a, const Config& b);

}  // namespace hg::experiment
