// hgprof attention: through the program, and its parts.
#include <doctest/doctest.h>

#include "energy/meters/choice.h"
#include "tests/support/program.h"
#include "tools/hgprof/attention_case.h"

namespace {

using namespace hg;
using namespace hg::prof;
using namespace hg::testing;

Json curves(const Arguments& more) {
  const Outcome outcome = hgprof(Arguments{"attention", "--rounds", "1", "--json"} + more);
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  return Json::parse(outcome.out);
}

CaseOptions small(const std::string& variant, std::int64_t tokens = 20) {
  CaseOptions o;
  o.attention.variant = variant;
  o.attention.heads = 1;
  o.attention.dim_head = o.attention.width = 8;
  o.attention.tokens = tokens;
  o.pruned = 0.7;
  return o;
}

}  // namespace

TEST_CASE("cores cost what the formulas say, at every length") {
  const Json result = curves({"--lengths", "40,17", "--dim", "8", "--variants",
                              "softmax,mgk,fiak_pruned,linear_elu,kerformer,linformer:rows=4,fnet,"
                              "mixer:tokens_hidden=5"});
  CHECK(result["dim"] == 8);
  CHECK(result["threads"] == 1);
  CHECK(result["pruned"] == 0.7);
  constexpr std::int64_t kDim = 8;
  const auto products = [](std::int64_t n) {  // forward, in the order of the variants
    const std::int64_t pairs = n * n - static_cast<std::int64_t>(0.7 * double(n * n) + 0.5);
    return std::vector<std::int64_t>{
        4 * n * n * kDim,
        6 * n * n * kDim,
        4 * pairs * kDim,
        4 * n * kDim * kDim,
        4 * n * kDim * kDim + 4 * n * std::max<std::int64_t>(1, n / 16),
        8 * n * 4 * kDim,
        2 * n * n * kDim + 2 * n * kDim * kDim,
        4 * n * 5 * kDim};
  };
  REQUIRE(result["variants"].size() == 8);
  for (std::size_t v = 0; v < 8; ++v)
    for (std::size_t i = 0; i < 2; ++i) {
      const std::int64_t n = i == 0 ? 17 : 40;  // ascending
      const Json& row = result["variants"][v]["lengths"][i];
      INFO(result["variants"][v]["variant"] << " " << n);
      CHECK(row["tokens"] == n);
      CHECK(row["forward"]["flops_matmul"] == products(n)[v]);
      for (const char* pass : {"forward", "training"}) {
        const Json& figures = row[pass];
        CHECK(figures["seconds"].get<double>() > 0);
        CHECK(figures["energy_j"].get<double>() >= 0);
        CHECK(figures["energy_kind"] == "modelled");
        CHECK(figures["growth"].is_null() == (i == 0));
      }
      CHECK(row["training"]["flops"] > row["forward"]["flops"]);
      CHECK(row["training"]["peak_bytes"] >= row["forward"]["peak_bytes"]);
    }
  // Scores are recomputed in softmax's gradient.
  CHECK(result["variants"][0]["lengths"][1]["training"]["flops_matmul"] == 14 * 40 * 40 * kDim);
  // Its input has a gradient, as in a model, which is all that fnet has.
  CHECK(result["variants"][6]["lengths"][1]["training"]["flops_matmul"] == 2 * products(40)[6]);
}

TEST_CASE("memory of linear variants grows linearly and that of pairwise priors as the square") {
  const Json result =
      curves({"--lengths", "512,2048", "--dim", "8", "--variants",
              "linear_elu,efficient,mlk,favor,cosformer,linformer,xca,kerformer:se=false,fiak"});
  for (const Json& variant : result["variants"]) {
    const Json& growth = variant["lengths"][1]["training"]["growth"];
    INFO(variant["variant"]);
    CHECK(growth["from_tokens"] == 512);
    const double bytes = growth["peak_bytes"];
    if (variant["variant"] == "fiak")
      CHECK(bytes > 10);
    else
      CHECK(bytes < 4.3);
    CHECK(growth["peak_bytes_exponent"].get<double>() ==
          doctest::Approx(std::log(bytes) / std::log(4.0)));
  }
}

