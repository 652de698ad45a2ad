// Experiment files: what they say, and what is refused with file, line and key.
#include "train/experiment/file.h"

#include <doctest/doctest.h>

#include "tensor/base/usage_error.h"
#include "tests/support/mutate.h"
#include "tests/support/temp_folder.h"
#include "train/experiment/plan.h"

namespace hg::experiment {
namespace {

using testing::message_of;
using testing::put;
using testing::TempFolder;

constexpr const char* kWhole = R"(
[experiment]
question = "Does it save?"
base = "shapes-small"
repeats = 4
first_seed = 7
target_f1 = 0.8
margin_points = 1.5
goal = { saving_percent = 50 }
set = ["train.epochs=3", "data.train_limit=100"]

[[arm]]
name = "vit"

[[arm]]
name = "green"
title = "few patches"
set = ["select.heuristic=entropy",
       "train.batch_size=20"]

[[arm]]
name = "two-phases"
[[arm.phase]]
kind = "pretrain"
mask_ratio = 0.5
[arm.phase.train]
epochs = 1
[[arm.phase]]
kind = "finetune"
train.epochs = 2

[sweep]
"train.learning_rate" = [1e-3, 2]
train.weight_decay = [0.0]
)";

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

// What is wrong with the file once `what` is `by`.
std::string fault(const std::string& what, const std::string& by) {
  return message_of<UsageError>(
      [&] { make_plan(parse_experiment(replaced(kWhole, what, by), "my.toml"), {}); });
}

TEST_CASE("an experiment file says everything about a plan") {
  const ExperimentFile file = parse_experiment(kWhole, "here/my.toml");
  const Plan plan = make_plan(file, {});
  CHECK(plan.experiment == "my");
  CHECK(plan.scale == "");
  CHECK(plan.called == "here/my.toml");
  CHECK(plan.question == "Does it save?");
  CHECK(plan.repeats == 4);
  CHECK(plan.first_seed == 7);
  CHECK(plan.target_f1 == 0.8);
  CHECK(plan.target_from == "here/my.toml");
  CHECK(plan.margin_points == 1.5);
  CHECK(plan.goal == Goal{50, 0});
  REQUIRE(plan.arms.size() == 3);
  for (const Arm& arm : plan.arms) {
    CHECK(arm.config.train.epochs == 3);
    CHECK(arm.config.data.train_limit == 100);
    CHECK(arm.config.run.name == arm.name);
  }
  CHECK(plan.arms[0].title == "vit");
  CHECK(plan.arms[1].title == "few patches");
  CHECK(plan.arms[1].config.train.batch_size == 20);
  const std::vector<PhaseConfig>& phases = plan.arms[2].config.phases;
  REQUIRE(phases.size() == 2);
  CHECK(phases[0].kind == "pretrain");
  CHECK(phases[0].mask_ratio == 0.5);
  CHECK(phases[0].train.epochs == 1);
  CHECK(phases[1].kind == "finetune");
  CHECK(phases[1].train.epochs == 2);
  REQUIRE(file.sweep.size() == 2);
  CHECK(file.sweep[0].key == "train.learning_rate");
  CHECK(file.sweep[0].values[1].text == "train.learning_rate=2");
  CHECK(file.sweep[1].values[0].text == "train.weight_decay=0.0");
  // The command line comes on top.
  const Plan given = make_plan(file, {"my", "", {"train.learning_rate=0.5"}, 2, 0.5, 3.0});
  CHECK(given.arms[0].config.train.learning_rate == 0.5);
  CHECK(given.repeats == 2);
  CHECK(given.target_f1 == 0.5);
  CHECK(given.target_from == "--target");
  CHECK(given.margin_points == 3);
}

TEST_CASE("a bad experiment file is refused with file, line, key and what was expected") {
  CHECK(fault("repeats = 4", "repeat = 4") ==
        "my.toml:5: experiment.repeat: unknown key; did you mean repeats?");
  CHECK(fault("[[arm]]\nname = \"vit\"", "[scales.x]\n[[arm]]\nname = \"vit\"") ==
        "my.toml:12: scales: unknown section; did you mean [scale]?");
  CHECK(fault("repeats = 4", "repeats = 0") ==
        "my.toml:5: experiment.repeats: expected a number from 1 to 1000, got 0");
  CHECK(fault("repeats = 4", "repeats = \"x\"") ==
        "my.toml:5: experiment.repeats: expected an integer, got a string");
  CHECK(fault("margin_points = 1.5", "margin_points = nan").find("my.toml:8") == 0);
  CHECK(fault("question = \"Does it save?\"", "").find("experiment.question: expected") !=
        std::string::npos);
  CHECK(fault("goal = { saving_percent = 50 }", "goal = { saving_percnt = 50 }") ==
        "my.toml:9: experiment.goal.saving_percnt: unknown key; did you mean saving_percent?");
  CHECK(fault("\"shapes-small\"", "\"shapes-smal\"")
            .find("my.toml:4: experiment.base: no such file, nor a built-in configuration; did you "
                  "mean "
                  "shapes-small?") == 0);
  CHECK(fault("base = \"shapes-small\"", "").find("experiment.base: expected") !=
        std::string::npos);
  CHECK(fault("\"green\"", "\"vit\"") ==
        "my.toml:16: arm.1.name: expected a name that no other arm has: there are two \"vit\"");
  for (const char* name : {"\"a/b\"", "\"..\"", "\"\"", "\"-x\"", "\"a b\""})
    CHECK(fault("\"green\"", name).find("my.toml:16: arm.1.name: expected a name of at most") == 0);
  CHECK(fault("title = \"few patches\"", "titel = \"x\"") ==
        "my.toml:17: arm green.titel: unknown key; did you mean title?");
  CHECK(fault("kind = \"pretrain\"", "knd = \"pretrain\"") ==
        "my.toml:24: arm two-phases: phase.0.knd: unknown key; did you mean phase.0.kind?");
  CHECK(fault("epochs = 1", "epochs = -1")
            .find("my.toml:27: arm two-phases: phase.0.train.epochs: expected") == 0);
  CHECK(fault("[0.0]", "0.0").find("my.toml:34: sweep.train.weight_decay: expected a list") == 0);
  CHECK(fault("[experiment]", "[experiment").find("my.toml:2: not TOML") == 0);
  const std::string one = "[experiment]\nquestion = 'q'\nbase = 'shapes'\n[[arm]]\nname = 'a'\n";
  CHECK(message_of<UsageError>([&] { parse_experiment(one, "my.toml"); }) ==
        "my.toml: arm: expected two or more [[arm]], the baseline first, got 1");
}

TEST_CASE("a wrong setting is named by its own line and arm") {
  CHECK(fault("train.batch_size=20", "train.batchsize=20") ==
        "my.toml:19: arm green: train.batchsize: unknown key; did you mean train.batch_size?");
  CHECK(fault("train.batch_size=20", "train.batch_size=x")
            .find("my.toml:19: arm green: train.batch_size: expected an integer") == 0);
  CHECK(fault("train.batch_size=20", "train") ==
        "my.toml:19: arm green: expected section.key=value, got \"train\"");
  CHECK(fault("data.train_limit=100", "data.train_limit=-1")
            .find("my.toml:10: data.train_limit: expected") == 0);
  CHECK(fault("data.train_limit=100", "run.seed=3").find("first_seed") != std::string::npos);
  CHECK(fault("train.batch_size=20", "run.joule_budget=3").find("run.joule_budget") !=
        std::string::npos);
}

constexpr const char* kScaled = R"(
[experiment]
question = "q"
set = ["train.epochs=4"]
[scale.tiny]
base = "shapes-small"
set = ["model.depth=1"]
repeats = 2
[scale.small]
base = "shapes"
[[arm]]
name = "a"
[[arm]]
name = "b"
set = ["model.attention=mgk"]
scale.tiny.set = ["model.heads=2", "model.dim_head=8"]
)";

