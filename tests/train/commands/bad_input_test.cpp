// What hgtrain is given wrongly, or what fails under it: exit code, one line, nothing half-written.
#include <doctest/doctest.h>

#include "tests/support/program.h"
#include "train/store/safetensors.h"

namespace {

using namespace hg::testing;

// The run is refused, and its folder not even made.
void check_no_run(const Arguments& more, const std::vector<std::string>& parts,
                  const ChildOptions& options = {}) {
  const TempFolder folder;
  check_refused(hgtrain(tiny_train(folder / "run", more), options), 2, parts);
  CHECK(!exists(folder / "run"));
}

std::string big_endian(std::uint32_t v) {
  return {char(v >> 24), char(v >> 16), char(v >> 8), char(v)};
}

// MNIST's four files with `count` images each.
void put_mnist(const TempFolder& folder, std::uint32_t count) {
  const std::string root = folder / "mnist";
  std::filesystem::create_directory(root);
  for (const std::string part : {"train", "t10k"}) {
    put(root + "/" + part + "-images-idx3-ubyte", big_endian(0x803) + big_endian(count) +
                                                      big_endian(28) + big_endian(28) +
                                                      std::string(count * 28 * 28, '\x40'));
    std::string labels;
    for (std::uint32_t i = 0; i < count; ++i) labels += static_cast<char>(i % 10);
    put(root + "/" + part + "-labels-idx1-ubyte", big_endian(0x801) + big_endian(count) + labels);
  }
}

const Arguments kMnist{"--set", "data.name=mnist",     "--set", "model.in_channels=1",
                       "--set", "model.img_size=28",   "--set", "model.patch_size=7",
                       "--set", "model.num_classes=10"};

}  // namespace

TEST_CASE("usage that makes no sense is refused in one line") {
  check_refused(hgtrain({}), 2, {"--help"});
  check_refused(hgtrain({"trian", "shapes"}), 2, {"trian", "train", "eval"});
  check_refused(hgtrain({"train"}), 2, {"CONFIG"});
  check_refused(hgtrain({"forward", "shapes"}), 2, {"--weights"});
  check_refused(hgtrain({"bench", "shapes", "--steps", "0"}), 2, {"--steps"});
  for (const char* number : {"nan", "-nan", "inf", "-1", "1e9", "half"}) {
    INFO(number);
    check_refused(hgtrain({"meters", "--watch", number}), 2, {"--watch", number});
    check_refused(hgtrain({"experiment", "quick", "--target", number}), 2, {"--target", number});
    check_refused(hgtrain({"experiment", "quick", "--margin", number}), 2, {"--margin", number});
  }
  check_refused(hgtrain({"eval", "/nowhere"}), 2, {"/nowhere"});
  check_refused(hgtrain({"info", "shaeps"}), 2, {"shaeps", "shapes"});
  check_refused(hgtrain({"info", "/nowhere/a.toml"}), 2, {"/nowhere/a.toml"});
  check_no_run({"--frobnicate"}, {"--frobnicate"});
  check_no_run({"--seed", "abc"}, {"--seed", "abc"});
  check_no_run({"--seed", "-1"}, {"run.seed", "-1"});
  check_no_run({"--threads", "-2"}, {"run.threads", "-2"});
  check_no_run({"--device", "tpu"}, {"run.device", "cpu"});
  check_no_run({"--device", "cuda"}, {"run.device", "CUDA"});
  for (const char* command : {"train", "eval", "predict", "info", "forward", "bench"}) {
    const Outcome help = hgtrain({command, "--help"});
    CHECK(help.code == 0);
    CHECK(help.err == "");
    CHECK(help.out.find("--set") != std::string::npos);
  }
}

TEST_CASE("settings that cannot hold are refused in one line naming the key") {
  check_no_run(set({"model.depth"}), {"--set", "section.key=value", "model.depth"});
  check_no_run(set({"model.dpeth=2"}), {"model.dpeth", "model.depth"});
  check_no_run(set({"model.depth=0"}), {"model.depth", "at least 1"});
  check_no_run(set({"model.depth=two"}), {"model.depth"});
  check_no_run(set({"model.patch_size=5"}), {"model.patch_size", "16", "5"});
  check_no_run(set({"model.heads=3"}), {"model.heads"});
  check_no_run(set({"select.top_k=0"}), {"select.top_k"});
  check_no_run(set({"model.attention=nonsense"}), {"model.attention", "nonsense"});
  check_no_run(set({"select.heuristic=sharpness"}), {"select.heuristic", "contrast, variance"});
  check_no_run(set({"train.learning_rate=1e30"}), {"train.learning_rate"});
  check_no_run(set({"train.learning_rate=nan"}), {"train.learning_rate"});
  check_no_run(set({"train.batch_size=0"}), {"train.batch_size"});
  check_no_run(set({"model.num_classes=11"}), {"model.num_classes", "2 to 10"});  // of shapes
}

