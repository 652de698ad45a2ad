// What an experiment runs: a baseline and other arms, each a configuration, at a scale, repeated
// with different seeds. plan.cpp holds the tables of questions, arms and scales.
#pragma once

#include <optional>

#include "train/config/config.h"

namespace hg::experiment {

struct Arm {
  std::string name;   // in tables and of folders
  std::string title;  // in words
  Config config;      // with the first seed
};

// What the experiment is to show: at least so much saved at an F1 at most so much lower.
struct Goal {
  double saving_percent = 0, f1_points = 0;
};

struct Plan {
  std::string experiment, scale;
  std::string question;
  std::vector<Arm> arms;              // the baseline first
  std::vector<std::string> settings;  // given on top of the scale's, for all arms
  std::int64_t repeats = 0, first_seed = 1;
  std::optional<double> target_f1;  // none: kTargetShare of the baseline's mean final micro F1
  std::optional<Goal> goal;
  double margin_points = 0.5;  // of micro F1: how far apart arms may be that have "the same"
};
inline constexpr double kTargetShare = 0.99;

struct Request {
  std::string experiment, scale = "";  // scale "": small
  std::vector<std::string> settings = {};
  std::optional<std::int64_t> repeats = {};  // none: the scale's
  std::optional<double> target_f1 = {};
  std::optional<double> margin_points = {};  // none: the plan's
};
// Throws UsageError for an unknown experiment or scale, for settings that an arm cannot have, and
// for those that the arms differ in.
Plan make_plan(const Request& request);

std::vector<std::string> experiment_names();
std::vector<std::string> scale_names();

struct PlannedRun {
  const Arm* arm;
  std::int64_t seed;
  std::string name() const;  // "contrast-drop-3", of its folder
  Config config() const;
};
// Interleaved: all arms with the first seed, all arms with the second, ...
std::vector<PlannedRun> schedule(const Plan& plan);

// What makes two configurations' energies incomparable ("epochs 5 and 6"); empty: nothing. A saving
// needs equal data, epochs over all phases, batch and device.
std::string incomparable(const Config& a, const Config& b);

}  // namespace hg::experiment