TEST_CASE("scales change the base, and arms at them") {
  const ExperimentFile file = parse_experiment(kScaled, "my.toml");
  const Plan small = make_plan(file, {}), tiny = make_plan(file, {"", "tiny"});
  CHECK(small.scale == "small");
  CHECK(small.repeats == 5);
  CHECK(small.arms[1].config.model.heads == 4);
  CHECK(small.arms[1].config.train.epochs == 4);
  CHECK(tiny.called == "my.toml --scale tiny");
  CHECK(tiny.repeats == 2);
  CHECK(tiny.arms[0].config.model.depth == 1);
  CHECK(tiny.arms[0].config.model.heads == 4);
  CHECK(tiny.arms[1].config.model.heads == 2);
  const auto refusal = [](const std::string& toml, const Request& request) {
    return message_of<UsageError>([&] { make_plan(parse_experiment(toml, "my.toml"), request); });
  };
  CHECK(refusal(kScaled, {"", "huge"}) == "--scale: expected tiny, small, got \"huge\"");
  CHECK(refusal(kWhole, {"", "small"}) == "--scale: my.toml has no scales");
  CHECK(refusal(replaced(kScaled, "scale.tiny.set", "scale.smal.set"), {}).find("my.toml:16") == 0);
  CHECK(refusal(kScaled, {"", "tiny", {"model.heads=1"}}) ==
        "--set: model.heads: the arms of my differ in it");
  CHECK(refusal(replaced(kScaled, "base = \"shapes\"", ""), {}).find("scale.small.base") !=
        std::string::npos);
}