TEST_CASE("a config file that is damaged is named with its line") {
  const TempFolder folder;
  const std::string config = folder / "c.toml", run = folder / "run";
  for (const std::string text :
       {"[model\ndepth = 1\n", "[model]\ndepth = \n", "[model]\ndepht = 1\n", "[modle]\n",
        "\xff\xfe\x00garbage", "[model]\ndepth = 1\ndepth = 2\n", "[model]\ndepth = 1e400\n"}) {
    INFO(text);
    put(config, text);
    check_refused(hgtrain({"train", config, "--out", run}), 2, {config});
    CHECK(!exists(run));
  }
}

TEST_CASE("missing and damaged data sets are refused before a run folder is made") {
  const TempFolder folder;
  check_no_run(kMnist, {"mnist"});
  put_mnist(folder, 40);
  const ChildOptions data{0, folder.path(), ""};
  {
    const TempFolder fine;
    const Outcome trained = hgtrain(tiny_train(fine / "run", kMnist), data);
    INFO(trained.err);
    CHECK(trained.code == 0);
  }
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                           "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    const std::string file = folder / ("mnist/" + std::string(name));
    const std::string good = contents_of(file);
    put(file, good.substr(0, good.size() - 7));
    check_no_run(kMnist, {name}, data);
    put(file, "\x01" + good.substr(1));
    check_no_run(kMnist, {name}, data);
    put(file, "");
    check_no_run(kMnist, {name}, data);
    put(file, good);
  }
  const std::string labels = folder / "mnist/train-labels-idx1-ubyte";
  std::string wrong = contents_of(labels);
  wrong.back() = 10;
  put(labels, wrong);
  check_no_run(kMnist, {"train-labels-idx1-ubyte", "10"}, data);
}

TEST_CASE("a run goes into no folder that cannot be one, nor over another run") {
  const TempFolder folder;
  put(folder / "file", "text");
  check_refused(hgtrain(tiny_train(folder / "file")), 2, {folder / "file"});
  check_refused(hgtrain(tiny_train(folder / "file/run")), 2, {folder / "file/run"});
  CHECK(contents_of(folder / "file") == "text");

  const std::string run = folder / "run";
  REQUIRE(hgtrain(tiny_train(run)).code == 0);
  const std::string before = contents_of(run + "/state.safetensors");
  check_refused(hgtrain(tiny_train(run, {"--seed", "5"})), 2, {run, "--resume"});
  CHECK(contents_of(run + "/state.safetensors") == before);
}

TEST_CASE("a model that cannot fit is refused with the memory it needs") {
  const TempFolder folder;
  const std::string run = folder / "run";
  check_refused(hgtrain(tiny_train(run, set({"model.img_size=4096", "model.patch_size=8",
                                             "model.emb_size=1024", "model.depth=64"}))),
                2, {"memory: training needs at least", "B, this machine has", "model.img_size"});
  CHECK(!exists(run));
}

TEST_CASE("paths that are too long or cannot be read are refused in one line") {
  const TempFolder folder;
  const std::string longest(5000, 'x');
  REQUIRE(hgtrain(tiny_train(folder / "run")).code == 0);
  check_refused(hgtrain({"info", longest}), 2, {"xxx"});
  check_refused(hgtrain(tiny_train(longest)), 2, {"xxx"});
  check_refused(hgtrain({"report", longest}), 2, {"xxx"});
  check_refused(hgtrain({"eval", longest}), 2, {"xxx"});
  check_refused(hgtrain({"predict", folder / "run", longest}), 2, {"xxx"});
  check_refused(
      hgtrain(tiny_train(folder / "other", set({"data.root=" + longest, "data.name=cifar10"}))), 2,
      {"data.root", "xxx"});
  check_refused(hgtrain({"experiment", "quick", "--scale", "smoke", "--out", longest}), 2, {"xxx"});
}

TEST_CASE("a full disk ends a run with its path and leaves the last checkpoint") {
  const TempFolder folder;
  const std::string run = folder / "run";
  const Arguments train = tiny_train(run, {"--set", "train.epochs=9", "--quiet"});
  const Outcome first = hgtrain(train, {15000, "", ""});  // config and metrics fit, weights don't
  check_refused(first, 1, {run + "/model.safetensors", "File too large"});
  std::vector<std::string> files = kEarlyFiles;
  files.insert(files.begin() + 1, "confusion.csv");  // the first epoch was judged before
  CHECK(files_in(run) == files);

  const Outcome again =
      hgtrain(train + Arguments{"--resume"}, {40000, "", ""});  // the state doesn't
  check_refused(again, 1, {run + "/state.safetensors", "File too large"});
  CHECK(!exists(run + "/state.safetensors"));
  CHECK(!leftovers_in(run));
  CHECK(hgtrain(train + Arguments{"--resume"}).code == 0);

  const std::string before = contents_of(run + "/state.safetensors");
  check_refused(hgtrain(train + Arguments{"--resume"}, {1000, "", ""}), 1, {run, "File too large"});
  CHECK(contents_of(run + "/state.safetensors") == before);
  CHECK(hgtrain(train + Arguments{"--resume"}).code == 0);

  const std::string whole = folder / "whole";
  REQUIRE(hgtrain(tiny_train(whole, {"--set", "train.epochs=9", "--quiet"})).code == 0);
  CHECK(contents_of(run + "/model.safetensors") == contents_of(whole + "/model.safetensors"));
}
