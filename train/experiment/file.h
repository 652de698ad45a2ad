// An experiment file: a question, a base configuration and arms on top of it, in TOML (README.md).
// The program's own are train/experiments/*.toml.
#pragma once

#include <map>
#include <optional>

#include "train/config/config.h"

namespace hg::experiment {

// What the experiment is to show: at least so much saved at an F1 at most so much lower.
struct Goal {
  double saving_percent = 0, f1_points = 0;
  bool operator==(const Goal&) const = default;
};

// A value and where it stands: "my.toml:3: experiment.base".
template <class T>
struct At {
  T value{};
  std::string who{};
};

struct FileArm {
  std::string name, title;
  std::vector<Setting> settings;
  std::map<std::string, std::vector<Setting>> at_scale;  // on top, by scale
  // Phases instead of the base's, which these settings ("phase.0.kind=...") fill; none: the base's.
  std::optional<std::size_t> phases;
  std::vector<Setting> phase_settings;

  std::vector<Setting> all_settings(const std::string& scale) const;
};

struct FileScale {
  std::string name;
  std::optional<At<std::string>> base;  // none: the experiment's
  std::optional<std::int64_t> repeats;
  std::vector<Setting> settings;
};

// A key and the values that `hgtrain tune` tries for it, as settings.
struct SweptKey {
  std::string key;
  std::vector<Setting> values;
};

struct ExperimentFile {
  std::string name, source;  // of the folder of results; as it was given
  std::string folder;        // that paths in it start from
  std::string question;
  std::optional<At<std::string>> base;  // a built-in name or a path; none: each scale has one
  std::optional<std::int64_t> repeats;
  std::optional<std::int64_t> first_seed;  // none: the base's run.seed
  std::optional<double> target_f1, margin_points;
  std::optional<Goal> goal;
  std::vector<Setting> settings;  // for all arms
  std::vector<FileScale> scales;  // as they stand in the file
  std::vector<FileArm> arms;      // two or more, the baseline first
  std::vector<SweptKey> sweep;

  const FileScale* scale(const std::string& name) const;  // none: null
};

// Throws UsageError in one line with file, line, key and what was expected. Settings are checked
// with the configuration that they are set in (plan.h).
ExperimentFile parse_experiment(std::string_view toml, const std::string& source);
// A file, or the built-in one of this name.
ExperimentFile load_experiment(const std::string& path_or_name);
const std::vector<BuiltinText>& builtin_experiments();

// parse_experiment() of it gives the same; paths are absolute.
std::string to_toml(const ExperimentFile& file);

}  // namespace hg::experiment
