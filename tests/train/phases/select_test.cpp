// hgtrain with [select]: what info counts, what forward takes, that runs repeat, resume and say
// what they saved.
#include <doctest/doctest.h>

#include "tests/support/program.h"
#include "train/phases/step_cost.h"
#include "train/run/memory.h"
#include "train/store/safetensors.h"

namespace {

using namespace hg;
using namespace hg::testing;

Json info(const std::string& config, const Arguments& settings) {
  const Outcome done = hgtrain(Arguments{"info", config, "--json"} + settings);
  INFO(done.err);
  REQUIRE(done.code == 0);
  return Json::parse(done.out);
}

Arguments keeping(const std::string& k) {
  return set({"select.heuristic=contrast", "select.top_k=" + k});
}

Arguments reference(const std::string& depth) {
  return set({"model.emb_size=64", "model.heads=12", "model.dim_head=64", "model.depth=" + depth,
              "model.num_classes=10", "model.qkv_bias=false", "model.pool=mean"});
}

// 16 patches.
Arguments small_model() { return tiny_model() + set({"model.patch_size=4"}); }

Arguments filter(const std::string& k, const std::string& prob = "0.5",
                 const Arguments& more = {}) {
  return keeping(k) + set({"select.prob=" + prob}) + more;
}

void train_selecting(const std::string& run, const Arguments& more) {
  const Outcome done = hgtrain(tiny_train(run, set({"model.patch_size=4"}) + more));
  INFO(done.err);
  REQUIRE(done.code == 0);
}

}  // namespace

TEST_CASE("info counts the dropped models of appendix A to the last unit") {
  struct Known {
    Arguments settings;
    std::int64_t forward_matmul;
  };
  const Arguments base = set({"model.emb_size=768", "model.heads=12"});
  for (const auto& [settings, forward_matmul] :
       std::vector<Known>{{keeping("138"), 2 * 847441920LL},
                          {keeping("0.7"), 2 * 847441920LL},
                          {keeping("98"), 2 * 585338880LL},
                          {keeping("49"), 2 * 284358144LL},
                          {keeping("196"), 2507366400LL},
                          {base + keeping("138"), 24488411136LL},
                          {reference("2") + keeping("138"), 259808512LL},
                          {reference("4") + keeping("138"), 506049792LL},
                          {reference("8") + keeping("138"), 998532352LL}}) {
    const Json counted = info("deit-tiny", settings);
    CHECK(counted["flops"]["forward_matmul"] == forward_matmul);
  }
}

TEST_CASE("info shows scoring as a layer of its own and what the filter saves") {
  const Json plain = info("deit-tiny", {}), dropped = info("deit-tiny", keeping("98"));
  const Json zeroed = info("deit-tiny", keeping("98") + set({"select.mode=zero"}));
  CHECK(!plain.contains("select"));
  std::int64_t scoring = 0;
  for (const Json& row : dropped["layers"])
    if (row["layer"] == "patch_select") {
      CHECK(row["op"] == "patch_scores");
      scoring += row["flops_forward"].get<std::int64_t>();
    }
  CHECK(scoring == 196 * (256 * 6 + 256));
  CHECK(scoring < 0.001 * plain["flops"]["forward"].get<double>());
  CHECK(dropped["parameters"] == plain["parameters"]);
  const Json s = dropped["select"];
  CHECK(s["kept"] == 98);
  CHECK(s["patches"] == 196);
  CHECK(s["flops_all_patches"] == plain["flops"]);
  CHECK(s["flops_expected"]["forward_matmul"] ==
        doctest::Approx(0.5 * (1170677760. + 2507366400.)));
  // Zeroing saves nothing and says so.
  CHECK(zeroed["select"]["mode"] == "zero");
  CHECK(zeroed["flops"]["backward"] == plain["flops"]["backward"]);
  const std::int64_t normalising = 2 * 3 * 224 * 224;  // is the loader's where it sets zeros
  CHECK(zeroed["flops"]["forward"] ==
        plain["flops"]["forward"].get<std::int64_t>() - normalising + scoring);
  CHECK(hgtrain(Arguments{"info", "deit-tiny"} + keeping("98") + set({"select.mode=zero"}))
            .out.find("nothing is saved") != std::string::npos);
}

