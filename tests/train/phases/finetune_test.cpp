// Phases pretrain and finetune, freeze and run.init_from, as users run them.
#include <doctest/doctest.h>

#include "tests/support/program.h"
#include "train/store/safetensors.h"

namespace {

using namespace hg;
using namespace hg::testing;

const char* const kBase = R"(
[data]
name = "shapes"
train_limit = 64
test_limit = 32
augment = false
[model]
img_size = 16
patch_size = 4
emb_size = 16
depth = 3
heads = 2
num_classes = 4
dropout = 0.1
[train]
batch_size = 8
epochs = 2
warmup_epochs = 0
weight_decay = 0.2
)";

// The configuration with one phase of that kind, in a file of its own.
std::string config(const TempFolder& folder, const std::string& kind) {
  const std::string path = folder / (kind + ".toml");
  put(path, kBase + fmt::format("[[phase]]\nkind = \"{}\"\n", kind));
  return path;
}

Outcome trained(const std::string& config, const std::string& out, const Arguments& more = {}) {
  return hgtrain(Arguments{"train", config, "--out", out, "--threads", "2"} + more);
}

std::vector<float> tensor(const std::string& run, const std::string& name) {
  return read_safetensors(run + "/model.safetensors").tensors.at(name).to_vector<float>();
}

}  // namespace

TEST_CASE("pretraining says what predicting 0 would give, and judges no classes") {
  const TempFolder folder;
  const std::string run = folder / "run";
  const Outcome outcome = trained(config(folder, "pretrain"), run);
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(outcome.err.find("predicting 0 0.9") != std::string::npos);
  CHECK(column_of(run, "accuracy") == std::vector<std::string>{"", ""});
  CHECK(std::stod(column_of(run, "test_loss")[1]) < std::stod(column_of(run, "test_loss")[0]));
  CHECK(summary_of(run)["micro_f1"].is_null());
  const Safetensors model = read_safetensors(run + "/model.safetensors");
  CHECK(model.tensors.at("mask_token").shape() == Shape{1, 1, 16});
  CHECK(model.tensors.at("decoder.weight").shape() == Shape{48, 16});
  const Safetensors state = read_safetensors(run + "/state.safetensors");
  CHECK(state.tensors.contains("adamw.m.decoder.weight"));
  CHECK(!state.tensors.contains("adamw.m.head.weight"));
  CHECK(contents_of(run + "/ledger.csv").find("forward,mask,") != std::string::npos);
  CHECK(contents_of(run + "/ledger.csv").find("forward,,decoder,") != std::string::npos);
  const Outcome eval = hgtrain({"eval", run, "--json"});  // the heads are passed over
  INFO(eval.err);
  CHECK(eval.code == 0);
}

TEST_CASE("dropped patches shorten the encoder's sequence, with patch selection as well") {
  const TempFolder folder;
  const std::string file = config(folder, "pretrain");
  const Arguments drop{"--set", "phase.0.mask_mode=drop", "--set", "phase.0.mask_ratio=0.5"};
  REQUIRE(trained(file, folder / "token").code == 0);
  REQUIRE(trained(file, folder / "drop", drop).code == 0);
  REQUIRE(
      trained(file, folder / "both",
              drop + Arguments{"--set", "select.heuristic=variance", "--set", "select.top_k=10",
                               "--set", "select.prob=1.0", "--set", "select.prob_decay_rate=0.0"})
          .code == 0);
  CHECK(column_of(folder / "token", "tokens_per_image")[0] == "17");
  CHECK(column_of(folder / "drop", "tokens_per_image")[0] == "9");
  CHECK(column_of(folder / "both", "tokens_per_image")[0] == "6");
  CHECK(tensor(folder / "drop", "mask_token").size() == 8);
}

TEST_CASE("fine-tuning leaves what is frozen as it was, and stores nothing of its optimizer") {
  const TempFolder folder;
  const std::string before = folder / "before", run = folder / "run";
  REQUIRE(trained(config(folder, "pretrain"), before).code == 0);
  const Outcome outcome =
      trained(config(folder, "finetune"), run, {"--set", "run.init_from=" + before});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  const auto from = read_safetensors(before + "/model.safetensors").tensors;
  const auto to = read_safetensors(run + "/model.safetensors").tensors;
  const auto state = read_safetensors(run + "/state.safetensors").tensors;
  std::int64_t trained = 0, all = 0;
  for (const auto& [name, value] : to) {
    INFO(name);
    const bool is_new =
        name.starts_with("blocks.2.") || name.starts_with("norm.") || name.starts_with("head.");
    CHECK((value.to_vector<float>() == from.at(name).to_vector<float>()) == !is_new);
    CHECK(state.contains("adamw.m." + name) == is_new);
    all += value.numel();
    if (is_new) trained += value.numel();
  }
  CHECK(summary_of(run)["trained_parameters"] == trained);
  CHECK(outcome.err.find(fmt::format("{} of {} parameters trained", trained, all)) !=
        std::string::npos);
  CHECK(outcome.err.find(before + "/model.safetensors: has beside, not used: decoder.bias, "
                                  "decoder.weight, mask_token\n") != std::string::npos);
  CHECK(outcome.err.find("does not have") == std::string::npos);
}

