#include "train/experiment/folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tensor/base/files.h"
#include "tensor/base/usage_error.h"

namespace hg::experiment {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Json identity_of(const Plan& plan) {
  Json arms = Json::object();
  for (const Arm& arm : plan.arms) arms[arm.name] = to_toml(arm.config);
  return {{"experiment", plan.experiment}, {"scale", plan.scale}, {"arms", arms}};
}

Json read_json(const std::string& path) {
  Json json = Json::parse(std::string(MappedFile(path).bytes()), nullptr, false);
  usage_require(json.is_object(), path, "expected a JSON object");
  return json;
}

std::string text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

// The first line, without its comment, in which two written configurations differ.
struct Difference {
  std::string before, now;
};
Difference difference_of(const std::string& before, const std::string& now) {
  const auto without_comment = [](const std::string& line) {
    return line.substr(0, line.find("  #"));
  };
  std::istringstream a(before), b(now);
  std::string line_a, line_b;
  while (true) {
    const bool more_a = !std::getline(a, line_a).fail(), more_b = !std::getline(b, line_b).fail();
    if (line_a != line_b || more_a != more_b || !more_a)
      return {without_comment(line_a), without_comment(line_b)};
  }
}

void check_identity(const std::string& folder, const Json& before, const Json& now) {
  for (const char* key : {"experiment", "scale"})
    usage_require(text_of(before, key) == text_of(now, key), folder,
                  "holds {} at scale {}, not {} at scale {}; --out names another folder",
                  text_of(before, "experiment"), text_of(before, "scale"),
                  text_of(now, "experiment"), text_of(now, "scale"));
  const Json arms = before.value("arms", Json::object());
  for (const auto& [name, config] : now["arms"].items()) {
    const std::string kept = arms.is_object() ? text_of(arms, name.c_str()) : "";
    if (kept == config) continue;
    const Difference d = difference_of(kept, config.get<std::string>());
    usage_fail(folder,
               "was begun with other settings ({}: \"{}\", now \"{}\"); --out names another "
               "folder",
               name, d.before, d.now);
  }
}

}  // namespace

void claim_folder(const std::string& folder, const Plan& plan) {
  const std::string path = folder + "/experiment.json";
  const Json now = identity_of(plan);
  if (fs::exists(path)) return check_identity(folder, read_json(path), now);
  std::error_code error;
  usage_require(!fs::is_directory(folder, error) || fs::is_empty(folder, error), folder,
                "holds files, but no experiment; --out names another folder");
  make_folder(folder);
  write_file(path, now.dump(2) + "\n");
}

std::string run_folder(const std::string& folder, const PlannedRun& run) {
  return fmt::format("{}/runs/{}", folder, run.name());
}

RunProgress progress_of(const std::string& folder, const PlannedRun& run) {
  const std::string own = run_folder(folder, run), config = own + "/config.toml",
                    summary = own + "/summary.json";
  if (!fs::exists(config)) return RunProgress::none;
  usage_require(load_config(config) == run.config(), config,
                "differs from the configuration of this experiment's run");
  const bool finished = fs::exists(summary) && text_of(read_json(summary), "status") == "finished";
  return finished ? RunProgress::finished : RunProgress::begun;
}

}  // namespace hg::experiment