TEST_CASE("a dropped step costs three times its forward products less the image's gradient") {
  const Json counted = info("deit-tiny", keeping("138"));
  const std::int64_t forward = counted["flops"]["forward_matmul"];
  const std::int64_t embed = 2 * 138 * 768 * 192LL;
  CHECK(counted["flops"]["backward_matmul"].get<std::int64_t>() >= 2 * forward - embed);
  const Outcome bench = hgtrain(Arguments{"bench", "shapes", "--json", "--steps", "1"} +
                                small_model() + filter("11", "0.0"));
  REQUIRE(bench.code == 0);
  const Outcome whole =
      hgtrain(Arguments{"bench", "shapes", "--json", "--steps", "1"} + small_model());
  CHECK(Json::parse(bench.out)["flops_per_step"].get<double>() <
        0.8 * Json::parse(whole.out)["flops_per_step"].get<double>());
}

TEST_CASE("the paper's configurations are built in with its settings") {
  const Json paper = info("hugginggreen-224", {});
  CHECK(paper["select"]["kept"] == 138);
  CHECK(paper["select"]["prob"] == 0.5);
  CHECK(info("hugginggreen-cifar10", {})["select"]["kept"] == 45);
  CHECK(info("hugginggreen-fashion-mnist", {})["select"]["kept"] == 35);
}

TEST_CASE("keeping every patch trains the unfiltered model bit for bit") {
  const TempFolder folder;
  train_selecting(folder / "plain", {});
  train_selecting(folder / "all", filter("16", "1.0"));
  train_selecting(folder / "fraction", filter("1.0", "1.0"));
  const std::string weights = contents_of(folder / "plain/model.safetensors");
  CHECK(contents_of(folder / "all/model.safetensors") == weights);
  CHECK(contents_of(folder / "fraction/model.safetensors") == weights);
  CHECK(timeless_metrics(folder / "all") == timeless_metrics(folder / "plain"));
}

TEST_CASE("a filter that never acts changes nothing and one that acts shortens sequences") {
  const TempFolder folder;
  train_selecting(folder / "plain", {});
  train_selecting(folder / "never", filter("11", "0.0"));
  train_selecting(folder / "always", filter("11", "1.0", set({"select.prob_decay_rate=0"})));
  train_selecting(folder / "half", filter("11", "0.5"));
  train_selecting(folder / "zero", filter("11", "1.0", set({"select.mode=zero"})));
  CHECK(contents_of(folder / "never/model.safetensors") ==
        contents_of(folder / "plain/model.safetensors"));
  CHECK(column_of(folder / "plain", "tokens_per_image") == std::vector<std::string>(4, "17"));
  CHECK(column_of(folder / "always", "tokens_per_image") == std::vector<std::string>(4, "12"));
  CHECK(column_of(folder / "zero", "tokens_per_image") == std::vector<std::string>(4, "17"));
  double mean = 0;
  for (const std::string& tokens : column_of(folder / "half", "tokens_per_image"))
    mean += std::stod(tokens) / 4;
  CHECK(mean > 12);
  CHECK(mean < 17);
  CHECK(contents_of(folder / "always/model.safetensors") !=
        contents_of(folder / "zero/model.safetensors"));

  const auto flops = [&](const char* run) {
    return summary_of(folder / run)["flops"].get<std::int64_t>();
  };
  CHECK(flops("always") < flops("half"));
  CHECK(flops("half") < flops("plain"));
  CHECK(flops("zero") > flops("plain"));  // scoring on top
  CHECK(summary_of(folder / "plain")["select"].is_null());
  CHECK(summary_of(folder / "always")["select"]["saves"] == true);
  CHECK(summary_of(folder / "zero")["select"]["saves"] == false);
  CHECK(summary_of(folder / "always")["select"]["unscored_images"] == 0);
}

TEST_CASE("a run's FLOPs are those of its steps and evaluations and scoring") {
  const TempFolder folder;
  const Arguments common = set({"train.epochs=1", "select.prob_decay_rate=0"});
  train_selecting(folder / "plain", common);
  train_selecting(folder / "always", filter("11", "1.0", common));
  train_selecting(folder / "zero", filter("11", "1.0", common + set({"select.mode=zero"})));
  const auto flops = [&](const char* run) {
    return summary_of(folder / run)["flops"].get<std::int64_t>();
  };
  // 64 images of 16 x 16 in 16 patches: luminance and histogram 6 a pixel, 256 bins a patch; a
  // plain step normalises 3 channels, which the loader does where it sets zeros
  CHECK(flops("zero") - flops("plain") == 64 * (256 * 6 + 16 * 256 - 2 * 3 * 256));
  const auto image = [](const Arguments& more) {
    const Json f = info("shapes", small_model() + more)["flops"];
    return f["forward"].get<std::int64_t>() + f["backward"].get<std::int64_t>();
  };
  // The optimizer's and groups' sums are the same for both.
  const double saved = static_cast<double>(flops("plain") - flops("always"));
  CHECK(saved ==
        doctest::Approx(64.0 * static_cast<double>(image({}) - image(filter("11")))).epsilon(0.02));
  // Random patches cost what scored ones do, but for the scores.
  const Arguments random = set({"select.heuristic=random"});
  train_selecting(folder / "random", filter("11", "1.0", common + random));
  const std::int64_t scoring = 256 * 6 + 16 * 256;
  CHECK(flops("always") - flops("random") == 64 * scoring);
  CHECK(image(filter("11")) - image(filter("11", "1.0", random)) == scoring);
  CHECK(flops_of(folder / "random", "data", "patch_select") == 0);
}

