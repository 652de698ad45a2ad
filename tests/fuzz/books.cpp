// Energy profiles and counters, experiments, and the profiles that hgprof compares.
#include <cstdio>

#include "energy/books/calibration.h"
#include "energy/meters/powercap_zones.h"
#include "tensor/base/text.h"
#include "tests/fuzz/fuzz.h"
#include "tools/hgprof/commands.h"
#include "train/experiment/folder.h"

namespace hg::fuzz {
namespace {

void take_calibration(const std::string& input) {
  const std::string once = energy::to_json(energy::parse_calibration(input, "profile.json"));
  must(surely([&] { return energy::to_json(energy::parse_calibration(once, "again.json")); }) ==
           once,
       "the same profile");
}

Inputs seeds_of_calibration() { return {energy::to_json(energy::default_calibration())}; }

const experiment::Plan& plan() {
  static const experiment::Plan quick = experiment::make_plan({"quick", "smoke"});
  return quick;
}

void take_experiment(const std::string& input) {
  put_file("experiment/experiment.json", input);
  experiment::claim_folder(working_folder() + "/experiment", plan());
}

Inputs seeds_of_experiment() {
  const std::string folder = working_folder() + "/claimed";
  experiment::claim_folder(folder, plan());
  return {file_contents(folder + "/experiment.json"),
          "{\"experiment\": \"quick\", \"scale\": \"smoke\", \"arms\": {\"vit\": \"[run]\\n\"}}"};
}

// A file in the form of train/experiments, and the plan it makes.
void take_question(const std::string& input) {
  using namespace experiment;
  const ExperimentFile file = parse_experiment(input, "my.toml");
  const Plan plan = make_plan(file, {});
  const Plan again =
      surely([&] { return make_plan(parse_experiment(to_toml(file), "my.toml"), {}); });
  must(again.arms.size() == plan.arms.size() && again.repeats == plan.repeats, "the same plan");
  for (std::size_t i = 0; i < plan.arms.size(); ++i)
    must(again.arms[i].config == plan.arms[i].config, "the same arm");
}

Inputs seeds_of_question() {
  Inputs seeds{
      "[experiment]\nquestion = 'q'\nbase = 'shapes'\n[[arm]]\nname = 'a'\n[[arm]]\nname = 'b'\n"
      "set = ['train.epochs=2']\n[[arm.phase]]\nkind = 'prune'\n[sweep]\n'train.epochs' = [1]\n"};
  for (const BuiltinText& builtin : experiment::builtin_experiments())
    seeds.emplace_back(builtin.toml);
  return seeds;
}

void take_diff(const std::string& input) {
  static const bool silent = std::freopen("/dev/null", "w", stdout) != nullptr;
  must(silent, "/dev/null");
  const std::string path = file_with(input);
  prof::diff_command({path, path, 5.0, input.size() % 2 == 0});
}

Inputs seeds_of_diff() {
  return {
      R"({"steps": 2, "total": {"seconds": 0.5}, "unattributed_uj": 3, "profiler_uj": 1, "ops": [
{"phase": "forward", "layer": "head", "op": "linear", "energy_uj": 10, "seconds": 0.1, "flops": 9,
 "low_uj": 5, "high_uj": 15}]})"};
}

// What the files of two zones hold, line by line.
void take_powercap(const std::string& input) {
  constexpr const char* kFiles[] = {
      "intel-rapl:0/name",   "intel-rapl:0/energy_uj",   "intel-rapl:0/max_energy_range_uj",
      "intel-rapl:0:0/name", "intel-rapl:0:0/energy_uj", "intel-rapl:0:0/max_energy_range_uj"};
  const std::vector<std::string_view> lines = split(input, '\n');
  for (std::size_t i = 0; i < std::size(kFiles); ++i)
    put_file(std::string("powercap/") + kFiles[i], i < lines.size() ? std::string(lines[i]) : "");
  const energy::PowercapTree tree = energy::find_powercap_zones(working_folder() + "/powercap");
  must(tree.exists && tree.counted.size() <= 2, "two zones at most");
  for (const energy::PowercapZone& zone : tree.counted)
    must(zone.name.starts_with("package-") || zone.name == "dram", "a zone of RAPL");
}

Inputs seeds_of_powercap() {
  return {"package-0\n1000000\n262143328850\ndram\n77\n65712999613\n",
          "psys\n1\n2\npackage-12\n5\n4\n"};
}

HG_PARSER(calibration)
HG_PARSER(experiment)
HG_PARSER(question)
HG_PARSER(diff)
HG_PARSER(powercap)

}  // namespace
}  // namespace hg::fuzz
