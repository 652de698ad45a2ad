// hgtrain train, eval and predict on small runs: which files they make, and that runs repeat.
#include <doctest/doctest.h>

#include <algorithm>

#include "tensor/base/files.h"
#include "tests/support/program.h"
#include "train/store/safetensors.h"

namespace {

using namespace hg;
using namespace hg::testing;

const std::vector<std::string> kRunFiles{
    "config.toml",       "confusion.csv", "emissions.csv",     "energy.json", "launches.json",
    "ledger.csv",        "metrics.csv",   "model.safetensors", "power.csv",   "report.html",
    "state.safetensors", "steps.csv",     "summary.json"};

// 24-bit BMP of one colour, a square of another in it.
std::string bmp(int side) {
  const auto le32 = [](std::uint32_t v) {
    return std::string{char(v), char(v >> 8), char(v >> 16), char(v >> 24)};
  };
  const int row = (3 * side + 3) / 4 * 4;
  std::string pixels(static_cast<std::size_t>(row * side), '\x30');
  for (int y = side / 4; y < side / 2; ++y)
    for (int x = 3 * (side / 4); x < 3 * (side / 2); ++x) pixels[std::size_t(y * row + x)] = '\x7e';
  const auto size = static_cast<std::uint32_t>(54 + pixels.size());
  return "BM" + le32(size) + le32(0) + le32(54) + le32(40) + le32(std::uint32_t(side)) +
         le32(std::uint32_t(side)) + le32(1 | 24 << 16) + le32(0) +
         le32(std::uint32_t(pixels.size())) + le32(2835) + le32(2835) + le32(0) + le32(0) + pixels;
}

}  // namespace

TEST_CASE("evaluation after every third epoch and the last leaves other rows without scores") {
  const TempFolder folder;
  const std::string each = folder / "each", third = folder / "third";
  const Arguments seven = set({"train.epochs=7"});
  REQUIRE(hgtrain(tiny_train(each, seven)).code == 0);
  const Outcome done = hgtrain(tiny_train(third, seven + set({"train.eval_every=3"})));
  INFO(done.err);
  REQUIRE(done.code == 0);
  CHECK(contents_of(third + "/model.safetensors") == contents_of(each + "/model.safetensors"));
  CHECK(column_of(third, "train_loss") == column_of(each, "train_loss"));
  for (const char* column : {"test_loss", "accuracy", "micro_f1", "macro_f1"}) {
    std::vector<std::string> expected = column_of(each, column);
    for (const std::size_t epoch : {0u, 1u, 3u, 4u}) expected[epoch] = "";
    CHECK(column_of(third, column) == expected);
  }
  CHECK(summary_of(third)["micro_f1"] == summary_of(each)["micro_f1"]);
  const auto evaluating = [](const std::string& run) {
    return flops_of(run, "eval", "patch_embed", "proj");
  };
  CHECK(evaluating(each) > 0);
  CHECK(7 * evaluating(third) == 3 * evaluating(each));
  const auto flops = [](const std::string& run) {
    return summary_of(run)["flops"].get<std::int64_t>();
  };
  const std::int64_t epoch = std::stoll(column_of(third, "flops")[0]),
                     evaluated = std::stoll(column_of(third, "flops")[2]);
  CHECK(evaluated > epoch);
  CHECK(flops(each) - flops(third) == 4 * (evaluated - epoch));
  CHECK(contents_of(third + "/report.html").find(column_of(each, "micro_f1")[6].substr(0, 6)) !=
        std::string::npos);
  check_refused(hgtrain(tiny_train(folder / "none", set({"train.eval_every=0"}))), 2,
                {"train.eval_every", "1"});
}

TEST_CASE("a run folder holds all files, whole and with every field") {
  const TempFolder folder;
  const std::string run = folder / "run";
  const Outcome trained = hgtrain(tiny_train(run));
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  CHECK(lines_of(trained.err).size() == 9);  // an overview and a line an epoch
  auto told = lines_of(trained.out);
  std::erase_if(told, [](const std::string& line) {  // on a busy machine
    return line.find("of the cores it asked for") != std::string::npos;
  });
  CHECK(told.size() == 1);
  CHECK(trained.out.find(run) != std::string::npos);
  CHECK(files_in(run) == kRunFiles);

  const auto metrics = lines_of(contents_of(run + "/metrics.csv"));
  REQUIRE(metrics.size() == 5);
  CHECK(metrics[0] ==
        "phase,epoch,step,train_loss,test_loss,accuracy,micro_f1,macro_f1,images_per_s,"
        "tokens_per_image,flops,energy_j,co2_g,seconds");
  CHECK(metrics[1].starts_with("supervised,1,4,"));
  CHECK(metrics[4].starts_with("supervised,4,16,"));

  const Json summary = summary_of(run);
  for (const char* key :
       {"name", "status", "accuracy", "micro_f1", "macro_f1", "energy_j", "energy_kind",
        "energy_source", "co2_g", "seconds", "flops", "flops_matmul", "images", "peak_rss_bytes",
        "joules_per_f1", "cpu_share"}) {
    INFO(key);
    CHECK(summary.contains(key));
  }
  CHECK(summary["status"] == "finished");
  const Json& share = summary["cpu_share"];
  if (!share.is_null()) {
    CHECK(share.get<double>() > 0);
    CHECK(share.get<double>() <= 1);
    CHECK((told.size() < lines_of(trained.out).size()) == (share.get<double>() < 0.9));
  }
  CHECK(summary["images"] == 4 * 64);
  CHECK(summary["flops"].get<std::int64_t>() > summary["flops_matmul"].get<std::int64_t>());
  const Safetensors model = read_safetensors(run + "/model.safetensors");
  CHECK(model.tensors.at("blocks.0.attn.qkv.weight").shape() == Shape{48, 16});
}

