#include "train/config/config.h"

#include <doctest/doctest.h>

#include "tensor/base/usage_error.h"
#include "tests/support/mutate.h"
#include "tests/support/temp_folder.h"

namespace hg::testing {
namespace {

using Settings = std::vector<std::string>;

std::string fault(const std::string& toml, const Settings& settings = {}) {
  return message_of<UsageError>([&] { parse_config(toml, "file.toml", settings); });
}

std::string key_fault(const std::string& key_value) { return fault("", {key_value}); }

}  // namespace

TEST_CASE("an empty configuration has the documented defaults") {
  const Config c = parse_config("", "some/where/mine.toml");
  CHECK(c.run.name == "mine");
  CHECK(c.run.seed == 1);
  CHECK(c.run.country == "ITA");
  CHECK(c.data.augment);
  CHECK(c.model.in_channels == 1);  // fashion-mnist's
  CHECK(c.model.img_size == 28);
  CHECK(c.model.dim_head == 16);  // emb_size / heads
  CHECK(c.model.attention == "softmax");
  CHECK(c.select.top_k == CountOrFraction::fraction(0.7));
  CHECK(c.train.schedule == TrainConfig::Schedule::cosine);
  REQUIRE(c.phases.size() == 1);
  CHECK(c.phases[0].kind == "supervised");
  CHECK(c.phases[0].train == c.train);
}

TEST_CASE("keys of every type are read") {
  const Config c = parse_config(R"(
    [run]
    seed = 7
    pue = 2                     # an integer serves as a float
    [data]
    name = "cifar100"
    augment = false
    [model]
    attention = "mgk"
    [attention]
    components = 3
    gate = "layer"
    gate_layers = [0, 2]
    sigma2_scale = [1, 0.5, 0.25]
    [select]
    top_k = 12)",
                                "file.toml");
  CHECK(c.run.seed == 7);
  CHECK(c.run.pue == 2.0);
  CHECK(!c.data.augment);
  CHECK(c.model.num_classes == 100);
  CHECK(c.attention.gate_layers == std::vector<std::int64_t>{0, 2});
  CHECK(c.attention.sigma2_scale == std::vector<double>{1, 0.5, 0.25});
  CHECK(c.select.top_k == CountOrFraction::count(12));
}

TEST_CASE("top_k is a count or a fraction") {
  CHECK(CountOrFraction::fraction(0.7).of(196) == 138);
  CHECK(CountOrFraction::fraction(0.07).of(100) == 7);
  CHECK(CountOrFraction::fraction(1).of(49) == 49);
  CHECK(CountOrFraction::count(49).of(196) == 49);
}

TEST_CASE("phases inherit data and train, and override them") {
  const std::string toml = R"(
    [train]
    epochs = 9
    learning_rate = 0.5
    [[phase]]
    kind = "pretrain"
    mask_ratio = 0.3
    [phase.train]
    epochs = 2
    [[phase]]
    freeze = ["patch_embed", "blocks.0"]
    [phase.data]
    train_limit = 100)";
  Config c = parse_config(toml, "file.toml");
  REQUIRE(c.phases.size() == 2);
  CHECK(c.phases[0].kind == "pretrain");
  CHECK(c.phases[0].mask_ratio == 0.3);
  CHECK(c.phases[0].train.epochs == 2);
  CHECK(c.phases[0].train.learning_rate == 0.5);
  CHECK(c.phases[1].train.epochs == 9);
  CHECK(c.phases[1].data.train_limit == 100);
  CHECK(c.phases[1].freeze == std::vector<std::string>{"patch_embed", "blocks.0"});

  // A setting of a section reaches the phases that do not override it.
  c = parse_config(toml, "file.toml", {"train.epochs=4", "phase.1.data.train_limit=50"});
  CHECK(c.phases[0].train.epochs == 2);
  CHECK(c.phases[1].train.epochs == 4);
  CHECK(c.phases[1].data.train_limit == 50);
  // And does so on the written configuration as well.
  const Config again = parse_config(to_toml(c), "file.toml", {"train.epochs=6"});
  CHECK(again.phases[0].train.epochs == 2);
  CHECK(again.phases[1].train.epochs == 6);
}

