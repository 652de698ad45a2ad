// Phase detect as users meet it: train, eval, predict, forward, info, and what is refused.
#include <doctest/doctest.h>

#include <cmath>

#include "data/image_draw.h"
#include "data/image_file.h"
#include "tests/support/resume.h"
#include "train/store/safetensors.h"

namespace {

using namespace hg;
using namespace hg::testing;

const Arguments kDetect{"--set", "phase.0.kind=\"detect\"", "--quiet"};
constexpr const char* kFigures[] = {"mean_iou", "map_50", "localization_accuracy", "iou_50"};

Arguments train_detector(const std::string& run, const Arguments& more = {}) {
  return tiny_train(run, kDetect + more);
}

Image ramp_image(int height, int width) {
  Image image;
  image.reshape(3, height, width);
  for (std::size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<std::uint8_t>(i % 200);
  return image;
}

void put_png(const std::string& path, const Image& image) {
  const Bytes png = encode_png(image);
  put(path, {reinterpret_cast<const char*>(png.data()), png.size()});
}

Json predictions_of(const Outcome& outcome) {
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  return Json::parse(outcome.out)["predictions"];
}

}  // namespace

TEST_CASE("a detector's run, its summary and eval hold the figures of its boxes") {
  const TempFolder folder;
  const std::string run = folder / "run";
  const Outcome trained = hgtrain(tiny_train(run, {"--set", "phase.0.kind=\"detect\""}));
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  CHECK(trained.err.find("  mean IoU 0.") != std::string::npos);
  const auto metrics = lines_of(contents_of(run + "/metrics.csv"));
  REQUIRE(metrics.size() == 5);
  CHECK(metrics[4].starts_with("detect,4,16,"));
  const Safetensors model = read_safetensors(run + "/model.safetensors");
  CHECK(model.tensors.at("box_head.weight").shape() == Shape{4, 16});
  CHECK(model.tensors.at("box_head.bias").shape() == Shape{4});

  const Json summary = summary_of(run);
  const Outcome evaluated = hgtrain({"eval", run, "--json"});
  REQUIRE(evaluated.code == 0);
  const Json scores = Json::parse(evaluated.out);
  for (const char* key : {"accuracy", "micro_f1", "macro_f1"}) CHECK(scores[key] == summary[key]);
  for (const char* key : kFigures) {
    INFO(key);
    CHECK(scores[key] == summary[key]);
  }
  CHECK(scores["boxes"] == 32);
  CHECK(scores["mean_iou"].get<double>() > 0.1);
  CHECK(scores["micro_f1"] == scores["localization_accuracy"]);
  CHECK(scores["micro_f1"].get<double>() <= scores["accuracy"].get<double>());
  const auto table = lines_of(hgtrain({"eval", run}).out);
  REQUIRE(table.size() == 8);  // header, five classes, totals, boxes
  CHECK(table[7].find("mAP@0.5 0.") != std::string::npos);
}

TEST_CASE("a detector stopped at random moments ends with the same bits and figures") {
  check_survives_stops(
      [](const std::string& run, const Arguments& more) {
        return train_detector(
            run, set({"train.epochs=6", "train.batch_size=8", "model.dropout=0.1"}) + more);
      },
      8);
}

TEST_CASE("detect goes on from the weights of the phase before") {
  const TempFolder folder;
  put(folder / "config.toml", R"(
[data]
name = "shapes"
train_limit = 32
test_limit = 16
[model]
img_size = 16
patch_size = 8
emb_size = 16
depth = 1
heads = 2
num_classes = 5
[train]
batch_size = 16
epochs = 1
[[phase]]
kind = "supervised"
[[phase]]
kind = "detect"
[phase.train]
learning_rate = 0.0
)");
  const Arguments arguments{"train", folder / "config.toml", "--out", folder / "run", "--quiet"};
  REQUIRE(hgtrain(arguments).code == 0);
  REQUIRE(hgtrain({"train", folder / "config.toml", "--out", folder / "one", "--quiet", "--set",
                   "phase.1.kind=\"supervised\""})
              .code == 0);
  const Safetensors detector = read_safetensors(folder / "run/model.safetensors"),
                    classifier = read_safetensors(folder / "one/model.safetensors");
  CHECK(detector.tensors.size() == classifier.tensors.size() + 2);
  for (const auto& [name, tensor] : classifier.tensors) {
    INFO(name);
    CHECK(detector.tensors.at(name).to_vector<float>() == tensor.to_vector<float>());
  }
}

TEST_CASE("data without boxes cannot be learnt to detect on") {
  const TempFolder folder;
  for (const char* path : {"set/train/a", "set/train/b", "set/test/a", "set/test/b"}) {
    std::filesystem::create_directories(folder / path);
    put_png(folder / (std::string(path) + "/x.png"), ramp_image(16, 16));
  }
  const Arguments other{
      "--set", "data.name=\"folder\"", "--set", "data.root=\"" + (folder / "set") + "\"",
      "--set", "model.num_classes=2",  "--set", "train.batch_size=2"};
  check_refused(hgtrain(train_detector(folder / "run", other)), 2,
                {"phase.0.kind", "\"detect\"", "boxes", "data.name = \"folder\""});
  CHECK(!exists(folder / "run"));
  REQUIRE(hgtrain(train_detector(folder / "good", {"--set", "model.num_classes=2"})).code == 0);
  check_refused(hgtrain(Arguments{"eval", folder / "good"} + other), 2, {"phase.0.kind", "boxes"});
}

TEST_CASE("Tiny ImageNet's boxes are learnt from and judged by, where images have one") {
  const TempFolder folder;
  const std::string root = folder / "tiny";
  put_png(folder / "image", ramp_image(64, 64));
  const auto image_at = [&](const std::string& path) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::filesystem::copy_file(folder / "image", path);
  };
  std::string boxes, annotations;
  for (const char* id : {"n01", "n02"})
    for (int i = 0; i < 4; ++i) {
      const std::string name = fmt::format("{}_{}.JPEG", id, i), val = "val_" + name;
      image_at(root + "/train/" + id + "/images/" + name);
      image_at(root + "/val/images/" + val);
      if (id == std::string("n01")) boxes += name + "\t0\t0\t31\t63\n";  // n02 has no boxes
      annotations += val + "\t" + id + "\t0\t0\t31\t63\n";
    }
  put(root + "/wnids.txt", "n01\nn02\n");
  put(root + "/train/n01/n01_boxes.txt", boxes);
  put(root + "/val/val_annotations.txt", annotations);
  const std::string run = folder / "run";
  const Outcome trained = hgtrain(train_detector(
      run, {"--set", "data.name=\"tiny-imagenet\"", "--set", "data.root=\"" + root + "\"", "--set",
            "data.augment=false", "--set", "model.num_classes=2", "--set", "train.batch_size=4",
            "--set", "train.epochs=20", "--set", "train.learning_rate=0.01"}));
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const Outcome evaluated = hgtrain({"eval", run, "--json"});
  REQUIRE(evaluated.code == 0);
  const Json scores = Json::parse(evaluated.out);
  CHECK(scores["boxes"] == 8);
  CHECK(scores["mean_iou"].get<double>() > 0.9);  // they are all the left half
  const Json found = predictions_of(hgtrain({"predict", run, folder / "image", "--json"}));
  const std::vector<double> box = found[0]["box"], left_half{0, 0, 32, 64};
  for (std::size_t k = 0; k < 4; ++k) CHECK(std::abs(box[k] - left_half[k]) < 4);
}