TEST_CASE("a seed repeats a run bit for bit, on one thread and on two, and so does its config") {
  const TempFolder folder;
  for (const char* threads : {"1", "2"}) {
    const Arguments more{"--threads", threads, "--set", "model.dropout=0.1"};
    const std::string a = folder / ("a" + std::string(threads));
    const std::string b = folder / ("b" + std::string(threads));
    const std::string c = folder / ("c" + std::string(threads));
    REQUIRE(hgtrain(tiny_train(a, more)).code == 0);
    REQUIRE(hgtrain(tiny_train(b, more)).code == 0);
    REQUIRE(hgtrain({"train", a + "/config.toml", "--out", c}).code == 0);
    for (const char* file : {"/model.safetensors", "/config.toml"}) {
      CHECK(contents_of(a + file) == contents_of(b + file));
      CHECK(contents_of(a + file) == contents_of(c + file));
    }
    CHECK(timeless_metrics(a) == timeless_metrics(b));
    CHECK(timeless_metrics(a) == timeless_metrics(c));
  }
  REQUIRE(hgtrain(tiny_train(folder / "other", {"--seed", "2"})).code == 0);
  CHECK(contents_of(folder / "a1/model.safetensors") !=
        contents_of(folder / "other/model.safetensors"));
}

TEST_CASE("a run begins with what it trains, on what, and how its energy is known") {
  const TempFolder folder;
  const Outcome outcome = hgtrain(tiny_train(folder / "run"));
  REQUIRE(outcome.code == 0);
  const auto tells = [&](const std::string& part) {
    INFO(outcome.err);
    CHECK(outcome.err.find(part) < outcome.err.find("epoch 1/4"));
  };
  tells("data: shapes (");
  tells(" images to train on, ");
  tells("model: softmax attention, ");
  tells("supervised, 4 epochs; an image takes ");
  tells("threads: 1\n");
  tells("; CO2 of Italy");
  CHECK(outcome.out.find("FLOP, ") != std::string::npos);
  CHECK(outcome.out.find("J modelled, ") != std::string::npos);  // and then the interval
}

TEST_CASE("a folder without a split says which images it holds out") {
  const TempFolder folder;
  for (const std::string name : {"a", "b"}) {
    std::filesystem::create_directories(folder / ("set/" + name));
    for (int i = 0; i < 10; ++i)
      put(folder / ("set/" + name + "/" + std::to_string(i) + ".bmp"), bmp(16));
  }
  const Outcome outcome =
      hgtrain(tiny_train(folder / "run", set({"data.name=folder", "data.root=" + (folder / "set"),
                                              "model.num_classes=2", "data.train_limit=0"})));
  INFO(outcome.err);
  CHECK(outcome.code == 0);
  CHECK(outcome.err.find("(held out: every 5th image of a class)") != std::string::npos);
}

TEST_CASE("--json prints one object and --quiet nothing") {
  const TempFolder folder;
  const Outcome json = hgtrain(tiny_train(folder / "json", {"--json"}));
  CHECK(json.code == 0);
  CHECK(Json::parse(json.out) == summary_of(folder / "json"));
  CHECK(lines_of(json.out).size() == 1);
  const Outcome quiet = hgtrain(tiny_train(folder / "quiet", {"--quiet"}));
  CHECK(quiet.code == 0);
  CHECK(quiet.out == "");
  CHECK(quiet.err == "");
}

TEST_CASE("a result that cannot be printed is a failure") {
  const TempFolder folder;
  const Outcome lost =
      hgtrain(tiny_train(folder / "run", {"--quiet", "--json"}), {0, "", "/dev/full"});
  CHECK(lost.code == 1);
  CHECK(lost.err.find("standard output") != std::string::npos);
  CHECK(exists(folder / "run/summary.json"));
}

