#include "train/experiment/folder.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

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

// Arms that were added, renamed or taken away make another experiment.
void check_arms(const std::string& folder, const JsonValue& kept, const Plan& plan) {
  std::set<std::string> names;
  for (const Arm& arm : plan.arms) names.insert(arm.name);
  const std::vector<std::string> keys = kept.keys();
  const std::set<std::string> before(keys.begin(), keys.end());
  usage_require(names == before, folder,
                "was begun with the arms {}, not {}; --out names another folder",
                printable(fmt::format("{}", fmt::join(before, ", "))), fmt::join(names, ", "));
}

void check_identity(const std::string& folder, const JsonValue& before, const Plan& plan) {
  const std::string experiment = before.text_if_any("experiment"),
                    scale = before.text_if_any("scale");
  usage_require(experiment == plan.experiment && scale == plan.scale, folder,
                "holds {}, not {}; --out names another folder",
                printable(described(experiment, scale)), described(plan.experiment, plan.scale));
  check_arms(folder, before["arms"], plan);
  for (const Arm& arm : plan.arms) {
    const std::string kept = before["arms"].text_if_any(arm.name);
    const std::string difference = first_difference(
        parse_config(kept, fmt::format("{}/experiment.json: {}", folder, arm.name)), arm.config);
    usage_require(difference.empty(), folder,
                  "was begun with other settings ({}: {}); --out names another folder", arm.name,
                  difference);
  }
}

// But for a lock, and what a kill left of claiming the folder.
bool holds_files(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().filename() != FolderLock::kFile && entry.path().extension() != kTemporary)
      return true;
  return false;
}

}  // namespace

std::unique_ptr<FolderLock> claim_folder(const std::string& folder, const Plan& plan,
                                         FolderLock::Held held) {
  const std::string path = folder + "/experiment.json";
  // In this order: another process that makes the folder writes the experiment's file first.
  const auto check_others = [&] {
    usage_require(!holds_files(folder) || is_file(path), folder,
                  "holds files, but no experiment; --out names another folder");
  };
  check_others();  // before anything is made in it
  make_folder(folder);
  auto lock = std::make_unique<FolderLock>(folder, held);
  if (held == FolderLock::Held::refuse) check_others();  // or else it has others' runs
  if (is_file(path)) {
    check_identity(folder, JsonValue::read(path), plan);
    return lock;
  }
  Json arms = Json::object();
  for (const Arm& arm : plan.arms) arms[arm.name] = to_toml(arm.config);
  const Json identity{{"experiment", plan.experiment}, {"scale", plan.scale}, {"arms", arms}};
  write_file(path, identity.dump(2) + "\n");
  return lock;
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