TEST_CASE("the share of kept patches grows from epoch to epoch up to all of them") {
  const TempFolder folder;
  const Arguments steady = set({"select.prob_decay_rate=0"}), four = filter("4", "1.0", steady);
  train_selecting(folder / "plain", {});
  train_selecting(folder / "four", four);
  train_selecting(folder / "same", four + set({"select.top_k_end=0.25"}));
  train_selecting(folder / "grows", four + set({"select.top_k_end=1.0"}));
  train_selecting(folder / "falls", filter("16", "1.0", steady) + set({"select.top_k_end=4"}));
  using Column = std::vector<std::string>;
  CHECK(contents_of(folder / "same/model.safetensors") ==
        contents_of(folder / "four/model.safetensors"));
  CHECK(column_of(folder / "grows", "tokens_per_image") == Column{"5", "9", "13", "17"});
  CHECK(column_of(folder / "falls", "tokens_per_image") == Column{"17", "13", "9", "5"});
  CHECK(column_of(folder / "grows", "train_loss")[0] ==
        column_of(folder / "four", "train_loss")[0]);
  CHECK(column_of(folder / "falls", "train_loss")[0] ==
        column_of(folder / "plain", "train_loss")[0]);
  // No filter, no scores in an epoch with all patches.
  CHECK(column_of(folder / "grows", "flops")[3] == column_of(folder / "plain", "flops")[3]);
  CHECK(summary_of(folder / "grows")["select"]["kept"] == 4);
  CHECK(summary_of(folder / "grows")["select"]["kept_end"] == 16);
}

TEST_CASE("what is known before a run follows the growing share of patches") {
  const auto config = [](const std::vector<std::string>& more) {
    std::vector<std::string> all{"model.patch_size=4",  "model.img_size=16",
                                 "model.emb_size=16",   "model.depth=1",
                                 "train.batch_size=16", "train.epochs=4",
                                 "select.top_k=4",      "select.prob_decay_rate=0"};
    all.insert(all.end(), more.begin(), more.end());
    return load_config("shapes", all);
  };
  const auto flops = [](const std::optional<StepCost>& cost) {
    REQUIRE(cost);
    return static_cast<double>(cost->forward.flops() + cost->backward.flops());
  };
  const Config plain = config({}),
               grows =
                   config({"select.heuristic=random", "select.top_k_end=16", "select.prob=1.0"}),
               half = config({"select.heuristic=random", "select.top_k_end=16"});
  const double all = flops(step_cost(plain, 0));
  const std::vector<double> always = flops_by_epoch(grows, 0), sometimes = flops_by_epoch(half, 0);
  CHECK(flops_by_epoch(plain, 0) == std::vector<double>(4, all));
  REQUIRE(always.size() == 4);
  for (std::size_t e = 0; e < 4; ++e) {
    CHECK(always[e] == flops(step_cost(grows, 0, static_cast<std::int64_t>(e))));
    CHECK((e == 0 || always[e] > always[e - 1]));
    CHECK(sometimes[e] == doctest::Approx(0.5 * (always[e] + all)));
  }
  CHECK(always[3] == all);
  CHECK(flops(last_step_cost(grows, 0)) == all);
  CHECK_FALSE(last_step_cost(plain, 0));
  CHECK(memory_needed(grows) == memory_needed(plain));

  const Json counted = info(
      "shapes", small_model() + filter("4", "1.0") +
                    set({"select.prob_decay_rate=0", "select.top_k_end=16", "train.epochs=2"}));
  CHECK(counted["select"]["kept"] == 4);
  CHECK(counted["select"]["kept_end"] == 16);
  const Json phase = counted["phases"][0], whole = info("shapes", small_model())["phases"][0];
  const auto step = [](const Json& row) {
    return row["flops_per_step"]["forward"].get<double>() +
           row["flops_per_step"]["backward"].get<double>();
  };
  CHECK(phase["flops_per_step_mean"] == 0.5 * (step(phase) + step(whole)));
}

