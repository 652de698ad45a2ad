// hgtrain info against the exact counts of nn/METHODS.md, appendix A; bench's fields.
#include <doctest/doctest.h>

#include "tests/support/program.h"

namespace {

using namespace hg::testing;

struct Known {
  const char* name;
  Arguments settings;
  std::int64_t parameters, forward_matmul;
};

Arguments model(const std::vector<std::string>& settings) { return set(settings, "model."); }

Arguments reference(const std::string& depth) {
  return model({"emb_size=64", "heads=12", "dim_head=64", "depth=" + depth, "num_classes=10",
                "qkv_bias=false", "pool=mean"});
}

std::vector<Known> appendix_a() {
  return {
      {"Ti", {}, 5717416, 2507366400},
      {"Ti, 4 heads", model({"heads=4", "dim_head=48"}), 5717416, 2507366400},
      {"S", model({"emb_size=384", "heads=6"}), 22050664, 9197764608},
      {"B", model({"emb_size=768", "heads=12"}), 86567656, 35127656448},
      {"L", model({"emb_size=1024", "heads=16", "depth=24"}), 304326632, 123109425152},
      {"H", model({"emb_size=1280", "heads=16", "dim_head=80", "depth=32", "patch_size=14"}),
       632045800, 334590218240},
      {"reference, 2", reference("2"), 522698, 438459648},
      {"reference, 4", reference("4"), 982730, 857650432},
      {"reference, 8", reference("8"), 1902794, 1696032000},
      {"32 px", model({"img_size=32", "patch_size=4", "num_classes=10"}), 5362762, 730215168},
      {"64 px", model({"img_size=64", "patch_size=8", "num_classes=200"}), 5427080, 733827072},
  };
}

std::int64_t sum(const Json& layers, const char* key) {
  std::int64_t total = 0;
  for (const Json& layer : layers) total += layer[key].get<std::int64_t>();
  return total;
}

// MACs of `op` in `layer`.
std::int64_t macs(const Json& layers, const std::string& layer, const std::string& op) {
  for (const Json& row : layers)
    if (row["layer"] == layer && row["op"] == op)
      return row["flops_forward_matmul"].get<std::int64_t>() / 2;
  return -1;
}

}  // namespace

TEST_CASE("info counts the models of appendix A to the last unit") {
  for (const Known& known : appendix_a()) {
    INFO(known.name);
    const Outcome done = hgtrain(Arguments{"info", "deit-tiny", "--json"} + known.settings);
    INFO(done.err);
    REQUIRE(done.code == 0);
    const Json info = Json::parse(done.out), flops = info["flops"], layers = info["layers"];
    CHECK(info["parameters"] == known.parameters);
    CHECK(flops["forward_matmul"] == known.forward_matmul);
    CHECK(sum(layers, "parameters") == info["parameters"]);
    CHECK(sum(layers, "flops_forward") == flops["forward"]);
    CHECK(sum(layers, "flops_backward") == flops["backward"]);
    CHECK(sum(layers, "flops_forward_matmul") == flops["forward_matmul"]);
    CHECK(sum(layers, "flops_backward_matmul") == flops["backward_matmul"]);
    CHECK(sum(layers, "bytes_forward") == info["bytes"]["forward"]);
    CHECK(sum(layers, "bytes_backward") == info["bytes"]["backward"]);
  }
}

TEST_CASE("info gives each layer of DeiT-tiny its share") {
  const Outcome done = hgtrain({"info", "deit-tiny", "--json"});
  REQUIRE(done.code == 0);
  const Json layers = Json::parse(done.out)["layers"];
  CHECK(macs(layers, "patch_embed", "proj") == 28901376);
  CHECK(macs(layers, "blocks.11.attn", "qkv") == 21786624);
  CHECK(macs(layers, "blocks.11.attn", "attention") == 2 * 7451328);
  CHECK(macs(layers, "blocks.11.attn", "proj") == 7262208);
  CHECK(macs(layers, "blocks.11.mlp", "fc1") + macs(layers, "blocks.11.mlp", "fc2") == 58097664);
  CHECK(macs(layers, "", "head") == 192000);
  const Outcome table = hgtrain({"info", "deit-tiny"});
  CHECK(table.code == 0);
  CHECK(table.out.find("5,717,416 parameters") != std::string::npos);
}

