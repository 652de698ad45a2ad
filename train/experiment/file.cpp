#include "train/experiment/file.h"

#include <algorithm>
#include <filesystem>

#include "train/experiment/file_table.h"

namespace hg::experiment {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostArms = 64, kMostScales = 16, kMostPhasesOfArm = 64;
constexpr std::int64_t kLargestSeed = 1'000'000'000'000;
constexpr std::size_t kMostSweptKeys = 16, kMostSweptValues = 256;

// Letters, digits and ". _ -", not beginning with a dot or hyphen: no shell or file system minds.
bool is_folder_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 60 && name[0] != '.' && name[0] != '-' &&
         std::all_of(name.begin(), name.end(), plain);
}

std::string name_of(const std::string& source) {
  std::string name = fs::path(source).stem().string().substr(0, 60);
  for (char& c : name)
    if (!is_folder_name({&c, 1}) && c != '-' && c != '.') c = '_';
  return is_folder_name(name) ? name : "experiment";
}

class FileReader {
 public:
  explicit FileReader(const std::string& source) {
    file_.source = source;
    file_.name = name_of(source);
    file_.folder = fs::path(source).parent_path().string();
  }

  ExperimentFile read(const toml::table& root);

 private:
  void read_experiment(const toml::node& node);
  void read_goal(const toml::node& node);
  void read_scales(const toml::node& node);
  void read_arms(const toml::node& node);
  void read_arm(const toml::node& node, std::size_t index);
  void read_arm_at_scales(Table& table, FileArm& arm);
  void read_phases(Table& table, FileArm& arm);
  void read_sweep(const toml::node& node);
  const toml::node& require_section(const toml::table& root, const char* name, const char* what);
  // A list of tables, or an error.
  const toml::array& tables(const toml::node& node, const std::string& name, std::size_t most);

  ExperimentFile file_;
};

const toml::node& FileReader::require_section(const toml::table& root, const char* name,
                                              const char* what) {
  const toml::node* node = root.get(name);
  usage_require(node != nullptr, file_.source, "expected {}", what);
  return *node;
}

const toml::array& FileReader::tables(const toml::node& node, const std::string& name,
                                      std::size_t most) {
  const toml::array* array = node.as_array();
  const std::string origin = fmt::format("{}:{}", file_.source, node.source().begin.line);
  usage_require(array != nullptr, origin, "{}: expected tables [[{}]], got {}", name, name,
                kind_of(node));
  usage_require(!array->empty() && array->size() <= most, origin,
                "{}: expected 1 to {} tables, got {}", name, most, array->size());
  return *array;
}

void FileReader::read_goal(const toml::node& node) {
  Table table(file_.source, node, "experiment.goal");
  Goal goal;
  const auto saving = table.number("saving_percent", 0, 100);
  goal.f1_points = table.number("f1_points", 0, 100).value_or(0);
  table.refuse_others();
  usage_require(saving.has_value(), table.origin(),
                "experiment.goal: expected saving_percent, the least saving that is aimed at");
  goal.saving_percent = *saving;
  file_.goal = goal;
}

void FileReader::read_experiment(const toml::node& node) {
  Table table(file_.source, node, "experiment");
  const auto question = table.text("question");
  file_.base = table.get<std::string>("base");
  file_.repeats = table.integer("repeats", 1, 1000);
  file_.first_seed = table.integer("first_seed", 0, kLargestSeed);
  file_.target_f1 = table.number("target_f1", 0, 1);
  file_.margin_points = table.number("margin_points", 1e-6, 100);
  const toml::node* goal = table.find("goal");
  file_.settings = table.settings(file_.folder);
  table.refuse_others();
  usage_require(question.has_value(), table.origin(),
                "experiment.question: expected the question that the arms are to answer");
  file_.question = *question;
  if (goal != nullptr) read_goal(*goal);
  if (file_.target_f1 == 0.0) file_.target_f1.reset();
}

void FileReader::read_scales(const toml::node& node) {
  Table all(file_.source, node, "scale");
  usage_require(node.as_table()->size() <= kMostScales, all.origin(),
                "scale: expected at most {} scales", kMostScales);
  std::vector<NamedNode> by_place;
  for (const auto& [name, scale] : *node.as_table()) by_place.emplace_back(name.str(), &scale);
  sort_by_place(by_place);
  for (const auto& [name, scale] : by_place) {
    Table table(file_.source, *scale, "scale." + printable(name));
    usage_require(is_folder_name(name), table.origin(),
                  "scale: expected a name of letters, digits, '.', '_' and '-', got {}",
                  excerpt(name));
    FileScale found;
    found.name = name;
    found.base = table.get<std::string>("base");
    found.repeats = table.integer("repeats", 1, 1000);
    found.settings = table.settings(file_.folder);
    table.refuse_others();
    usage_require(found.base || file_.base, table.origin(),
                  "scale.{}.base: expected a configuration, as [experiment] has none", name);
    file_.scales.push_back(std::move(found));
  }
}

// [[arm.phase]] tables, as settings of phases: "phase.0.train.epochs=3".
void FileReader::read_phases(Table& table, FileArm& arm) {
  const toml::node* list = table.find("phase");
  if (list == nullptr) return;
  const toml::array& phases = tables(*list, "arm.phase", kMostPhasesOfArm);
  arm.phases = phases.size();
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const Table checked(file_.source, phases[i], fmt::format("arm {}: phase.{}", arm.name, i));
    for (const auto& [key, node] : keys_below(*phases[i].as_table(), fmt::format("phase.{}.", i))) {
      const std::string origin = table.setting_origin(*node);
      Value value = value_of(*node, fmt::format("{}: {}", origin, printable(key)));
      if (std::string* text = std::get_if<std::string>(&value); text != nullptr && is_path_key(key))
        *text = path_from(file_.folder, *text);
      arm.phase_settings.push_back({fmt::format("{}={}", key, toml_value(value)), origin});
    }
  }
}

