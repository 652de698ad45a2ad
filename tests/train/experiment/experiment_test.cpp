// hgtrain experiment, run as users do.
#include <doctest/doctest.h>
#include <signal.h>

#include <map>

#include "tensor/base/folder_lock.h"
#include "tests/support/program.h"

namespace {

using hg::FolderLock;
using namespace hg::testing;

// quick --scale smoke in a blink: 2 arms, 3 seeds.
Arguments tiny(const std::string& out, const Arguments& more = {}, const char* name = "quick") {
  return Arguments{"experiment", name, "--scale", "smoke", "--out", out, "--threads", "1"} +
         Arguments{"--set", "data.train_limit=60", "--set", "data.test_limit=20",
                   "--set", "train.batch_size=20", "--set", "train.epochs=3",
                   "--set", "model.depth=1",       "--set", "model.emb_size=16",
                   "--set", "model.patch_size=8"} +
         more;
}

// One epoch a phase, in a blink.
constexpr const char* kPhases = R"(
[experiment]
question = "Do phases save?"
base = "shapes-small"
repeats = 1
set = ["data.train_limit=60", "data.test_limit=20", "train.batch_size=20", "train.epochs=3",
       "model.depth=1", "model.emb_size=16", "model.patch_size=8"]
[[arm]]
name = "scratch"
[[arm]]
name = "contrastive"
[[arm.phase]]
kind = "pretrain"
train.epochs = 1
[[arm.phase]]
kind = "contrastive"
train.epochs = 1
[[arm.phase]]
kind = "finetune"
train.epochs = 1
)";

// Every file below the folder with its bytes and time of writing.
using Snapshot = std::map<std::string, std::pair<std::string, std::filesystem::file_time_type>>;
Snapshot snapshot(const std::string& folder) {
  Snapshot files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().filename() != FolderLock::kFile)
      files[entry.path().string()] = {contents_of(entry.path().string()), entry.last_write_time()};
  return files;
}

Json results_of(const std::string& out) { return Json::parse(contents_of(out + "/results.json")); }

bool finished(const std::string& run) {
  if (!exists(run + "/summary.json")) return false;
  return summary_of(run)["status"] == "finished";
}

// Runs until `run` is finished and a later one is under way, then sends the signal.
Outcome stop_after(const std::string& out, const std::string& run, int signal) {
  Child child(tiny(out));
  child.await([&] { return finished(out + "/runs/" + run); });
  child.signal(signal);
  return child.wait();
}

// Starts again: nothing that was finished may be written to.
void check_goes_on(const std::string& out) {
  Snapshot before;
  for (const std::string& run : files_in(out + "/runs"))
    if (finished(out + "/runs/" + run)) before.merge(snapshot(out + "/runs/" + run));
  REQUIRE(!before.empty());
  const Outcome again = hgtrain(tiny(out));
  INFO(again.err);
  REQUIRE(again.code == 0);
  const Snapshot after = snapshot(out + "/runs");
  for (const auto& [path, file] : before) {
    INFO(path);
    REQUIRE(after.contains(path));
    CHECK(after.at(path) == file);
  }
  const Json results = results_of(out);
  CHECK(results["status"] == "finished");
  CHECK(results["runs"].size() == 6);
}

}  // namespace