TEST_CASE("predict gives the box in the image's pixels and draws it there") {
  const TempFolder folder;
  const std::string run = folder / "run", drawn = folder / "drawn";
  REQUIRE(hgtrain(train_detector(run)).code == 0);
  const Image image = ramp_image(40, 60);
  for (const char* name : {"a", "b"}) {
    std::filesystem::create_directory(folder / name);
    put_png(folder / (std::string(name) + "/x.png"), image);
  }
  const std::string first = folder / "a/x.png", second = folder / "b/x.png";
  const Json plain = predictions_of(hgtrain({"predict", run, first, "--json"}));
  CHECK(!plain[0].contains("drawing"));
  const std::vector<double> box = plain[0]["box"];
  REQUIRE(box.size() == 4);
  CHECK(0 <= box[0]);
  CHECK(box[0] < box[2]);
  CHECK(box[2] <= 60);
  CHECK(0 <= box[1]);
  CHECK(box[1] < box[3]);
  CHECK(box[3] <= 40);

  // Images of one name, and drawings of an earlier call, all stay.
  std::filesystem::create_directory(drawn);
  put(drawn + "/x-2.png", "mine");
  const Json both =
      predictions_of(hgtrain({"predict", run, first, second, "--draw", drawn, "--json"}));
  CHECK(both[0]["box"] == plain[0]["box"]);
  CHECK(both[0]["drawing"] == drawn + "/x.png");
  CHECK(both[1]["drawing"] == drawn + "/x-3.png");
  CHECK(contents_of(drawn + "/x-2.png") == "mine");
  CHECK(files_in(drawn) == std::vector<std::string>{"x-2.png", "x-3.png", "x.png"});

  Image expected = image;
  draw_box(expected, {static_cast<float>(box[0]), static_cast<float>(box[1]),
                      static_cast<float>(box[2]), static_cast<float>(box[3])});
  const Image seen = load_image(drawn + "/x.png");
  CHECK(seen.pixels == expected.pixels);
  CHECK(seen.pixels != image.pixels);
  const Outcome text = hgtrain({"predict", run, first});
  CHECK(text.out.find(" %), box (") != std::string::npos);
  CHECK(text.out.find("drawn") == std::string::npos);

  REQUIRE(hgtrain(tiny_train(folder / "classifier", {"--quiet"})).code == 0);
  check_refused(hgtrain({"predict", folder / "classifier", first, "--draw", drawn}), 2,
                {"--draw", "supervised"});
  put(folder / "file", "");
  check_refused(hgtrain({"predict", run, first, "--draw", folder / "file"}), 2, {"/file"});
}

