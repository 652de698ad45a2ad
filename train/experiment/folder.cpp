#include "train/experiment/folder.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "tensor/base/files.h"
#include "tensor/base/json_value.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/store/run_folder.h"
#include "train/store/summary.h"

namespace hg::experiment {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// The first line in which two written configurations differ; comments tell no difference.
struct Difference {
  std::string before, now;
};
std::optional<Difference> difference_of(const std::string& before, const std::string& now) {
  std::istringstream a(before), b(now);
  const auto next = [](std::istringstream& in, std::string& line) {
    const bool more = !std::getline(in, line).fail();
    line.resize(std::min(line.size(), line.find("  #")));
    return more;
  };
  Difference lines;
  while (true) {
    const bool more_before = next(a, lines.before), more_now = next(b, lines.now);
    if (lines.before != lines.now || more_before != more_now) return lines;
    if (!more_before) return std::nullopt;
  }
}

void check_identity(const std::string& folder, const JsonValue& before, const Plan& plan) {
  const std::string experiment = before.text_if_any("experiment"),
                    scale = before.text_if_any("scale");
  usage_require(experiment == plan.experiment && scale == plan.scale, folder,
                "holds {} at scale {}, not {} at scale {}; --out names another folder",
                printable(experiment), printable(scale), plan.experiment, plan.scale);
  for (const Arm& arm : plan.arms) {
    const auto d = difference_of(before["arms"].text_if_any(arm.name), to_toml(arm.config));
    if (d)
      usage_fail(folder,
                 "was begun with other settings ({}: \"{}\", now \"{}\"); --out names another "
                 "folder",
                 arm.name, printable(d->before), printable(d->now));
  }
}

// Nothing is in the folder, but for what a kill left of claiming it.
bool is_free(const std::string& folder, const std::string& identity) {
  if (!is_folder(folder)) return true;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path() != AtomicFile::temporary_of(identity)) return false;
  return !error;
}

}  // namespace

void claim_folder(const std::string& folder, const Plan& plan) {
  const std::string path = folder + "/experiment.json";
  if (is_file(path)) return check_identity(folder, JsonValue::read(path), plan);
  usage_require(is_free(folder, path), folder,
                "holds files, but no experiment; --out names another folder");
  make_folder(folder);
  Json arms = Json::object();
  for (const Arm& arm : plan.arms) arms[arm.name] = to_toml(arm.config);
  const Json identity{{"experiment", plan.experiment}, {"scale", plan.scale}, {"arms", arms}};
  write_file(path, identity.dump(2) + "\n");
}

std::string run_folder(const std::string& folder, const PlannedRun& run) {
  return fmt::format("{}/runs/{}", folder, run.name());
}

RunProgress progress_of(const std::string& folder, const PlannedRun& run) {
  const RunFolder own{run_folder(folder, run)};
  if (!is_file(own.config())) return RunProgress::none;
  usage_require(load_config(own.config()) == run.config(), own.config(),
                "differs from the configuration of this experiment's run");
  if (!is_file(own.summary())) return RunProgress::begun;
  RunSummary summary;
  read_summary(own.summary(), summary);
  return summary.status == kFinished ? RunProgress::finished : RunProgress::begun;
}

}  // namespace hg::experiment
