#include "train/experiment/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/config/key.h"
#include "train/config/phase_kind.h"

namespace hg::experiment {
namespace {

constexpr const char* kDefaultScale = "small";
constexpr std::int64_t kDefaultRepeats = 5;

// Null where the file has no scales.
const FileScale* scale_of(const ExperimentFile& file, const std::string& wanted) {
  if (file.scales.empty()) {
    usage_require(wanted.empty(), "--scale", "{} has no scales", printable(file.source));
    return nullptr;
  }
  const FileScale* scale = file.scale(wanted.empty() ? kDefaultScale : wanted);
  std::vector<std::string> names;
  for (const FileScale& known : file.scales) names.push_back(known.name);
  usage_require(scale != nullptr, "--scale", "expected {}, got \"{}\"", fmt::join(names, ", "),
                printable(wanted));
  return scale;
}

ConfigText text_of(const ExperimentFile& file, const At<std::string>& base) {
  for (const BuiltinText& builtin : builtin_configs())
    if (builtin.name == base.value) return {std::string(builtin.toml), base.value};
  const std::string path = path_from(file.folder, base.value);
  return {find_text(path, builtin_configs(), base.who, "configuration").toml, path,
          std::filesystem::path(path).parent_path().string()};
}

// "train.epochs" of "phase.0.train.epochs"; other keys as they are.
std::string without_phase(const std::string& key) {
  if (!key.starts_with("phase.")) return key;
  const std::size_t dot = key.find('.', std::string_view("phase.").size());
  return dot == std::string::npos ? key : key.substr(dot + 1);
}

// What the arms differ in cannot be set for all of them.
void check_settings(const Request& request, const ExperimentFile& file, const std::string& scale) {
  std::set<std::string> own;
  bool own_phases = false;
  for (const FileArm& arm : file.arms) {
    own_phases |= arm.phases.has_value();
    for (const Setting& setting : arm.all_settings(scale))
      own.insert(without_phase(key_of(setting.text)));
  }
  for (const std::string& setting : request.settings) {
    const std::string key = key_of(setting);
    usage_require(
        key != "run.name" && key != "run.joule_budget", "--set",
        "{}: not for an experiment, whose runs have names of their own and go to their end", key);
    usage_require(!own.contains(without_phase(key)) && !(own_phases && key.starts_with("phase")),
                  "--set", "{}: the arms of {} differ in it", printable(key), file.name);
  }
}

void append(std::vector<Setting>& settings, const std::vector<Setting>& more) {
  settings.insert(settings.end(), more.begin(), more.end());
}

// Of all arms, from the general to the particular.
std::vector<Setting> common_settings(const ExperimentFile& file, const FileScale* scale,
                                     const Request& request) {
  std::vector<Setting> settings;
  if (file.first_seed) settings.push_back({fmt::format("run.seed={}", *file.first_seed)});
  append(settings, file.settings);
  if (scale) append(settings, scale->settings);
  for (const std::string& given : request.settings) settings.push_back({given});
  return settings;
}

void take_numbers(const ExperimentFile& file, const FileScale* scale, const Request& request,
                  Plan& plan) {
  const std::optional<std::int64_t> of_scale = scale ? scale->repeats : std::nullopt;
  plan.repeats =
      request.repeats.value_or(of_scale.value_or(file.repeats.value_or(kDefaultRepeats)));
  usage_require(plan.repeats >= 1, "--repeats", "expected 1 or more, got {}", plan.repeats);
  plan.target_f1 = request.target_f1 ? request.target_f1 : file.target_f1;
  plan.target_from = request.target_f1 ? "--target" : file.source;
  usage_require(!plan.target_f1 || (*plan.target_f1 > 0 && *plan.target_f1 <= 1), "--target",
                "expected a micro F1 above 0 and at most 1");
  plan.margin_points =
      request.margin_points.value_or(file.margin_points.value_or(plan.margin_points));
  usage_require(plan.margin_points > 0 && plan.margin_points <= 100, "--margin",
                "expected points of F1 above 0 and at most 100, got {}", plan.margin_points);
  plan.goal = file.goal;
}

std::int64_t epochs_in_all(const Config& config) {
  std::int64_t sum = 0;
  for (const PhaseConfig& phase : config.phases)
    if (kind_of(phase).learner) sum += phase.train.epochs;
  return sum;
}

bool same_in_all_phases(const Config& a, const Config& b, auto of) {
  const auto& wanted = of(a.phases[0]);
  const auto same = [&](const PhaseConfig& phase) { return of(phase) == wanted; };
  return std::all_of(a.phases.begin(), a.phases.end(), same) &&
         std::all_of(b.phases.begin(), b.phases.end(), same);
}

}  // namespace

Plan make_plan(const Request& request) {
  return make_plan(load_experiment(request.experiment), request);
}

Plan make_plan(const ExperimentFile& file, const Request& request) {
  const FileScale* scale = scale_of(file, request.scale);
  Plan plan;
  plan.experiment = file.name;
  plan.scale = scale ? scale->name : "";
  plan.called = file.source + (scale ? " --scale " + scale->name : "");
  plan.question = file.question;
  plan.settings = request.settings;
  take_numbers(file, scale, request, plan);
  check_settings(request, file, plan.scale);
  const ConfigText base = text_of(file, scale && scale->base ? *scale->base : *file.base);
  for (const FileArm& arm : file.arms) {
    std::vector<Setting> settings = common_settings(file, scale, request);
    append(settings, arm.all_settings(plan.scale));
    plan.arms.push_back({arm.name, arm.title, parse_config(base, settings, arm.phases)});
    plan.arms.back().config.run.name = arm.name;
  }
  plan.first_seed = plan.arms[0].config.run.seed;
  return plan;
}

std::string described(const std::string& experiment, const std::string& scale) {
  return scale.empty() ? experiment : fmt::format("{} at scale {}", experiment, scale);
}

std::string PlannedRun::name() const { return fmt::format("{}-{}", arm->name, seed); }

Config PlannedRun::config() const {
  Config config = arm->config;
  config.run.seed = seed;
  config.run.name = name();
  return config;
}

std::vector<PlannedRun> schedule(const Plan& plan) {
  std::vector<PlannedRun> runs;
  for (std::int64_t repeat = 0; repeat < plan.repeats; ++repeat)
    for (const Arm& arm : plan.arms) runs.push_back({&arm, plan.first_seed + repeat});
  return runs;
}

std::string incomparable(const Config& a, const Config& b) {
  if (!same_in_all_phases(a, b, [](const PhaseConfig& p) -> const DataConfig& { return p.data; }))
    return "data";
  if (a.run.device != b.run.device || a.run.threads != b.run.threads) return "device or threads";
  return "";
}

std::string unequal_training(const Config& a, const Config& b) {
  if (epochs_in_all(a) != epochs_in_all(b))
    return fmt::format("epochs, {} and {}", epochs_in_all(a), epochs_in_all(b));
  if (!same_in_all_phases(
          a, b, [](const PhaseConfig& p) -> const std::int64_t& { return p.train.batch_size; }))
    return "batch size";
  return "";
}

}  // namespace hg::experiment