TEST_CASE("forward gives a detector's boxes; the loss stays that of the classes") {
  const TempFolder folder;
  const std::string run = folder / "run";
  REQUIRE(hgtrain(train_detector(run)).code == 0);
  const Tensor images = Tensor::full({2, 3, 16, 16}, 0.25);
  write_safetensors(folder / "i", {{"images", images}, {"labels", Tensor::zeros({2}, DType::i64)}});
  const auto forward = [&](const std::string& config, const std::string& weights) {
    return hgtrain({"forward", config, "--weights", weights, "--input", folder / "i", "--output",
                    folder / "o"});
  };
  const Outcome done = forward(run + "/config.toml", run + "/model.safetensors");
  INFO(done.err);
  REQUIRE(done.code == 0);
  const Safetensors out = read_safetensors(folder / "o");
  REQUIRE(out.tensors.at("boxes").shape() == Shape{2, 4});
  for (const float v : out.tensors.at("boxes").to_vector<float>()) {
    CHECK(v > 0);
    CHECK(v < 1);
  }
  for (const float v : out.tensors.at("grad.box_head.weight").to_vector<float>()) CHECK(v == 0);

  REQUIRE(hgtrain(tiny_train(folder / "classifier", {"--quiet"})).code == 0);
  const std::string classifier = folder / "classifier";
  REQUIRE(forward(classifier + "/config.toml", run + "/model.safetensors").code == 0);
  const Safetensors alone = read_safetensors(folder / "o");
  CHECK(!alone.tensors.contains("boxes"));
  for (const char* name : {"logits", "loss"})
    CHECK(alone.tensors.at(name).to_vector<float>() == out.tensors.at(name).to_vector<float>());
  check_refused(forward(run + "/config.toml", classifier + "/model.safetensors"), 2,
                {"box_head", "missing"});
}

TEST_CASE("info counts the box head and the box loss") {
  const auto total = [](const Arguments& more) {
    const Outcome outcome = hgtrain(Arguments{"info", "shapes", "--json"} + tiny_model() + more);
    REQUIRE(outcome.code == 0);
    return Json::parse(outcome.out);
  };
  const Json classifier = total({}), detector = total({"--set", "phase.0.kind=\"detect\""});
  const auto more = [&](const char* direction) {
    return detector["flops"][direction].get<std::int64_t>() -
           classifier["flops"][direction].get<std::int64_t>();
  };
  CHECK(detector["parameters"].get<int>() == classifier["parameters"].get<int>() + 4 * 16 + 4);
  CHECK(more("forward_matmul") == 2 * 16 * 4);
  CHECK(more("backward_matmul") == 2 * 2 * 16 * 4);
  // bias 4, sigmoid 4 x 4, box loss 57, one addition of the two losses
  CHECK(more("forward") == 2 * 16 * 4 + 4 + 16 + 57 + 1);
}