TEST_CASE("paths start from the file that names them") {
  const TempFolder folder;
  put(folder / "base.toml",
      "[data]\nname = 'folder'\nroot = 'images'\n[model]\nimg_size = 8\nin_channels = 3\n"
      "num_classes = 2\n");
  const auto file_with = [&](const std::string& set) {
    put(folder / "my.toml", "[experiment]\nquestion = 'q'\nbase = 'base.toml'\nset = [" + set +
                                "]\n[[arm]]\nname = 'a'\n[[arm]]\nname = 'b'\n"
                                "set = ['train.epochs=2']\n");
    return load_experiment(folder / "my.toml");
  };
  const auto root_of = [](const ExperimentFile& file, const std::vector<std::string>& given = {}) {
    return make_plan(file, {"", "", given}).arms[1].config.data.root;
  };
  CHECK(root_of(file_with("")) == folder / "images");
  CHECK(root_of(file_with("'data.root=other'")) == folder / "other");
  CHECK(root_of(file_with("'data.root=/else'")) == "/else");
  CHECK(root_of(file_with("'data.root=\"\"'")) == "");
  CHECK(root_of(file_with(""), {"data.root=here"}) == "here");  // of the command line
  // Written elsewhere, they still lead there.
  put(folder / "copy.toml", to_toml(file_with("'data.root=other'")));
  CHECK(root_of(load_experiment(folder / "copy.toml")) == folder / "other");
}

// The same plan at every scale, and the same sweep.
void check_same(const ExperimentFile& a, const ExperimentFile& b) {
  std::vector<std::string> scales;
  for (const FileScale& scale : a.scales) scales.push_back(scale.name);
  if (scales.empty()) scales.emplace_back();
  for (const std::string& scale : scales) {
    const Plan x = make_plan(a, {"", scale}), y = make_plan(b, {"", scale});
    CHECK(x.question == y.question);
    CHECK(x.repeats == y.repeats);
    CHECK(x.target_f1 == y.target_f1);
    CHECK(x.margin_points == y.margin_points);
    CHECK(x.goal == y.goal);
    REQUIRE(x.arms.size() == y.arms.size());
    for (std::size_t i = 0; i < x.arms.size(); ++i) {
      CHECK(x.arms[i].title == y.arms[i].title);
      CHECK(x.arms[i].config == y.arms[i].config);
    }
  }
  REQUIRE(a.sweep.size() == b.sweep.size());
  for (std::size_t i = 0; i < a.sweep.size(); ++i) {
    CHECK(a.sweep[i].key == b.sweep[i].key);
    REQUIRE(a.sweep[i].values.size() == b.sweep[i].values.size());
    for (std::size_t v = 0; v < a.sweep[i].values.size(); ++v)
      CHECK(a.sweep[i].values[v].text == b.sweep[i].values[v].text);
  }
}

TEST_CASE("a written experiment reads back as the same") {
  for (const char* toml : {kWhole, kScaled}) {
    const ExperimentFile file = parse_experiment(toml, "my.toml");
    check_same(file, parse_experiment(to_toml(file), "my.toml"));
  }
  for (const BuiltinText& builtin : builtin_experiments()) {
    const ExperimentFile file = load_experiment(std::string(builtin.name));
    check_same(file, parse_experiment(to_toml(file), file.source));
  }
}

TEST_CASE("damaged experiment files raise nothing but UsageError") {
  RandomStream random(1, "damage");
  for (int i = 0; i < 300; ++i) {
    const std::string text = testing::mutate(i % 2 ? kWhole : kScaled, random);
    try {
      const ExperimentFile file = parse_experiment(text, "my.toml");
      make_plan(file, {});
      parse_experiment(to_toml(file), "my.toml");
    } catch (const UsageError& error) {
      CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
    }
  }
}

}  // namespace
}  // namespace hg::experiment