TEST_CASE("an experiment leaves every run's folder, results and a page; again it repeats nothing") {
  const TempFolder folder;
  const std::string out = folder / "out";
  const Outcome first = hgtrain(tiny(out));
  INFO(first.err);
  REQUIRE(first.code == 0);
  CHECK(files_in(out) ==
        std::vector<std::string>{"experiment.json", "report.html", "results.json", "runs"});
  CHECK(files_in(out + "/runs") == std::vector<std::string>{"hugginggreen-1", "hugginggreen-2",
                                                            "hugginggreen-3", "vit-1", "vit-2",
                                                            "vit-3"});
  CHECK(first.out.find("Goal: ") != std::string::npos);
  CHECK(first.out.find(out + "/report.html") != std::string::npos);

  std::vector<std::string> order;  // as told while running
  for (const std::string& line : lines_of(first.err)) {
    if (line.find(", run ") == std::string::npos) continue;
    const auto from = line.find(": ") + 2, to = line.find(", about ");
    CHECK((to == std::string::npos) == order.empty());  // the first run knows no time left
    order.push_back(line.substr(from, to - from));
  }
  CHECK(order == std::vector<std::string>{"vit, seed 1", "hugginggreen, seed 1", "vit, seed 2",
                                          "hugginggreen, seed 2", "vit, seed 3",
                                          "hugginggreen, seed 3"});

  const Json results = results_of(out);
  CHECK(results["status"] == "finished");
  REQUIRE(results["runs"].size() == 6);
  for (const Json& run : results["runs"]) {
    const Json summary = summary_of(out + "/" + run["folder"].get<std::string>());
    for (const char* key : {"energy_j", "energy_kind", "micro_f1", "macro_f1", "seconds", "images"})
      CHECK(run[key] == summary[key]);
    CHECK(run["epochs"] == 3);
    CHECK(run["evaluations"].size() == 3);
    const bool dropped = run["arm"] == "hugginggreen";
    const double tokens = run["tokens"].get<double>() / run["images"].get<double>();
    CHECK((dropped ? tokens > 1 && tokens < 17 : tokens == 17));
  }
  CHECK(contents_of(out + "/report.html").find("http") == std::string::npos);

  const std::string page = contents_of(out + "/report.html");
  for (const char* part : {"Pareto front", "Learning curves", "Settings that differ"})
    CHECK(page.find(part) != std::string::npos);
  std::filesystem::remove(out + "/report.html");
  REQUIRE(hgtrain({"report", out}).out == out + "/report.html\n");
  CHECK(contents_of(out + "/report.html") == page);
  check_refused(hgtrain({"report", out, out + "/runs/vit-1"}), 2, {out, "is an experiment's"});

  const Snapshot before = snapshot(out + "/runs");
  const Outcome again = hgtrain(tiny(out, {"--json"}));
  REQUIRE(again.code == 0);
  CHECK(snapshot(out + "/runs") == before);
  CHECK(Json::parse(again.out) == results);
  REQUIRE(hgtrain(tiny(out, {"--repeats", "4", "--quiet"})).code == 0);  // more go on
  CHECK(results_of(out)["runs"].size() == 8);
}

TEST_CASE("killed or interrupted, an experiment goes on where it was") {
  const TempFolder folder;
  const Outcome killed = stop_after(folder / "killed", "hugginggreen-1", SIGKILL);
  CHECK(killed.code == 128 + SIGKILL);
  check_goes_on(folder / "killed");
  const Outcome stopped = stop_after(folder / "stopped", "hugginggreen-1", SIGINT);
  CHECK(stopped.code == 130);
  const Json partial = results_of(folder / "stopped");
  CHECK(partial["status"] == "interrupted");
  CHECK(partial["runs"].size() >= 2);
  CHECK(partial["runs"].size() < 6);
  check_goes_on(folder / "stopped");
}

TEST_CASE("an experiment's folder takes one process at a time") {
  const TempFolder folder;
  const FolderLock lock(folder.path());
  check_refused(hgtrain(tiny(folder.path(), {"--quiet"})), 2, {folder.path(), "in use by process"});
  CHECK(!exists(folder / "experiment.json"));
}

