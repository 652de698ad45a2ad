// hgtrain compare, as users run it.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/program.h"

namespace {

using namespace hg;
using namespace hg::testing;

const Arguments kSmall =
    tiny_model() + set({"model.patch_size=4", "train.batch_size=4"}) + Arguments{"--threads", "1"};

Json run_json(const std::string& command, const Arguments& more) {
  const Outcome outcome = hgtrain(Arguments{command, "shapes", "--json"} + kSmall + more);
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(lines_of(outcome.out).size() == 1);
  return Json::parse(outcome.out);
}

Json compare(const std::string& attention, const Arguments& more = {}) {
  const bool steps = std::find(more.begin(), more.end(), "--steps") != more.end();
  return run_json("compare", Arguments{"--attention", attention} +
                                 (steps ? Arguments{} : Arguments{"--steps", "2"}) + more);
}

}  // namespace

TEST_CASE("variants have the parameters of info and the FLOPs of bench, and ratios to the first") {
  const Json result = compare("softmax,mgk:heads=1:dim_head=8,linformer:rows=3");
  CHECK(result["config"] == "shapes");
  CHECK(result["batch_size"] == 4);
  CHECK(result["threads"] == 1);
  CHECK(result["rounds"] == 2);
  CHECK(result["meter"]["kind"].get<std::string>() != "");
  const std::vector<Arguments> settings{
      set({"model.attention=softmax"}),
      set({"model.attention=mgk", "model.heads=1", "model.dim_head=8"}),
      set({"model.attention=linformer", "attention.rows=3"})};
  REQUIRE(result["variants"].size() == settings.size());
  const Json& first = result["variants"][0];
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const Json& v = result["variants"][i];
    INFO(v["attention"]);
    const Json info = run_json("info", settings[i]);
    const Json bench = run_json("bench", Arguments{"--steps", "1"} + settings[i]);
    CHECK(v["parameters"] == info["parameters"]);
    CHECK(v["flops_per_step"] == bench["flops_per_step"]);
    // weights and two moments of each, at least
    CHECK(v["peak_bytes"].get<double>() > 3 * 4 * v["parameters"].get<double>());
    CHECK(v["micro_f1"].is_null());
    CHECK(v["train"].is_null());
    for (const char* figure : {"parameters", "flops_per_step", "peak_bytes"})
      CHECK(v["ratios"][figure].get<double>() ==
            doctest::Approx(v[figure].get<double>() / first[figure].get<double>()));
  }
}

TEST_CASE("time and joules are medians with quartiles of the same rounds, and noise is marked") {
  const auto median = [](std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
  };
  const auto figures = {"ms_per_step", "cpu_ms_per_step", "energy_j_per_step"};
  const Json result = compare("softmax,softmax,mgk:components=8", {"--steps", "7"});
  const Json& first = result["variants"][0];
  for (const Json& v : result["variants"])
    for (const char* figure : figures) {
      INFO(v["attention"] << " " << figure);
      const std::vector<double> rounds = v["rounds"][figure], before = first["rounds"][figure];
      REQUIRE(rounds.size() == 7);
      CHECK(v[figure].get<double>() == doctest::Approx(median(rounds)));
      CHECK(v["quartiles"][figure][0].get<double>() <= v[figure].get<double>());
      CHECK(v["quartiles"][figure][1].get<double>() >= v[figure].get<double>());
      std::vector<double> ratios;
      for (std::size_t i = 0; i < rounds.size(); ++i) ratios.push_back(rounds[i] / before[i]);
      CHECK(v["ratios"][figure].get<double>() == doctest::Approx(median(ratios)));
      // 7 values: the 95 % interval is their range.
      const double low = v["ratio_intervals"][figure][0], high = v["ratio_intervals"][figure][1];
      CHECK(low == doctest::Approx(*std::min_element(ratios.begin(), ratios.end())));
      CHECK(high == doctest::Approx(*std::max_element(ratios.begin(), ratios.end())));
      CHECK(v["within_noise"][figure] == (&v != &first && low <= 1 && high >= 1));
    }
  // Too few rounds for an interval: nothing is told from noise.
  const Json few = compare("softmax,mgk:components=8")["variants"];
  for (const char* figure : figures) {
    CHECK(few[1]["ratio_intervals"][figure].is_null());
    CHECK(few[0]["within_noise"][figure] == false);
    CHECK(few[1]["within_noise"][figure] == true);
  }
}