TEST_CASE("evaluation takes all patches or the best of them where asked") {
  const TempFolder folder;
  const Arguments all = filter("5", "1.0", set({"train.epochs=1"}));
  train_selecting(folder / "all", all);
  train_selecting(folder / "topk", all + set({"select.eval=topk"}));
  CHECK(contents_of(folder / "all/model.safetensors") ==
        contents_of(folder / "topk/model.safetensors"));
  CHECK(column_of(folder / "all", "test_loss") != column_of(folder / "topk", "test_loss"));
  const auto loss = [](const std::string& run) {
    const Outcome done = hgtrain({"eval", run, "--json"});
    INFO(done.err);
    REQUIRE(done.code == 0);
    return Json::parse(done.out)["loss"].get<double>();
  };
  CHECK(loss(folder / "topk") == std::stod(column_of(folder / "topk", "test_loss")[0]));
  CHECK(loss(folder / "all") == std::stod(column_of(folder / "all", "test_loss")[0]));
}

TEST_CASE("every heuristic and form and decay and way of choosing trains") {
  const TempFolder folder;
  int runs = 0;
  const auto check = [&](const Arguments& more) {
    const std::string run = folder / std::to_string(runs++);
    train_selecting(run, filter("6", "0.9", set({"train.epochs=1", "data.train_limit=32"}) + more));
    CHECK(std::stod(column_of(run, "train_loss")[0]) < 3);
  };
  for (const char* heuristic : {"contrast", "variance", "entropy"})
    for (const char* form : {"robust", "paper", "ref"})
      check(
          set({std::string("select.heuristic=") + heuristic, std::string("select.form=") + form}));
  check(set({"select.probabilistic=false"}));
  check(set({"select.decay=exp"}));
  check(set({"select.decay=ref_compound"}));
  check(set({"select.heuristic=entropy", "select.bins=32"}));
  check(set({"select.heuristic=random"}));
  check(set({"model.attention=gmm"}));
}

TEST_CASE("settings of the filter that make no sense are refused in one line") {
  const auto refused = [](const Arguments& more, const std::vector<std::string>& parts) {
    check_refused(hgtrain(Arguments{"info", "shapes"} + small_model() + more), 2, parts);
  };
  refused(keeping("17"), {"select.top_k", "1 to 16 patches, got 17"});
  refused(keeping("3") + set({"select.top_k_end=17"}), {"select.top_k_end", "1 to 16 patches"});
  refused(keeping("3") + set({"select.top_k_end=0.0"}), {"select.top_k_end", "fraction"});
  refused(keeping("0"), {"select.top_k"});
  refused(keeping("-1"), {"select.top_k"});
  refused(keeping("1.5"), {"select.top_k", "fraction"});
  refused(set({"select.heuristic=contrats"}), {"select.heuristic", "contrast, variance, entropy"});
  refused(set({"select.heuristic=variance", "model.patch_size=1"}),
          {"select.heuristic", "patch_size"});
  refused(set({"select.heuristic=contrast", "model.in_channels=2"}),
          {"select.heuristic", "in_channels"});
  const std::string random = "select.heuristic=random";
  refused(set({random, "select.probabilistic=false"}), {"select.probabilistic", "no scores"});
  refused(set({random, "select.eval=topk"}), {"select.eval", "no scores"});
  refused(set({random, "select.form=ref"}), {"select.form", "no scores"});
  refused(set({random, "select.bins=32"}), {"select.bins", "no bins"});
  refused(set({"select.heuristic=contrast", "select.bins=32"}), {"select.bins", "no bins"});
  refused(set({"select.heuristic=entropy", "select.bins=64"}), {"select.bins", "256 or 32"});
  refused(set({"select.heuristic=entropy", "select.bins=32", "model.patch_size=16"}),
          {"select.bins", "patch_size = 16"});
}