TEST_CASE("what would take too long or too much memory is left out with the reason") {
  const auto reason = [](const Arguments& limit, const std::string& variant) {
    const Json row = curves(Arguments{"--lengths", "4096", "--variants", variant} +
                            limit)["variants"][0]["lengths"][0];
    CHECK(!row.contains("forward"));
    return row["skipped"].get<std::string>();
  };
  CHECK(reason({"--seconds", "1e-6"}, "softmax").find("--seconds 1e-06") != std::string::npos);
  CHECK(reason({"--memory", "0.1"}, "fiak").find("0.1 GB (--memory 0.1)") != std::string::npos);
  CHECK(reason({"--memory", "0.1"}, "fiak_pruned").find("0.5 GB") != std::string::npos);
  const Outcome table = hgprof({"attention", "--lengths", "16,32", "--variants", "softmax,fiak",
                                "--seconds", "1e-9", "--rounds", "1"});
  CHECK(table.code == 0);
  CHECK(table.out.find("left out: a call would take about") != std::string::npos);
}

TEST_CASE("the table of cores shows growth and the exponents of the last two lengths") {
  const Outcome table =
      hgprof({"attention", "--lengths", "16,64", "--variants", "softmax,xca", "--rounds", "1"});
  CHECK(table.code == 0);
  CHECK(table.err == "");
  for (const char* part : {"forward and backward", "GFLOP", "growth", "16 to 64", "time N^",
                           "memory N^", "modelled", "fiak_pruned lacks 70 %"})
    CHECK(table.out.find(part) != std::string::npos);
}

TEST_CASE("wrong use of attention is refused in one line") {
  const auto refused = [](const Arguments& more, const std::vector<std::string>& parts) {
    check_refused(hgprof(Arguments{"attention"} + more), 2, parts, "hgprof");
  };
  refused({"--lengths", "0"}, {"--lengths"});
  refused({"--lengths", "16,x"}, {"--lengths"});
  refused({"--variants", "softmx"}, {"softmx", "did you mean \"softmax\""});
  refused({"--variants", "ref_gmm"}, {"model.heads", "ref_gmm"});
  refused({"--variants", "xca:rows=2"}, {"attention.rows"});
  refused({"--pruned", "1.5"}, {"--pruned"});
  refused({"--dim", "0"}, {"--dim"});
}

TEST_CASE("the core is the layer without its projections") {
  // 2 N E 4X of projections: 4 of them, forward; a second key makes 5
  for (const auto& [variant, projections] : {std::pair{"softmax", 4}, std::pair{"mgk", 5}}) {
    const AttentionCase layer(small(variant));
    const std::int64_t n = 20, d = 8;
    const Cost core = core_cost(layer, Pass::forward);
    CHECK(core.flops_mm == static_cast<std::uint64_t>((projections == 5 ? 6 : 4) * n * n * d));
    CHECK(core_cost(AttentionCase(small(variant), true), Pass::training).flops() ==
          core_cost(layer, Pass::training).flops());
  }
  energy::Ledger ledger;
  const auto add = [&](const char* phase, const char* layer, const char* op) {
    energy::LedgerRow row;
    row.label = {phase, layer, op};
    row.energy_uj = 1 << ledger.rows.size();
    ledger.rows.push_back(row);
  };
  add("unattributed", "", "unattributed");
  add("forward", "attn", "qkv");
  add("forward", "attn", "qk");
  add("backward", "attn", "k2");
  add("backward", "attn.se", "matmul");
  add("forward", "", "attention");
  CHECK(core_row(ledger).energy_uj == 4 + 16);
}

TEST_CASE("a layer holds its parameters, and a call needs more") {
  const AttentionCase layer(small("fiak", 64));
  CHECK(layer.held_bytes() >= 4 * static_cast<std::uint64_t>(layer.parameters()));
  CHECK(peak_bytes(layer, Pass::forward) > layer.held_bytes());
  // the gradient of the priors
  CHECK(peak_bytes(layer, Pass::training) >= layer.held_bytes() + 4 * 64 * 64);
  const energy::MeterChoice choice = energy::open_meter();
  const CoreFigures figures = measure_core(layer, Pass::training, *choice.meter, 0.001);
  CHECK(figures.seconds > 0);
  CHECK(figures.seconds < 10);
  CHECK(figures.kind != energy::Kind::unavailable);
}