TEST_CASE("peak memory is the variant's own, whatever stands beside it") {
  const auto peaks = [](const std::string& attention) {
    std::vector<std::uint64_t> all;
    const Json result = compare(attention);
    for (const Json& v : result["variants"]) all.push_back(v["peak_bytes"]);
    return all;
  };
  const auto alone = peaks("softmax"), beside = peaks("softmax,mgk:components=8,softmax");
  CHECK(beside[0] == alone[0]);
  CHECK(beside[2] == alone[0]);
  CHECK(beside[1] > alone[0]);
}

TEST_CASE("the table names every variant and where its figures come from") {
  const Outcome outcome = hgtrain(
      Arguments{"compare", "shapes", "--attention", "softmax,xca", "--steps", "1"} + kSmall);
  CHECK(outcome.code == 0);
  CHECK(outcome.err == "");
  const auto lines = lines_of(outcome.out);
  REQUIRE(lines.size() == 7);
  for (const char* column : {"attention", "F1", "parameters", "GFLOP", "ms", "J", "peak MB"})
    CHECK(lines[0].find(column) != std::string::npos);
  CHECK(lines[1].starts_with("softmax "));
  CHECK(lines[1].find(" - ") != std::string::npos);
  CHECK(lines[1].find(" 1.000") != std::string::npos);
  CHECK(lines[2].starts_with("xca "));
  CHECK(lines[2].find("~") != std::string::npos);
  CHECK(lines[4].find("~ within noise") != std::string::npos);
  CHECK(lines[5].find("energy: modelled by") != std::string::npos);
}

TEST_CASE("trained variants are the runs that train makes, each in its folder") {
  const TempFolder folder;
  const Arguments training =
      set({"train.epochs=1", "data.train_limit=32", "data.test_limit=32", "train.batch_size=16"});
  const Json result =
      compare("softmax,mgk:heads=1", training + Arguments{"--train", "--out", folder / "runs"});
  const Json& trained = result["variants"][1];
  CHECK(files_in(folder / "runs") == std::vector<std::string>{"mgk_heads=1", "softmax"});
  const std::string run = trained["train"]["folder"];
  const Json summary = summary_of(run);
  CHECK(trained["micro_f1"] == summary["micro_f1"]);
  CHECK(trained["macro_f1"] == summary["macro_f1"]);
  CHECK(trained["train"]["energy_j"] == summary["energy_j"]);
  const Json same = run_json("train", Arguments{"--out", folder / "same", "--quiet"} + training +
                                          set({"model.attention=mgk", "model.heads=1"}));
  CHECK(trained["macro_f1"] == same["macro_f1"]);
  CHECK(contents_of(run + "/model.safetensors") ==
        contents_of(folder / "same" + "/model.safetensors"));
}

TEST_CASE("wrong use of compare is refused in one line") {
  const auto refused = [](const Arguments& more, const std::vector<std::string>& parts) {
    check_refused(hgtrain(Arguments{"compare", "shapes"} + more), 2, parts);
  };
  refused({}, {"--attention"});
  refused({"--attention", "softmax,mgkk"}, {"model.attention", "mgkk", "did you mean \"mgk\""});
  refused({"--attention", "softmax,mgk:head=1"}, {"model.head", "model.heads"});
  refused({"--attention", "softmax:rows=3"}, {"attention.rows", "softmax", "linformer"});
  refused({"--attention", "softmax,"}, {"--attention", "NAME[:KEY=VALUE]"});
  refused({"--attention", "softmax", "--steps", "0"}, {"--steps"});
  refused({"--attention", "softmax", "--out", "x"}, {"--out", "--train"});
  refused({"--attention", "softmax", "--train", "--set", "data.name=mnist"}, {"mnist"});
}