TEST_CASE("an experiment file, all phases of whose arms count") {
  const TempFolder folder;
  const std::string out = folder / "out", file = folder / "my.toml";
  put(file, kPhases);
  const Outcome outcome = hgtrain({"experiment", file, "--out", out, "--threads", "1", "--quiet"});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  const Json results = results_of(out);
  CHECK(results["experiment"] == "my");
  CHECK(results["scale"] == "");
  CHECK(results["question"] == "Do phases save?");
  REQUIRE(results["runs"].size() == 2);
  for (const Json& run : results["runs"]) CHECK(run["epochs"] == 3);
  const Json& contrastive = results["runs"][1];  // an epoch a phase; the last is judged by F1
  REQUIRE(contrastive["evaluations"].size() == 1);
  CHECK(contrastive["evaluations"][0]["epoch"] == 3);
  double phases = 0;
  const auto rows = lines_of(contents_of(out + "/runs/contrastive-1/metrics.csv"));
  const auto field = [](const std::string& line, std::size_t column) {
    std::istringstream in(line);
    std::string text;
    for (std::size_t i = 0; i <= column; ++i) std::getline(in, text, ',');
    return text;
  };
  REQUIRE(rows.size() == 4);
  std::size_t column = 0;
  while (field(rows[0], column) != "energy_j") ++column;
  for (std::size_t i = 1; i < rows.size(); ++i) phases += std::stod(field(rows[i], column));
  CHECK(contrastive["evaluations"][0]["energy_j"].get<double>() == doctest::Approx(phases));
  CHECK(contrastive["energy_j"].get<double>() >= phases * 0.999);

  // The file has changed: the folder is of another experiment.
  std::string changed = kPhases;
  put(file, changed.replace(changed.find("train.epochs=3"), 14, "train.epochs=4"));
  check_refused(hgtrain({"experiment", file, "--out", out, "--threads", "1"}), 2,
                {out, "train.epochs = 3, not 4"});
  put(file, "[experiment]\nquestion = 'q'\nbase = 'shapes-small'\n[[arm]]\nname = 'a'\n");
  check_refused(hgtrain({"experiment", file}), 2, {"my.toml", "two or more [[arm]]"});
}

TEST_CASE("built-in experiments are listed and shown") {
  const Outcome list = hgtrain({"experiment", "list"});
  CHECK(list.code == 0);
  CHECK(list.out.find("rq1: Does probabilistic attention") != std::string::npos);
  const Json names = Json::parse(hgtrain({"experiment", "list", "--json"}).out)["experiments"];
  REQUIRE(names.size() == 6);
  CHECK(names[0]["arms"][0] == "softmax");
  CHECK(names[1]["arms"][0] == "vit");
  const TempFolder folder;
  const Outcome shown = hgtrain({"experiment", "show", "quick"});
  CHECK(shown.code == 0);
  put(folder / "copy.toml", shown.out);  // to begin with
  check_refused(hgtrain({"experiment", folder / "copy.toml", "--scale", "x"}), 2, {"--scale"});
  check_refused(hgtrain({"experiment", "show"}), 2, {"show"});
  check_refused(hgtrain({"experiment", "quick", "rq1"}), 2, {"rq1"});
}

TEST_CASE("a folder of another experiment is refused in one line, and nothing is written") {
  const TempFolder folder;
  const std::string out = folder / "out";
  REQUIRE(hgtrain(tiny(out, {"--repeats", "1", "--quiet"})).code == 0);
  const Snapshot before = snapshot(out);
  check_refused(hgtrain(tiny(out, {}, "rq2")), 2, {out, "holds quick", "rq2"});
  check_refused(hgtrain(tiny(out, {"--set", "train.learning_rate=0.5"})), 2,
                {out, "learning_rate = 0.003, not 0.5"});
  check_refused(hgtrain(tiny(out, {"--set", "run.name=x"})), 2, {"run.name"});
  CHECK(snapshot(out) == before);
  put(out + "/runs/vit-1/config.toml", contents_of(out + "/runs/hugginggreen-1/config.toml"));
  check_refused(hgtrain(tiny(out)), 2, {"vit-1/config.toml"});

  const std::string run = folder / "run";
  REQUIRE(hgtrain(tiny_train(run)).code == 0);
  check_refused(hgtrain(tiny(run)), 2, {run, "no experiment"});
  check_refused(hgtrain({"experiment", "rq9"}), 2, {"rq9", "rq1"});
  check_refused(
      hgtrain(tiny(folder / "none", {"--set", "data.root=/none", "--set", "data.name=cifar10",
                                     "--set", "model.num_classes=10"})),
      2, {"cifar10"});
  CHECK(!exists(folder / "none"));
}
