// info --ranks: what a step would take on several ranks.
#include "train/commands/scaling.h"

#include <doctest/doctest.h>

#include "tests/support/program.h"

namespace {

using namespace hg;
using namespace hg::testing;

const StepNeeds kNeeds{.images = 64, .lanes = 16, .parameters = 5'000'000};
const MeasuredRank kOne{.step_s = 1, .joules = 30};

}  // namespace

TEST_CASE("one rank takes what was measured, and more share it but for the exchange") {
  const Network fast{10e9, 2e-6};
  const StepForecast one = predict_step(kNeeds, kOne, fast, 1);
  CHECK(one.step_s() == doctest::Approx(1));
  CHECK(one.joules_low == doctest::Approx(30));
  CHECK(one.joules_high == doctest::Approx(30));
  CHECK(one.efficiency == doctest::Approx(1));
  const StepForecast eight = predict_step(kNeeds, kOne, fast, 8);
  CHECK(eight.compute_s == doctest::Approx(1.0 / 8));
  CHECK(eight.exchange_s == doctest::Approx(2 * 7.0 / 8 * 20e6 / 10e9 + 5 * 7 * 2e-6));
  CHECK(eight.joules_low == doctest::Approx(30));
  CHECK(eight.joules_high == doctest::Approx(30 * (1 + 8 * eight.exchange_s)));
  CHECK(eight.efficiency < 1);
  CHECK(eight.weak_efficiency == doctest::Approx(1 / (1 + eight.exchange_s)));
}

TEST_CASE("lanes that ranks share unevenly, and ranks without images") {
  const Network fast{10e9, 0};
  CHECK(predict_step(kNeeds, kOne, fast, 5).compute_s == doctest::Approx(4.0 / 16));
  CHECK(predict_step(kNeeds, kOne, fast, 32).compute_s == doctest::Approx(1.0 / 32));
  CHECK(predict_step(kNeeds, kOne, fast, 64).possible);
  CHECK_FALSE(predict_step(kNeeds, kOne, fast, 65).possible);
}

TEST_CASE("info --ranks prints the prediction beside what it measured") {
  const Arguments info =
      Arguments{"info", "shapes", "--threads", "1"} + set({"data.name=shapes"}) + tiny_model();
  const Outcome text = hgtrain(info + Arguments{"--ranks", "1,4,100000"});
  REQUIRE(text.code == 0);
  CHECK(text.out.find("measured here") != std::string::npos);
  CHECK(text.out.find("more ranks than images") != std::string::npos);
  CHECK(text.out.find("Started by mpirun or srun") != std::string::npos);
  const Outcome json = hgtrain(info + Arguments{"--ranks", "1,4", "--network", "1,50", "--json"});
  REQUIRE(json.code == 0);
  const Json scaling = Json::parse(json.out)["scaling"];
  CHECK(scaling["predicted"].size() == 2);
  CHECK(scaling["predicted"][0]["step_ms"] == scaling["measured"]["step_ms"]);
  CHECK(scaling["network"]["latency_us"] == doctest::Approx(50));
  check_refused(hgtrain(info + Arguments{"--ranks", "1,0"}), 2, {"--ranks", "1,0"});
  check_refused(hgtrain(info + Arguments{"--ranks", "1,x"}), 2, {"--ranks", "1,x"});
  check_refused(hgtrain(info + Arguments{"--ranks", "2", "--network", "10"}), 2, {"--network"});
  check_refused(hgtrain(info + Arguments{"--network", "10,2"}), 2, {"--network", "--ranks"});
}