TEST_CASE("forward keeps the patches it is told to") {
  const TempFolder folder;
  train_selecting(folder / "run", set({"train.epochs=1"}));
  const Tensor images = Tensor::empty({2, 3, 16, 16});
  for (std::int64_t i = 0; i < images.numel(); ++i)
    images.data<float>()[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  const Tensor labels = Tensor::of<std::int64_t>({2}, {1, 4});
  const auto forward = [&](const NamedTensors& input, const Arguments& more = {}) {
    write_safetensors(folder / "i", input);
    std::filesystem::remove(folder / "o");
    return hgtrain(Arguments{"forward", "shapes", "--weights", folder / "run/model.safetensors",
                             "--input", folder / "i", "--output", folder / "o"} +
                   small_model() + more);
  };
  const auto output = [&](const NamedTensors& input, const Arguments& more = {}) {
    const Outcome done = forward(input, more);
    INFO(done.err);
    REQUIRE(done.code == 0);
    return contents_of(folder / "o");
  };
  const auto ids = [](const Shape& shape, std::initializer_list<std::int64_t> values) {
    return Tensor::of<std::int64_t>(shape, values);
  };
  const std::string plain = output({{"images", images}, {"labels", labels}});
  const Tensor all = ids({2, 16}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
                                   0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  CHECK(output({{"images", images}, {"labels", labels}, {"keep", all}}) == plain);

  const Tensor keep = ids({2, 3}, {2, 5, 11, 0, 1, 15}), mixed = ids({2, 3}, {5, 2, 11, 15, 1, 0});
  const std::string kept = output({{"images", images}, {"labels", labels}, {"keep", keep}});
  CHECK(kept != plain);
  CHECK(output({{"images", images}, {"labels", labels}, {"keep", mixed}}) == kept);
  CHECK(output({{"images", images}, {"labels", labels}, {"keep", keep}}, keeping("3")) == kept);
  const Safetensors out = read_safetensors(folder / "o");
  const std::vector<float> positions = out.tensors.at("grad.pos_embed").to_vector<float>();
  for (std::size_t p = 0; p < 17; ++p) {
    bool zero = true;
    for (std::size_t c = 0; c < 16; ++c) zero &= positions[p * 16 + c] == 0;
    const bool used = p == 0 || p == 1 || p == 2 || p == 3 || p == 6 || p == 12 || p == 16;
    CHECK(zero != used);
  }
  const std::string zeroed =
      output({{"images", images}, {"labels", labels}, {"keep", keep}}, set({"select.mode=zero"}));
  CHECK(zeroed != kept);
  CHECK(zeroed != plain);

  const auto refused = [&](const Tensor& bad, const std::vector<std::string>& parts) {
    check_refused(forward({{"images", images}, {"keep", bad}}), 2, parts);
    CHECK(!exists(folder / "o"));
  };
  refused(ids({2, 2}, {0, 16, 1, 2}), {"/i: ", "patch 16 for image 0", "0 to 15"});
  refused(ids({2, 2}, {0, 1, -1, 2}), {"/i: ", "patch -1 for image 1"});
  refused(ids({2, 2}, {0, 1, 2, 2}), {"/i: ", "patch 2 twice for image 1"});
  refused(ids({1, 2}, {0, 1}), {"/i: ", "keep is i64[1,2]", "i64[2,k]"});
  refused(Tensor::zeros({2, 0}, DType::i64), {"/i: ", "k from 1 to 16"});
  refused(Tensor::zeros({2, 2}), {"/i: ", "keep is f32[2,2]"});
}

TEST_CASE("predict scores an image as evaluation does") {
  const TempFolder folder;
  train_selecting(folder / "run", filter("5", "1.0", set({"train.epochs=1", "select.eval=topk"})));
  std::string bmp("BM", 2);  // 16 x 16, 24 bits, a ramp
  const auto word = [&](std::uint32_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) bmp += static_cast<char>(v >> 8 * i & 255);
  };
  word(54 + 768, 4), word(0, 4), word(54, 4), word(40, 4), word(16, 4), word(16, 4), word(1, 2);
  word(24, 2), word(0, 4), word(768, 4), word(0, 4), word(0, 4), word(0, 4), word(0, 4);
  for (int i = 0; i < 768; ++i) bmp += static_cast<char>(i * i % 251);
  put(folder / "x.bmp", bmp);
  const Outcome done = hgtrain({"predict", folder / "run", folder / "x.bmp", "--json"});
  INFO(done.err);
  REQUIRE(done.code == 0);
  const double p = Json::parse(done.out)["predictions"][0]["probability"];
  const Outcome all =
      hgtrain({"predict", folder / "run", folder / "x.bmp", "--json", "--set", "select.eval=all"});
  REQUIRE(all.code == 0);
  CHECK(p != Json::parse(all.out)["predictions"][0]["probability"].get<double>());
}