TEST_CASE("info counts a step of every phase") {
  const TempFolder folder;
  put(folder / "config.toml", R"(
[model]
img_size = 16
in_channels = 3
num_classes = 5
patch_size = 4
emb_size = 16
depth = 2
heads = 2
[train]
batch_size = 12
[[phase]]
kind = "pretrain"
[[phase]]
kind = "contrastive"
[[phase]]
kind = "contrastive"
views = "two_view"
[[phase]]
kind = "finetune"
[[phase]]
kind = "supervised"
)");
  const Outcome done = hgtrain({"info", folder / "config.toml", "--json"});
  INFO(done.err);
  REQUIRE(done.code == 0);
  const Json info = Json::parse(done.out), one = info["flops"];
  const auto steps = info["phases"].get<std::vector<Json>>();
  REQUIRE(steps.size() == 5);
  const auto flops = [&](std::size_t phase, const char* key) {
    return steps[phase]["flops_per_step"][key].get<std::int64_t>();
  };
  const auto image = [&](const char* key) { return one[key].get<std::int64_t>(); };
  const std::int64_t head = 2 * 16 * 5, decoder = 2 * 2 * 16 * 48, projector = 2 * 16 * (16 + 128);
  // the whole batch as the one image; 2 of 16 patches are predicted instead of a class
  CHECK(steps[4]["images_per_step"] == 12);
  CHECK(flops(4, "forward_matmul") == 12 * image("forward_matmul"));
  CHECK(flops(4, "backward_matmul") == 12 * image("backward_matmul"));
  const std::int64_t embedding = 2 * 16 * 48 * 16;
  const std::int64_t encoder = image("forward_matmul") - head;
  CHECK(flops(0, "forward_matmul") == 12 * (encoder - embedding * 2 / 16 + decoder));
  // 5 classes of 2 images; two views of 12; each through encoder and projector twice
  for (const auto& [phase, images] : {std::pair{1u, 10}, {2u, 24}}) {
    CHECK(steps[phase]["images_per_step"] == images);
    const std::int64_t similarities = 2 * images * images * 128;
    CHECK(flops(phase, "forward_matmul") == 2 * images * (encoder + projector) + similarities);
  }
  // frozen parts have no backward: one of two blocks
  CHECK(flops(3, "forward_matmul") == flops(4, "forward_matmul"));
  CHECK(flops(3, "backward_matmul") < flops(4, "backward_matmul") * 55 / 100);
  CHECK(flops(3, "backward_matmul") > flops(4, "backward_matmul") * 40 / 100);
  const Outcome table = hgtrain({"info", folder / "config.toml"});
  CHECK(table.out.find("phase 1 contrastive: a step of 10 images") != std::string::npos);
}

TEST_CASE("bench measures a step of the first phase that learns classes, frozen as it is there") {
  const TempFolder folder;
  const std::string file = folder / "config.toml";
  const auto json_of = [&](const char* command, const Arguments& more = {}) {
    const Outcome done =
        hgtrain(Arguments{command, file, "--json", "--threads", "1"} + tiny_model() +
                set({"model.depth=3", "train.batch_size=4"}) + more);
    INFO(done.err);
    REQUIRE(done.code == 0);
    return Json::parse(done.out);
  };
  const Arguments once{"--steps", "1"};
  const std::string pretrain = "[[phase]]\nkind = \"pretrain\"\n";
  put(file, pretrain + "[[phase]]\nkind = \"finetune\"\n[phase.train]\nbatch_size = 6\n");
  const Json step = json_of("info")["phases"][1]["flops_per_step"], bench = json_of("bench", once);
  CHECK(bench["phase"] == "finetune");
  CHECK(bench["batch_size"] == 6);
  // the update of what is trained comes on top
  const double flops = step["forward"].get<double>() + step["backward"].get<double>();
  CHECK(bench["flops_per_step"].get<double>() > flops);
  CHECK(bench["flops_per_step"].get<double>() < 1.2 * flops);
  put(file, "[[phase]]\nkind = \"supervised\"\n[phase.train]\nbatch_size = 6\n");
  CHECK(bench["flops_per_step"].get<double>() <
        0.7 * json_of("bench", once)["flops_per_step"].get<double>());
  put(file, pretrain);
  CHECK(json_of("bench", once)["phase"] == "pretrain");
}