void FileReader::read_arm_at_scales(Table& table, FileArm& arm) {
  const toml::node* node = table.find("scale");
  if (node == nullptr) return;
  Table scales(file_.source, *node, fmt::format("arm {}: scale", arm.name));
  for (const auto& [name, at] : *node->as_table()) {
    const std::string scale(name.str());
    Table own(file_.source, at, fmt::format("arm {}: scale.{}", arm.name, printable(scale)));
    usage_require(file_.scale(scale) != nullptr, own.origin(),
                  "arm {}: scale.{}: the file has no such [scale.{}]", arm.name, printable(scale),
                  printable(scale));
    arm.at_scale[scale] = own.settings(file_.folder);
    own.refuse_others();
  }
}

void FileReader::read_arm(const toml::node& node, std::size_t index) {
  // The name comes first, as messages about the other keys hold it.
  Table unnamed(file_.source, node, fmt::format("arm.{}", index));
  const auto name = unnamed.get<std::string>("name");
  usage_require(name.has_value(), unnamed.origin(), "arm.{}.name: expected a name of the arm",
                index);
  usage_require(is_folder_name(name->value), name->who,
                "expected a name of at most 60 letters, digits, '.', '_' and '-', as folders are "
                "called after it, got {}",
                excerpt(name->value));
  for (const FileArm& other : file_.arms)
    usage_require(other.name != name->value, name->who,
                  "expected a name that no other arm has: "
                  "there are two \"{}\"",
                  name->value);
  FileArm arm;
  arm.name = name->value;
  Table table(file_.source, node, "arm " + arm.name);
  table.find("name");
  arm.title = table.text("title").value_or(arm.name);
  arm.settings = table.settings(file_.folder);
  read_arm_at_scales(table, arm);
  read_phases(table, arm);
  table.refuse_others();
  file_.arms.push_back(std::move(arm));
}

void FileReader::read_arms(const toml::node& node) {
  const toml::array& arms = tables(node, "arm", kMostArms);
  for (std::size_t i = 0; i < arms.size(); ++i) read_arm(arms[i], i);
  usage_require(file_.arms.size() >= 2, file_.source,
                "arm: expected two or more [[arm]], the baseline first, got {}", file_.arms.size());
}

void FileReader::read_sweep(const toml::node& node) {
  const Table table(file_.source, node, "sweep");
  for (const auto& [key, values] : keys_below(*node.as_table(), "")) {
    const std::string origin = table.origin_of(*values);
    const std::string who = fmt::format("{}: sweep.{}", origin, printable(key));
    const toml::array* list = values->as_array();
    usage_require(list != nullptr && !list->empty() && list->size() <= kMostSweptValues, who,
                  "expected a list of 1 to {} values, got {}", kMostSweptValues,
                  list ? "one of another length" : kind_of(*values));
    SweptKey swept{key, {}};
    for (const toml::node& value : *list)
      swept.values.push_back(
          {fmt::format("{}={}", key, toml_value(value_of(value, who))), origin + ": sweep"});
    refuse_reserved(swept.values[0]);
    file_.sweep.push_back(std::move(swept));
  }
  usage_require(!file_.sweep.empty() && file_.sweep.size() <= kMostSweptKeys, table.origin(),
                "sweep: expected 1 to {} keys, got {}", kMostSweptKeys, file_.sweep.size());
}

ExperimentFile FileReader::read(const toml::table& root) {
  const std::vector<std::string> known = {"experiment", "scale", "arm", "sweep"};
  for (const auto& [name, node] : root)
    usage_require(std::find(known.begin(), known.end(), name.str()) != known.end(),
                  fmt::format("{}:{}", file_.source, node.source().begin.line),
                  "{}: unknown section; did you mean [{}]?", printable(name.str()),
                  nearest(name.str(), known));
  read_experiment(require_section(root, "experiment", "a section [experiment]"));
  if (const toml::node* scales = root.get("scale")) read_scales(*scales);
  usage_require(file_.base || !file_.scales.empty(), file_.source,
                "experiment.base: expected a configuration that the arms have in common");
  read_arms(require_section(root, "arm", "two or more [[arm]], the baseline first"));
  if (const toml::node* sweep = root.get("sweep")) read_sweep(*sweep);
  return std::move(file_);
}

}  // namespace

std::vector<Setting> FileArm::all_settings(const std::string& scale) const {
  std::vector<Setting> all = settings;
  if (const auto own = at_scale.find(scale); own != at_scale.end())
    all.insert(all.end(), own->second.begin(), own->second.end());
  all.insert(all.end(), phase_settings.begin(), phase_settings.end());
  return all;
}

const FileScale* ExperimentFile::scale(const std::string& wanted) const {
  for (const FileScale& found : scales)
    if (found.name == wanted) return &found;
  return nullptr;
}

ExperimentFile parse_experiment(std::string_view toml, const std::string& source) {
  return FileReader(source).read(toml_or_fail(toml, source));
}

ExperimentFile load_experiment(const std::string& path_or_name) {
  const BuiltinOrFile text =
      find_text(path_or_name, builtin_experiments(), printable(path_or_name), "experiment");
  return parse_experiment(text.toml, path_or_name);
}

}  // namespace hg::experiment