TEST_CASE("--set overrides, with or without quotes") {
  const Config c =
      load_config("fashion-mnist", {"train.epochs=3", " model.pool = mean", "run.name=\"a b\"",
                                    "data.root=17", "train.learning_rate=1e-4", "select.top_k=0.5",
                                    "phase.0.freeze=['a', \"b\"]", "train.epochs=4"});
  CHECK(c.train.epochs == 4);
  CHECK(c.phases[0].train.epochs == 4);
  CHECK(c.model.pool == nn::VitOptions::Pool::mean);
  CHECK(c.run.name == "a b");
  CHECK(c.data.root == "17");
  CHECK(c.train.learning_rate == 1e-4);
  CHECK(c.select.top_k == CountOrFraction::fraction(0.5));
  CHECK(c.phases[0].freeze == std::vector<std::string>{"a", "b"});
}

TEST_CASE("unknown keys are errors that name the nearest known one") {
  CHECK(fault("[train]\n\nbatchsize = 3") ==
        "file.toml:3: train.batchsize: unknown key; did you mean train.batch_size?");
  CHECK(fault("[train]\ndepth = 3").ends_with("did you mean model.depth?"));
  CHECK(fault("epochs = 3") == "file.toml:1: epochs: unknown key; did you mean train.epochs?");
  CHECK(fault("[trian]\nepochs = 3") ==
        "file.toml:1: trian: unknown section; did you mean [train]?");
  CHECK(fault("[[phase]]\n[[phase]]\nmaskratio = 1") ==
        "file.toml:3: phase.1.maskratio: unknown key; did you mean phase.1.mask_ratio?");
  CHECK(fault("[[phase]]\n[phase.train]\nepoch = 1")
            .ends_with("phase.0.train.epoch: unknown key; did you mean phase.0.train.epochs?"));
  CHECK(key_fault("train.batchsize=3") ==
        "--set: train.batchsize: unknown key; did you mean train.batch_size?");
  for (const auto& [other, ours] : {std::pair{"train.lr", "train.learning_rate"},
                                    {"model.layers", "model.depth"},
                                    {"train.batch", "train.batch_size"},
                                    {"model.hidden_size", "model.emb_size"},
                                    {"phase.0.train.lr", "phase.0.train.learning_rate"},
                                    {"phase.0.model.layers", "model.depth"},
                                    {"train.num_train_epochs", "train.epochs"},
                                    {"train.max_grad_norm", "train.grad_clip"},
                                    {"train.Weight-Decay", "train.weight_decay"},
                                    {"optim.lr", "train.learning_rate"},
                                    {"model.nhead", "model.heads"},
                                    {"model.d_model", "model.emb_size"},
                                    {"model.mlp_dim", "model.mlp_ratio"},
                                    {"model.attn_drop_rate", "attention.dropout"},
                                    {"model.global_pool", "model.pool"},
                                    {"data.data_path", "data.root"},
                                    {"trian.epochs", "train.epochs"}})
    CHECK(key_fault(fmt::format("{}=1", other)).ends_with(fmt::format("did you mean {}?", ours)));
  CHECK(key_fault("seed=3") == "--set: seed: unknown key; did you mean run.seed?");
  CHECK(key_fault("phase.1.kind=prune") ==
        "--set: phase.1.kind: expected phase.N.key, where N is 0 to 0");
  CHECK(key_fault("phase.0.kid=prune").ends_with("did you mean phase.0.kind?"));
}

TEST_CASE("wrong types are errors") {
  CHECK(fault("[train]\nepochs = \"3\"") ==
        "file.toml:2: train.epochs: expected an integer, got a string");
  CHECK(fault("[train]\nepochs = 3.0").ends_with("expected an integer, got a float"));
  CHECK(fault("[train]\nlearning_rate = true").ends_with("expected a number, got a boolean"));
  CHECK(fault("[data]\naugment = 1").ends_with("expected true or false, got an integer"));
  CHECK(fault("[data]\nname = 2020-01-01").ends_with("expected a string, got a date or time"));
  CHECK(fault("[select]\ntop_k = \"a\"").ends_with("expected a count or a fraction, got a string"));
  CHECK(fault("[attention]\ngate_layers = 3").ends_with("expected an array, got an integer"));
  CHECK(
      fault("[attention]\ngate_layers = [1, 'a']").ends_with("expected an integer, got a string"));
  CHECK(fault("train = 3") == "file.toml:1: train: expected a table [train], got an integer");
  CHECK(fault("[phase]\nkind = 'prune'").ends_with("expected tables [[phase]], got a table"));
  CHECK(fault("phase = [1]").ends_with("phase.0: expected a table [phase.0], got an integer"));
}