TEST_CASE("stored features change nothing but the work of later epochs") {
  const TempFolder folder;
  const std::string file = config(folder, "finetune");
  const Arguments cached{"--set", "phase.0.cache_features=true"};
  const Arguments best{"--set", "select.heuristic=contrast", "--set", "select.probabilistic=false",
                       "--set", "select.prob=1.0",           "--set", "select.prob_decay_rate=0.0",
                       "--set", "select.eval=topk"};
  for (const Arguments& more : {Arguments{}, best}) {
    const std::string a = folder / fmt::format("a{}", more.size()),
                      b = folder / fmt::format("b{}", more.size());
    REQUIRE(trained(file, a, more).code == 0);
    const Outcome outcome = trained(file, b, more + cached);
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK(contents_of(a + "/model.safetensors") == contents_of(b + "/model.safetensors"));
    for (const char* figure : {"train_loss", "test_loss", "micro_f1"})
      CHECK(column_of(a, figure) == column_of(b, figure));
    CHECK(column_of(a, "flops")[0] == column_of(b, "flops")[0]);
    CHECK(std::stod(column_of(b, "flops")[1]) < 0.75 * std::stod(column_of(a, "flops")[1]));
  }
}

TEST_CASE("weights pass from pretraining to fine-tuning within a run as from run to run") {
  const TempFolder folder;
  put(folder / "both.toml",
      std::string(kBase) + "[[phase]]\nkind = \"pretrain\"\n[[phase]]\nkind = \"finetune\"\n");
  REQUIRE(trained(folder / "both.toml", folder / "both").code == 0);
  REQUIRE(trained(config(folder, "pretrain"), folder / "first").code == 0);
  for (const char* name : {"blocks.1.attn.qkv.weight", "patch_embed.proj.bias"})
    CHECK(tensor(folder / "both", name) == tensor(folder / "first", name));
  const auto model = read_safetensors(folder / "both/model.safetensors").tensors;
  CHECK(!model.contains("mask_token"));
  CHECK(column_of(folder / "both", "accuracy")[1].empty());
  CHECK(!column_of(folder / "both", "accuracy")[2].empty());
}

TEST_CASE("init_from tells missing tensors, refuses other shapes, and is not needed to resume") {
  const TempFolder folder;
  const std::string file = config(folder, "supervised"), first = folder / "first";
  REQUIRE(trained(file, first).code == 0);
  Safetensors weights = read_safetensors(first + "/model.safetensors");
  weights.tensors.erase("norm.bias");
  weights.tensors.emplace("extra", Tensor::zeros({2}));
  const std::string part = folder / "part.safetensors";
  write_safetensors(part, {weights.tensors.begin(), weights.tensors.end()});
  const Arguments from{"--set", "run.init_from=" + part};
  const Outcome outcome =
      trained(file, folder / "run", from + Arguments{"--set", "train.learning_rate=0.0"});
  REQUIRE(outcome.code == 0);
  CHECK(outcome.err.find(part + ": does not have: norm.bias\n") != std::string::npos);
  CHECK(outcome.err.find(part + ": has beside, not used: extra\n") != std::string::npos);
  CHECK(tensor(folder / "run", "head.weight") == tensor(first, "head.weight"));
  std::filesystem::remove(part);
  const Outcome again = trained(file, folder / "run",
                                from + Arguments{"--set", "train.learning_rate=0.0", "--resume"});
  INFO(again.err);
  CHECK(again.code == 0);
  check_refused(trained(file, folder / "none", from), 2, {part});
  CHECK(!exists(folder / "none"));
  const Arguments wide{"--set", "run.init_from=" + first, "--set", "model.emb_size=32"};
  check_refused(trained(file, folder / "none", wide), 2,
                {first, "cls_token", "16", "expected", "32"});
  CHECK(!exists(folder / "none"));
}