TEST_CASE("eval repeats the figures of the run") {
  const TempFolder folder;
  const std::string run = folder / "run";
  REQUIRE(hgtrain(tiny_train(run)).code == 0);
  const Outcome whole = hgtrain({"eval", run, "--json"});
  REQUIRE(whole.code == 0);
  const Json scores = Json::parse(whole.out), summary = summary_of(run);
  for (const char* key : {"accuracy", "micro_f1", "macro_f1"}) CHECK(scores[key] == summary[key]);
  CHECK(scores["images"] == 32);
  REQUIRE(scores["classes"].size() == 5);
  std::int64_t support = 0;
  for (const Json& c : scores["classes"]) support += c["support"].get<std::int64_t>();
  CHECK(support == 32);

  const Outcome alone =
      hgtrain({"eval", run + "/model.safetensors", "--config", run + "/config.toml", "--json"});
  CHECK(alone.out == whole.out);
  const Outcome table = hgtrain({"eval", run});
  CHECK(table.code == 0);
  CHECK(lines_of(table.out).size() == 7);  // header, five classes, totals
  CHECK(hgtrain({"eval", run + "/model.safetensors", "--json"}).out == whole.out);
  const std::string elsewhere = folder / "elsewhere.safetensors";
  put(elsewhere, contents_of(run + "/model.safetensors"));
  check_refused(hgtrain({"eval", elsewhere}), 2, {"elsewhere.safetensors", "--config"});
  check_refused(hgtrain({"eval", run + "/model.safetensors", "--config", "shapes"}), 2,
                {"model.safetensors", "expected"});
}

TEST_CASE("predict names a class for image files") {
  const TempFolder folder;
  const std::string run = folder / "run", image = folder / "a.bmp";
  REQUIRE(hgtrain(tiny_train(run)).code == 0);
  put(image, bmp(20));
  const Outcome json = hgtrain({"predict", run, image, image, "--json"});
  INFO(json.err);
  REQUIRE(json.code == 0);
  const Json predictions = Json::parse(json.out)["predictions"];
  REQUIRE(predictions.size() == 2);
  CHECK(predictions[0] == predictions[1]);
  CHECK(predictions[0]["file"] == image);
  CHECK(predictions[0]["probability"].get<double>() > 0.2);  // the likeliest of five
  CHECK(predictions[0]["probability"].get<double>() <= 1);
  const std::string name = predictions[0]["class"];
  CHECK(hgtrain({"predict", run, image}).out.starts_with(image + ": " + name + " ("));

  check_refused(hgtrain({"predict", run, folder / "none.png"}), 2, {"none.png"});
  put(folder / "cut.bmp", bmp(20).substr(0, 100));
  check_refused(hgtrain({"predict", run, folder / "cut.bmp"}), 2, {"cut.bmp"});
  check_refused(hgtrain({"predict", folder / "nowhere", image}), 2, {"nowhere/config.toml"});
}

TEST_CASE("predict goes on after a bad file and says which it was") {
  const TempFolder folder;
  const std::string run = folder / "run", cut = folder / "cut.bmp", image = folder / "a.bmp";
  REQUIRE(hgtrain(tiny_train(run)).code == 0);
  put(image, bmp(20));
  put(cut, bmp(20).substr(0, 100));
  const Outcome done = hgtrain({"predict", run, cut, image, "--json"});
  CHECK(done.code == 2);
  const std::vector<std::string> told = lines_of(done.err);
  REQUIRE(told.size() == 2);
  CHECK(told[0].starts_with("hgtrain: " + cut + ": "));
  CHECK(told[1] == "hgtrain: 1 of 2 images could not be read");
  const Json predictions = Json::parse(done.out)["predictions"];
  REQUIRE(predictions.size() == 2);
  CHECK(predictions[0]["error"].get<std::string>().starts_with(cut));
  CHECK(!predictions[0].contains("class"));
  CHECK(predictions[1]["file"] == image);
  CHECK(predictions[1].contains("class"));
}

TEST_CASE("predict takes folders and tells the likeliest classes") {
  const TempFolder folder;
  const std::string run = folder / "run", images = folder / "images";
  REQUIRE(hgtrain(tiny_train(run)).code == 0);
  make_folder(images);
  for (const char* name : {"b.bmp", "a.bmp", "notes.txt"}) put(images + "/" + name, bmp(20));
  const Outcome done = hgtrain({"predict", run, images, "--top", "9", "--json"});
  INFO(done.err);
  REQUIRE(done.code == 0);
  const Json predictions = Json::parse(done.out)["predictions"];
  REQUIRE(predictions.size() == 2);
  CHECK(predictions[0]["file"] == images + "/a.bmp");
  const Json top = predictions[0]["top"];
  REQUIRE(top.size() == 5);  // all there are
  double sum = 0;
  for (std::size_t i = 0; i < top.size(); ++i) {
    sum += top[i]["probability"].get<double>();
    if (i > 0) CHECK(top[i]["probability"] <= top[i - 1]["probability"]);
  }
  CHECK(sum == doctest::Approx(1));
  for (const char* key : {"class", "label", "probability"})
    CHECK(predictions[0][key] == top[0][key]);

  const Outcome text = hgtrain({"predict", run, images + "/a.bmp", "--top", "2"});
  CHECK(std::ranges::count(text.out, '%') == 2);
  check_refused(hgtrain({"predict", run, images, "--top", "0"}), 2, {"--top"});
  make_folder(folder / "empty");
  check_refused(hgtrain({"predict", run, folder / "empty"}), 2, {"empty", "without images"});
}