TEST_CASE("a last block of the class token alone needs a head and an attention for it") {
  CHECK(fault("", {"model.last_block=cls"}).empty());
  CHECK(fault("", {"model.last_block=cls", "model.attention=gmm"}).empty());
  CHECK(fault("", {"model.last_block=cls", "model.pool=mean"}) ==
        "--set: model.last_block: expected \"all\" with model.pool = \"mean\", got \"cls\"");
  CHECK(fault("", {"model.last_block=cls", "attention.gate=token", "attention.gate_keep=0.5"})
            .ends_with("expected \"all\" with attention.gate = \"token\", got \"cls\""));
  CHECK(fault("", {"model.last_block=cls", "model.attention=xca"})
            .ends_with("which need all queries, got \"cls\""));
}

TEST_CASE("values out of range are errors") {
  CHECK(key_fault("train.epochs=0") ==
        "--set: train.epochs: expected an integer of at least 1 and at most 1000000, got 0");
  CHECK(key_fault("model.pool=max") == "--set: model.pool: expected one of cls, mean, got \"max\"");
  for (const char* bad : {"model.heads=0",
                          "train.learning_rate=-1e-3",
                          "train.learning_rate=nan",
                          "train.learning_rate=inf",
                          "select.top_k=0",
                          "select.top_k=0.0",
                          "select.top_k=1.5",
                          "select.top_k=nan",
                          "select.top_k=-3",
                          "model.img_size=0",
                          "model.img_size=1000000000",
                          "model.emb_size=-1",
                          "model.depth=99999999999999999999",
                          "model.dropout=1.0",
                          "run.country=it",
                          "run.name=a/b",
                          "run.name=..",
                          "run.pue=0.5",
                          "run.seed=-1",
                          "model.num_classes=0",
                          "train.batch_size=0",
                          "attention.gate_keep=0.0"})
    CHECK_MESSAGE(key_fault(bad).starts_with("--set: "), bad);
}

TEST_CASE("keys that contradict each other are errors") {
  CHECK(fault("[model]\npatch_size = 5") ==
        "file.toml:2: model.patch_size: expected a divisor of model.img_size = 28, got 5");
  CHECK(fault("[model]\nheads = 12").find("model.heads: expected a divisor of model.emb_size") !=
        std::string::npos);
  CHECK(fault("[model]\nheads = 12\ndim_head = 64") == "");
  CHECK(key_fault("model.mlp_ratio=0.33").find("hidden width") != std::string::npos);
  CHECK(fault("", {"model.emb_size=65536", "model.depth=1024"}).find("parameters") !=
        std::string::npos);
  CHECK(fault("", {"model.img_size=4096", "model.patch_size=1"}).find("tokens") !=
        std::string::npos);
  CHECK(fault("", {"data.name=shapes", "model.num_classes=1000"}) == "");  // only opening it minds
  CHECK(fault("", {"data.name=folder"}) ==
        "file.toml: model.img_size: missing: data.name = "
        "\"folder\" does not tell it");
  const TempFolder images;
  for (const char* name : {"cat", "dog", "eel"})
    std::filesystem::create_directories(images / fmt::format("train/{}", name));
  const std::vector<std::string> folder{"data.name=folder", "data.root=" + images.path(),
                                        "model.img_size=32", "model.patch_size=8"};
  CHECK(parse_config("", "file.toml", folder).model.num_classes == 3);
  CHECK(fault("", {"data.name=folder", "data.root=" + images / "none", "model.img_size=32"}) ==
        "file.toml: model.num_classes: missing: data.name = \"folder\" does not tell it");
  CHECK(fault("", {"select.top_k=50"}) == "");
  CHECK(fault("", {"select.top_k=50", "select.heuristic=entropy"}) ==
        "--set: select.top_k: expected 1 to 49 patches, got 50");
  CHECK(fault("[attention]\nrows = 3") ==
        "file.toml:2: attention.rows: not an option with model.attention = \"softmax\" (but with "
        "linformer)");
  CHECK(fault("[[phase]]\nblock = 2")
            .find("not an option with kind = \"supervised\" (but with "
                  "prune)") != std::string::npos);
  CHECK(fault("", {"model.attention=mgk", "attention.sigma2_scale=[1]"}).find("2 factors") !=
        std::string::npos);
  CHECK(fault("[[phase]]\nkind='prune'\nmethod='mixed'\nfraction=0.1").find("key_fraction") !=
        std::string::npos);
}