TEST_CASE("init_from with other classes begins the head anew, with another grid resamples") {
  const TempFolder folder;
  const std::string file = config(folder, "supervised"), first = folder / "first";
  REQUIRE(trained(file, first).code == 0);
  const Arguments still{"--set", "run.init_from=" + first, "--set", "train.learning_rate=0.0"};
  const std::string source = first + "/model.safetensors";

  const Outcome classes =
      trained(file, folder / "classes", still + Arguments{"--set", "model.num_classes=5"});
  INFO(classes.err);
  REQUIRE(classes.code == 0);
  CHECK(classes.err.find(source + ": its head is for 4 classes, not 5: the head begins anew\n") !=
        std::string::npos);
  CHECK(classes.err.find("does not have") == std::string::npos);
  CHECK(tensor(folder / "classes", "head.weight").size() == 5 * 16);
  CHECK(tensor(folder / "classes", "pos_embed") == tensor(first, "pos_embed"));

  const Outcome wider =
      trained(file, folder / "wider", still + Arguments{"--set", "model.emb_size=32"});
  check_refused(wider, 2, {source, "f32[1,1,16], expected f32[1,1,32]"});
  const Outcome patches =
      trained(file, folder / "patches", still + Arguments{"--set", "model.patch_size=8"});
  INFO(patches.err);
  REQUIRE(patches.code == 0);
  CHECK(patches.err.find(source + ": patch_embed.proj.weight resampled from patches of 4x4 pixels "
                                  "to 8x8\n") != std::string::npos);
  CHECK(patches.err.find(source + ": pos_embed resampled from 4x4 patches to 2x2\n") !=
        std::string::npos);
  CHECK(tensor(folder / "patches", "patch_embed.proj.weight").size() == 16 * 3 * 8 * 8);
  const Outcome larger =
      trained(file, folder / "larger", still + Arguments{"--set", "model.img_size=32"});
  INFO(larger.err);
  REQUIRE(larger.code == 0);
  CHECK(larger.err.find(source + ": pos_embed resampled from 4x4 patches to 8x8\n") !=
        std::string::npos);
  CHECK(tensor(folder / "larger", "head.weight") == tensor(first, "head.weight"));
  CHECK(tensor(folder / "larger", "pos_embed").size() == 65 * 16);
}

TEST_CASE("a frozen prefix holds in supervised training, and contradictions are named") {
  const TempFolder folder;
  const std::string file = config(folder, "supervised"), run = folder / "run";
  const Outcome outcome =
      trained(file, run, {"--set", "phase.0.freeze=[\"blocks.1\", \"cls_token\"]"});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  const auto state = read_safetensors(run + "/state.safetensors").tensors;
  CHECK(state.contains("adamw.m.blocks.2.norm1.weight"));
  CHECK(!state.contains("adamw.m.blocks.1.norm1.weight"));
  CHECK(!state.contains("adamw.m.cls_token"));

  const auto refused = [&](const std::string& kind, const Arguments& settings,
                           const std::vector<std::string>& parts) {
    check_refused(trained(config(folder, kind), folder / "none", set(settings)), 2, parts);
  };
  const std::string cache = "phase.0.cache_features=true";
  refused("supervised", {"phase.0.freeze=[\"block\"]"}, {"phase.0.freeze", "\"block\""});
  refused("supervised", {cache}, {"cache_features", "finetune"});
  refused("finetune", {cache, "data.augment=true"}, {"phase.0.cache_features", "data.augment"});
  refused("finetune",
          {cache, "select.heuristic=contrast", "select.top_k=0.5", "select.top_k_end=1.0"},
          {"phase.0.cache_features", "select.top_k_end"});
  refused("finetune", {cache, "select.heuristic=contrast"},
          {"phase.0.cache_features", "select.probabilistic"});
  refused("finetune", {cache, "select.heuristic=contrast", "select.probabilistic=false"},
          {"phase.0.cache_features", "select.prob = 1"});
  refused("finetune", {cache, "phase.0.freeze=[\"blocks.0\"]"},
          {"phase.0.cache_features", "embedding"});
  refused("finetune", {"phase.0.new_blocks=4"}, {"phase.0.new_blocks", "3"});
  refused("pretrain", {"phase.0.mask_mode=drop", "phase.0.mask_ratio=1.0"},
          {"phase.0.mask_ratio", "16 patches"});
  refused("pretrain", {"loss.label_smoothing=0.1"}, {"loss.label_smoothing", "learns classes"});
  refused("pretrain", {"loss.gate_budget=1.0", "attention.gate=head"},
          {"loss.gate_budget", "learns classes"});
  refused("pretrain", {"phase.0.decoder_size=8"}, {"phase.0.decoder_size", "drop"});
  refused("pretrain", {"select.heuristic=contrast", "select.mode=zero"},
          {"select.mode", "\"drop\""});
  refused("pretrain", {"model.patch_size=1", "model.in_channels=1"}, {"phase.0.norm_pix", "false"});
}
