#include "train/experiment/plan.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "tensor/base/enum_names.h"
#include "tensor/base/usage_error.h"
#include "tests/support/temp_folder.h"
#include "train/experiment/folder.h"

namespace hg::experiment {
namespace {

using testing::contents_of;
using testing::message_of;
using testing::put;
using testing::TempFolder;

std::string fault(const Request& request) {
  return message_of<UsageError>([&] { make_plan(request); });
}

std::vector<std::string> names_of(const Plan& plan) {
  std::vector<std::string> names;
  for (const Arm& arm : plan.arms) names.push_back(arm.name);
  return names;
}

TEST_CASE("every experiment has comparable arms at every scale") {
  CHECK(builtin_experiments().size() == 6);
  for (const BuiltinText& builtin : builtin_experiments())
    for (const char* scale : {"smoke", "small", "paper"}) {
      INFO(builtin.name << " " << scale);
      const Plan plan = make_plan({std::string(builtin.name), scale});
      CHECK(plan.arms.size() >= 2);
      CHECK(plan.repeats >= 3);
      std::set<std::string> configs;
      for (const Arm& arm : plan.arms) {
        CHECK(incomparable(plan.arms[0].config, arm.config) == "");
        const bool other_epochs = builtin.name == "half" && arm.name != "vit";
        CHECK((unequal_training(plan.arms[0].config, arm.config) == "") == !other_epochs);
        Config nameless = arm.config;
        nameless.run.name = "x";
        configs.insert(to_toml(nameless));
      }
      CHECK(configs.size() == plan.arms.size());  // no arm twice
    }
}

TEST_CASE("arms are what the questions ask") {
  const Plan rq1 = make_plan({"rq1", "smoke"});
  CHECK(names_of(rq1) ==
        std::vector<std::string>{"softmax", "gmm", "fiak", "mgk", "prob", "kerformer"});
  const ModelConfig &base = rq1.arms[0].config.model, &mgk = rq1.arms[3].config.model;
  CHECK(mgk.heads * 2 == base.heads);
  CHECK(mgk.dim_head == base.dim_head);
  CHECK(mgk.emb_size == base.emb_size);

  const Plan rq2 = make_plan({"rq2", "small"});
  CHECK(!rq2.arms[0].config.select.heuristic);
  CHECK(rq2.arms.size() == 7);
  for (std::size_t i = 1; i < 7; ++i) {
    const SelectConfig& select = rq2.arms[i].config.select;
    CHECK(enum_name(select.mode) == (i < 4 ? "drop" : "zero"));
    CHECK(enum_name(select.form) == (i < 4 ? "robust" : "ref"));
    CHECK(select.prob == 0.5);  // the paper's
    CHECK(rq2.arms[i].name ==
          fmt::format("{}-{}", enum_name(*select.heuristic), enum_name(select.mode)));
  }
  CHECK(make_plan({"rq2", "paper"}).arms[1].config.select.top_k.of(196) == 138);

  const Plan rq3 = make_plan({"rq3", "small"});
  const auto phases = [&](std::size_t arm) {
    std::string text;
    for (const PhaseConfig& p : rq3.arms[arm].config.phases)
      text += p.kind + " " + std::to_string(p.train.epochs) + " ";
    return text;
  };
  CHECK(phases(0) == "supervised 6 ");
  CHECK(phases(1) == "pretrain 3 finetune 3 ");
  CHECK(phases(2) == "pretrain 2 contrastive 2 finetune 2 ");
}

TEST_CASE("settings reach all arms, but not what the arms differ in") {
  const Plan plan = make_plan({"rq2", "small", {"train.epochs=9", "run.seed=5"}, 4, 0.8});
  for (const Arm& arm : plan.arms) CHECK(arm.config.train.epochs == 9);
  CHECK(plan.first_seed == 5);
  CHECK(plan.repeats == 4);
  CHECK(plan.target_f1 == 0.8);
  const Plan cifar = make_plan({"rq1", "small", {"data.name=cifar10"}});
  CHECK(cifar.arms[1].config.model.in_channels == 3);
  CHECK(cifar.arms[1].config.model.img_size == 32);

  CHECK(fault({"rq4", "smoke"}) ==
        "rq4: no such file, nor a built-in experiment; did you mean rq1? (built in: attentions, "
        "half, "
        "quick, rq1, rq2, rq3)");
  CHECK(fault({"rq1", "huge"}) == "--scale: expected smoke, small, paper, got \"huge\"");
  CHECK(fault({"rq2", "smoke", {"select.mode=drop"}}) ==
        "--set: select.mode: the arms of rq2 differ in it");
  CHECK(fault({"rq1", "smoke", {"model.heads=8"}}).find("differ") != std::string::npos);
  CHECK(fault({"rq3", "smoke", {"phase.0.train.epochs=1"}}).find("rq3") != std::string::npos);
  CHECK(fault({"rq3", "smoke", {"train.epochs=2"}}) ==
        "--set: train.epochs: the arms of rq3 differ in it");
  CHECK(fault({"rq1", "smoke", {"run.joule_budget=5"}}).find("run.joule_budget") !=
        std::string::npos);
  CHECK(fault({"rq1", "smoke", {}, {}, 1.5}).find("--target") != std::string::npos);
  CHECK(plan.margin_points == 0.5);
  CHECK(make_plan({"rq1", "smoke", {}, {}, {}, 1.5}).margin_points == 1.5);
  for (const double margin : {0.0, -1.0, 101.0, std::nan("")})
    CHECK(fault({"rq1", "smoke", {}, {}, {}, margin}).find("--margin") != std::string::npos);
}

TEST_CASE("runs are interleaved by seed") {
  const Plan plan = make_plan({"quick", "smoke", {"run.seed=3"}, 2});
  std::vector<std::string> order;
  for (const PlannedRun& run : schedule(plan)) {
    order.push_back(run.name());
    CHECK(run.config().run.seed == run.seed);
  }
  CHECK(order == std::vector<std::string>{"vit-3", "hugginggreen-3", "vit-4", "hugginggreen-4"});
}

TEST_CASE("what makes energies incomparable is named") {
  const Config a = make_plan({"rq1", "smoke"}).arms[0].config;
  const auto changed = [&](const std::string& setting) {
    return incomparable(a, make_plan({"rq1", "smoke", {setting}}).arms[0].config);
  };
  CHECK(changed("data.train_limit=7") == "data");
  CHECK(changed("run.threads=1") == "device or threads");
  for (const char* free : {"model.depth=1", "train.epochs=50", "train.batch_size=7"})
    CHECK(changed(free) == "");
  const auto unequal = [&](const std::string& setting) {
    return unequal_training(a, make_plan({"rq1", "smoke", {setting}}).arms[0].config);
  };
  CHECK(unequal("train.epochs=50") == "epochs, " + std::to_string(a.train.epochs) + " and 50");
  CHECK(unequal("train.batch_size=7") == "batch size");
  CHECK(unequal("train.learning_rate=0.5") == "");
}

TEST_CASE("a folder belongs to one experiment, scale and configuration") {
  const TempFolder folder;
  const std::string out = folder / "out";
  const Plan plan = make_plan({"rq2", "smoke"});
  claim_folder(out, plan);
  const std::string identity = contents_of(out + "/experiment.json");
  claim_folder(out, make_plan({"rq2", "smoke", {}, 9}));  // more repeats go on
  const auto refusal = [&](const Request& request) {
    return message_of<UsageError>([&] { claim_folder(out, make_plan(request)); });
  };
  CHECK(refusal({"rq1", "smoke"}) ==
        out + ": holds rq2 at scale smoke, not rq1 at scale smoke; --out names another folder");
  CHECK(refusal({"rq2", "small"}).find("scale small") != std::string::npos);
  const std::string other = refusal({"rq2", "smoke", {"train.epochs=77"}});
  CHECK(other.find(", not 77") != std::string::npos);
  CHECK(other.find('\n') == std::string::npos);
  CHECK(refusal({"rq2", "smoke", {"run.seed=2"}}).find("seed") != std::string::npos);
  CHECK(contents_of(out + "/experiment.json") == identity);

  Plan fewer = plan, renamed = plan;
  fewer.arms.pop_back();
  renamed.arms[1].name = "x";
  for (const Plan& changed : {fewer, renamed})
    CHECK(message_of<UsageError>([&] {
            claim_folder(out, changed);
          }).find("was begun with the arms contrast-drop, ") != std::string::npos);

  put(folder / "stray", "x");
  CHECK(message_of<UsageError>([&] { claim_folder(folder.path(), plan); }).find("no experiment") !=
        std::string::npos);
  put(out + "/experiment.json", "[");
  CHECK(refusal({"rq2", "smoke"}).find("experiment.json") != std::string::npos);
}

}  // namespace
}  // namespace hg::experiment