TEST_CASE("bad syntax is an error") {
  CHECK(fault("[train]\nepochs == 3").starts_with("file.toml:2: not TOML: "));
  CHECK(fault("[train]\nepochs = 3\nepochs = 4").starts_with("file.toml:3: not TOML: "));
  CHECK(fault("\xff\xfe").starts_with("file.toml:1: not TOML: "));
  CHECK(fault(std::string(70000, ' ')).find("over 65536 bytes") != std::string::npos);
  CHECK(key_fault("train.epochs") == "--set: expected section.key=value, got \"train.epochs\"");
  CHECK(key_fault("=3").starts_with("--set: expected section.key=value"));
  CHECK(key_fault("train.epochs=") == "--set: train.epochs: expected an integer, got nothing");
  CHECK(key_fault("train.epochs=two") == "--set: train.epochs: expected an integer, got two");
  CHECK(key_fault("train.epochs=1\nx=2").find("expected an integer, got 1") != std::string::npos);
  CHECK(key_fault("data.root=\xff").find("expected a string, got") != std::string::npos);
  CHECK(key_fault("data.root=\"a").find("expected a string, got") != std::string::npos);
}

TEST_CASE("text that the TOML library cannot be trusted with is refused") {
  CHECK(fault("\xcc\xaa") == "file.toml:1: not TOML: expected ASCII outside strings and comments");
  CHECK(fault("# \u00fc\n[run]\nname = 'a' # \u00a7 \"\n[\u00a7]")
            .starts_with("file.toml:4: not TOML: expected ASCII"));
  CHECK(fault("[data]\nroot = \"\"\"\\\n\u00a7\"\"\"") ==
        "file.toml:2: not TOML: expected a string of one line");
  CHECK(fault("[run]\nname =17\"\u00fc\u00a7\"").starts_with("file.toml:2: not TOML: "));
  CHECK(fault("[data]\nroot = \"\\\u00a7\"").ends_with("expected an escape after the backslash"));
  for (const char* bad :
       {"\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"})
    CHECK(fault(fmt::format("[data]\nroot = '{}'", bad)).ends_with("expected UTF-8"));
  CHECK(fault("[data]\nroot = \"\\\"").ends_with("expected the string to end on its line"));
  CHECK(fault("[&").starts_with("file.toml:1: not TOML: "));
  CHECK(parse_config("[data]\nroot = \"\u00a7 \\\" '#\" # \u00a7", "f").data.root ==
        "\u00a7 \" '#");
  CHECK(parse_config("\ufeff[data]\nroot = '\\\"\u20ac\U0001f600'", "f").data.root ==
        "\\\"\u20ac\U0001f600");
  CHECK(parse_config("[data]\r\nroot = '\u00a7\\'\r\n", "f").data.root == "\u00a7\\");
}

TEST_CASE("deep nesting is survived") {
  std::string key = "a";
  while (key.size() < 60000) key += ".a";
  CHECK(fault(key + " = 1") != "");
  CHECK(fault("[" + key + "]") != "");
  CHECK(fault("a = " + std::string(30000, '[')) != "");
  std::string lines;  // as deep as the limits on a line and on nested values allow
  for (int i = 0; i < 15; ++i) lines += "[\n{" + key.substr(0, 401) + " = ";
  CHECK(fault("a = " + lines) != "");
  lines = "[" + key.substr(0, 401) + "]\n" + key.substr(0, 401) + " = ";
  for (int i = 0; i < 7; ++i) lines += "[\n{" + key.substr(0, 401) + " = ";
  lines += "1";
  for (int i = 0; i < 7; ++i) lines += "}]";
  CHECK(fault(lines).find("unknown section") != std::string::npos);
  CHECK(key_fault("run.seed={" + key + " = 1}") != "");
}

TEST_CASE("files and built-in configurations are found") {
  TempFolder folder;
  put(folder / "my run.toml", "[train]\nepochs = 17");
  CHECK(load_config(folder / "my run.toml").train.epochs == 17);
  CHECK(load_config(folder / "my run.toml").run.name == "my run");
  const auto load_fault = [](const std::string& path) {
    return message_of<UsageError>([&] { load_config(path); });
  };
  CHECK(load_fault("fashion-mist")
            .starts_with("fashion-mist: no such file, nor a built-in configuration; did you mean "
                         "fashion-mnist?"));
  CHECK(load_fault(folder / "absent.toml") ==
        folder / "absent.toml" + ": cannot read: No such file or directory");
  CHECK(load_fault(folder.path()) == folder.path() + ": cannot read: not a regular file");
  put(folder / "empty.toml", "");
  CHECK(load_config(folder / "empty.toml").train.epochs == 5);
}