TEST_CASE("bench --eval passes test images through the model, without loss or update") {
  const auto json_of = [](const Arguments& command) {
    const Outcome done = hgtrain(command + Arguments{"--json", "--threads", "1"} + tiny_model() +
                                 set({"model.depth=3", "train.batch_size=7"}));
    INFO(done.err);
    REQUIRE(done.code == 0);
    return Json::parse(done.out);
  };
  const Json bench = json_of({"bench", "shapes", "--eval", "--steps", "1"});
  const double forward = json_of({"info", "shapes"})["flops"]["forward"].get<double>();
  CHECK(bench["phase"] == "eval");
  CHECK(bench["batch_size"] == 7);
  CHECK(bench["flops_per_step"].get<double>() < 7 * forward);
  CHECK(bench["flops_per_step"].get<double>() > 0.98 * 7 * forward);
  check_refused(hgtrain({"bench", "shapes", "--eval", "--phase", "0"}), 2, {"--phase", "--eval"});
}

TEST_CASE("bench and info take the same step of every kind of phase") {
  const TempFolder folder;
  const std::string file = folder / "config.toml";
  const char* const kinds[] = {"pretrain", "contrastive", "supervised", "finetune", "detect"};
  std::string text;
  for (const char* kind : kinds) text += fmt::format("[[phase]]\nkind = \"{}\"\n", kind);
  put(file, text + "[[phase]]\nkind = \"prune\"\n");
  const Arguments model =
      tiny_model() + set({"model.attention=fiak", "model.num_classes=3", "train.batch_size=7"});
  const auto json_of = [&](const Arguments& command) {
    const Outcome done = hgtrain(command + Arguments{"--json", "--threads", "1"} + model);
    INFO(done.err);
    REQUIRE(done.code == 0);
    return Json::parse(done.out);
  };
  const Json phases = json_of({"info", file})["phases"];
  for (std::size_t i = 0; i < std::size(kinds); ++i) {
    INFO(kinds[i]);
    const Json bench = json_of({"bench", file, "--steps", "1", "--phase", std::to_string(i)});
    const Json& step = phases[i]["flops_per_step"];
    CHECK(bench["phase"] == kinds[i]);
    CHECK(bench["batch_size"] == phases[i]["images_per_step"]);
    // the update of what is trained comes on top
    const double flops = step["forward"].get<double>() + step["backward"].get<double>();
    CHECK(bench["flops_per_step"].get<double>() > flops);
    CHECK(bench["flops_per_step"].get<double>() < 1.6 * flops);
  }
  CHECK(phases[1]["images_per_step"] == 6);  // as many of each class
  check_refused(hgtrain(Arguments{"bench", file, "--phase", "5"} + model), 2,
                {"--phase", "training steps", "\"prune\""});
  check_refused(hgtrain(Arguments{"bench", file, "--phase", "6"} + model), 2,
                {"--phase", "expected 0 to 5, got 6"});
}

TEST_CASE("info and bench need no data set") {
  CHECK(hgtrain({"info", "cifar10", "--json", "--set", "data.root=/nowhere"}).code == 0);
  const Outcome done = hgtrain(Arguments{"bench", "shapes", "--steps", "2", "--threads", "1",
                                         "--json", "--set", "train.batch_size=4"} +
                               tiny_model());
  REQUIRE(done.code == 0);
  const Json bench = Json::parse(done.out);
  CHECK(bench["config"] == "shapes");
  CHECK(bench["batch_size"] == 4);
  CHECK(bench["threads"] == 1);
  for (const char* key : {"ms_per_step", "ms_median", "images_per_s", "flops_per_step",
                          "gflops_per_s", "peak_rss_bytes"}) {
    INFO(key);
    CHECK(bench[key].get<double>() > 0);
  }
}

TEST_CASE("without data, a model may have more classes than its data set") {
  const Arguments settings =
      tiny_model() + set({"model.num_classes=1000", "train.batch_size=4"});  // shapes has up to 10
  const Arguments steps{"--steps", "1"};
  const auto runs = [](const Outcome& done) {
    INFO(done.err);
    CHECK(done.code == 0);
  };
  runs(hgtrain(Arguments{"info", "shapes"} + settings));
  runs(hgtrain(Arguments{"bench", "shapes"} + settings + steps));
  runs(hgtrain(Arguments{"compare", "shapes", "--attention", "softmax"} + settings + steps));
  check_refused(hgtrain(Arguments{"compare", "shapes", "--attention", "softmax", "--train"} +
                        settings + steps),
                2, {"model.num_classes", "2 to 10"});
}
