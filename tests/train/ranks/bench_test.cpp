// info --ranks and bench under mpirun: what was predicted, beside what its ranks take together.
#include "tests/train/ranks/measured.h"

namespace {

using namespace hg;
using namespace hg::testing;

const MpiRoot kRoot;

void check_together(const Json& together, int ranks) {
  check_figures(together, ranks,
                {"step_ms", "exchange_ms", "wait_ms", "joules", "gb_per_s", "latency_us",
                 "predicted_step_ms", "predicted_exchange_ms"});
}

}  // namespace

TEST_CASE("info --ranks under mpirun has the ranks' own figures beside the prediction") {
  HG_NEEDS_MPIRUN();
  const Outcome json =
      hgtrain(on_ranks(2, measured("info", {"--ranks", "1,2,64", "--json"})), under_mpirun());
  INFO(json.err);
  REQUIRE(json.code == 0);
  const Json scaling = Json::parse(json.out)["scaling"];
  CHECK(scaling["predicted"].size() == 3);
  check_together(scaling["measured_together"], 2);
  CHECK(scaling["measured_together"]["predicted_step_ms"] == scaling["predicted"][1]["step_ms"]);
  const Outcome text = hgtrain(on_ranks(2, measured("info", {"--ranks", "2"})), under_mpirun());
  CHECK(lines_with("Measured with these 2 ranks", text.out) == 1);
  CHECK(lines_with("--network ", text.out) == 1);
  const Outcome few = hgtrain(
      on_ranks(2, measured("info", {"--ranks", "2"}) + set({"run.lanes=1"})), under_mpirun());
  CHECK(few.code == 2);
  CHECK(lines_with("hgtrain: ", few.err) == 1);
}

TEST_CASE("bench under mpirun times a step of all ranks") {
  HG_NEEDS_MPIRUN();
  const Arguments two{"--steps", "2", "--json"};
  const Outcome json = hgtrain(on_ranks(3, measured("bench", two)), under_mpirun());
  INFO(json.err);
  REQUIRE(json.code == 0);
  const Json out = Json::parse(json.out), alone = Json::parse(hgtrain(measured("bench", two)).out);
  check_together(out["measured_together"], 3);
  CHECK(out["batch_size"] == alone["batch_size"]);
  // Ranks share passes and updates; the halves of the batch are added in their exchange, uncounted.
  CHECK(out["flops_per_step"].get<double>() < alone["flops_per_step"].get<double>());
  CHECK(out["flops_per_step"].get<double>() > 0.99 * alone["flops_per_step"].get<double>());
  CHECK_FALSE(alone.contains("measured_together"));
  const Outcome eval =
      hgtrain(on_ranks(2, measured("bench", {"--steps", "2", "--eval"})), under_mpirun());
  INFO(eval.err);
  CHECK(eval.code == 0);
  CHECK(lines_with("2 ranks of 1 threads", eval.out) == 1);
}