TEST_CASE("built-in configurations are what they promise") {
  std::vector<std::string> names;
  for (const BuiltinText& builtin : builtin_configs()) names.emplace_back(builtin.name);
  CHECK(names == std::vector<std::string>{
                     "cifar10", "deit-tiny", "fashion-mnist-small", "fashion-mnist",
                     "hugginggreen-224", "hugginggreen-cifar10", "hugginggreen-fashion-mnist",
                     "paper-table2-12", "paper-table2-4", "paper-table2-8", "shapes-detect",
                     "shapes-small", "shapes", "tiny-imagenet"});
  for (const std::string& name : names) CHECK(load_config(name).run.name == name);
  const ModelConfig deit = load_config("deit-tiny").model;
  CHECK(deit.img_size == 224);
  CHECK(deit.emb_size == 192);
  CHECK(deit.dim_head == 64);
  CHECK(deit.num_classes == 1000);
  for (const std::int64_t n : {4, 8, 12}) {
    const Config paper = load_config(fmt::format("paper-table2-{}", n));
    CHECK(paper.model.depth == n);
    CHECK(paper.model.heads == n);
    CHECK(paper.train.batch_size == 512);
    CHECK(paper.model.dim_head == (n == 12 ? 64 : 64 / n));
  }
  const Config green = load_config("hugginggreen-224");
  CHECK(green.model.img_size == 224);
  CHECK(green.model.patch_size == 16);
  CHECK(green.model.emb_size == 64);
  CHECK(green.model.depth == green.model.heads);
  CHECK(green.model.attention == "gmm");
  CHECK(green.select.heuristic == PatchScoreOptions::Heuristic::contrast);
  CHECK(green.select.top_k.of(196) == 138);
  CHECK(green.select.prob == 0.5);
  CHECK(green.select.prob_decay_rate == 5e-3);
  CHECK(green.select.mode == PatchSelection::Mode::drop);
  CHECK(green.train.batch_size == 512);
  CHECK(green.train.learning_rate == 1e-3);
}

TEST_CASE("a written configuration reads back equal") {
  for (const BuiltinText& builtin : builtin_configs()) {
    const Config c = load_config(std::string(builtin.name));
    CHECK(parse_config(to_toml(c), "config.toml") == c);
  }
  const Config odd = load_config(
      "shapes",
      {"run.name='\"q\\ \u00fc # x'", "train.learning_rate=0.1000000000000000055511151231257827",
       "train.weight_decay=4.9e-324", "run.pue=1.0000000000000002", "run.joule_budget=1e15",
       "model.attention=mlk", "attention.components=3", "attention.feature_norm=true",
       "phase.0.kind=contrastive", "phase.0.loss=triplet", "phase.0.margin=0.30000000000000004",
       "phase.0.train.epochs=77", "phase.0.data.root=a\tb", "phase.0.freeze=[\"x\\u0001\", '']",
       "select.top_k=1"});
  CHECK(odd.attention.sigma2_scale == std::vector<double>{1, 1, 1});
  CHECK(odd.train.weight_decay == 4.9e-324);
  CHECK(parse_config(to_toml(odd), "config.toml") == odd);
}

TEST_CASE("damaged configurations raise nothing but UsageError") {
  const std::string seeds[] = {
      to_toml(load_config("paper-table2-12", {"model.attention=mgk", "phase.0.kind=pretrain"})),
      std::string(builtin_configs()[0].toml),
      "[run]\nseed = 1\n[[phase]]\nkind = 'prune'\nfreeze = ['a']\n[phase.train]\nepochs = 2\n"};
  RandomStream random(1, "damage");
  int accepted = 0;
  for (int i = 0; i < 500; ++i) {
    const std::string text = mutate(seeds[i % 3], random);
    try {
      const Config c = parse_config(text, "file.toml");
      CHECK(parse_config(to_toml(c), "file.toml") == c);
      ++accepted;
    } catch (const UsageError& error) {
      CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
    }
  }
  CHECK(accepted > 5);  // the damage is not so heavy that only the syntax is tried
}

TEST_CASE("damaged settings raise nothing but UsageError") {
  const std::string seeds[] = {"train.learning_rate=1e-3", "phase.0.freeze=[\"a\", 'b']",
                               "model.attention=mgk", "select.top_k=0.7"};
  RandomStream random(2, "damage");
  for (int i = 0; i < 500; ++i) (void)fault("", {mutate(seeds[i % 4], random)});
}

}  // namespace hg::testing
