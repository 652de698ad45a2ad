// hgprof's pure parts: tables, flame graph, overhead, enlarged samples.
#include <doctest/doctest.h>

#include "energy/output/flame.h"
#include "tensor/base/error.h"
#include "tensor/base/usage_error.h"
#include "tensor/op.h"
#include "tensor/ops/registry.h"
#include "tensor/run.h"
#include "tests/support/program.h"
#include "tools/hgprof/enlarge.h"
#include "tools/hgprof/overhead.h"
#include "tools/hgprof/table.h"
#include "train/statistics/sample.h"

using namespace hg;
using namespace hg::prof;
using namespace hg::testing;
using energy::LedgerRow;

namespace {

LedgerRow row(const std::string& phase, const std::string& layer, const std::string& op,
              std::int64_t uj, double seconds = 0.001, std::uint64_t flops = 1000) {
  LedgerRow r;
  r.label = {phase, layer, op};
  r.calls = 1;
  r.energy_uj = uj;
  r.low_uj = uj - 10;
  r.high_uj = uj + 10;
  r.seconds = seconds;
  r.flops = flops;
  r.kind = energy::Kind::apportioned;
  return r;
}

const std::vector<LedgerRow> kRows{row("unattributed", "", "unattributed", 500),
                                   row("profiler", "", "profiler", 100),
                                   row("forward", "blocks.0.attn", "qkv", 3000, 0.002),
                                   row("backward", "blocks.0.attn", "qkv", 4000, 0.001),
                                   row("forward", "blocks.0.attn", "av", 1000, 0.009),
                                   row("forward", "blocks.1.mlp", "fc1", 900, 0.001, 9000),
                                   row("forward", "", "head", 500)};
constexpr std::int64_t kTotal = 10000;

// The first column of each line, which figures of six characters follow.
std::vector<std::string> labels(const std::string& table) {
  std::vector<std::string> found;
  const std::size_t width = table.find('J') - 5;
  for (const std::string& line : lines_of(table)) {
    const std::string label = line.substr(0, width);
    found.push_back(label.substr(0, label.find_last_not_of(' ') + 1));
  }
  found.erase(found.begin());
  return found;
}
using Labels = std::vector<std::string>;

}  // namespace

TEST_CASE("tables sum over what they are not by and leave out what is no op's") {
  CHECK(labels(table(kRows, By::op, Sort::energy, kTotal).text(0)) ==
        Labels{"qkv", "av", "fc1", "head"});
  CHECK(labels(table(kRows, By::phase, Sort::energy, kTotal).text(0)) ==
        Labels{"forward", "backward"});
  CHECK(labels(table(kRows, By::all, Sort::time, kTotal).text(0)).front() ==
        "forward   blocks.0.attn.av");
  CHECK(labels(table(kRows, By::op, Sort::flops, kTotal).text(0)).front() == "fc1");
  CHECK(labels(table(kRows, By::op, Sort::name, kTotal).text(0)).front() == "av");
  const std::string qkv = lines_of(table(kRows, By::op, Sort::energy, kTotal).text(0))[1];
  CHECK(qkv.find("0.0070") != std::string::npos);  // J
  CHECK(qkv.find(" 70.0 ") != std::string::npos);  // % of the total
}

TEST_CASE("the tree of layers holds in each line all that is inside") {
  const std::string text = table(kRows, By::layer, Sort::energy, kTotal).text(0);
  CHECK(labels(text) == Labels{"blocks", "  0", "    attn", "      qkv", "      av", "  1",
                               "    mlp", "      fc1", "(model)", "  head"});
  CHECK(lines_of(text)[1].find("0.0089") != std::string::npos);
  CHECK(lines_of(text)[2].find("0.0080") != std::string::npos);
}

TEST_CASE("unknown columns to sum or sort by are named") {
  CHECK(message_of<UsageError>([] { by_of("block"); }) ==
        "--by: \"block\", expected layer, op or phase");
  CHECK(message_of<UsageError>([] { sort_of("x"); }) ==
        "--sort: \"x\", expected energy, time, flops or name");
}

TEST_CASE("frames of the flame graph are as wide as their joules") {
  const std::string html = energy::flame_html(kRows);
  CHECK(html.find("title=\"all: 0.01 J") != std::string::npos);
  CHECK(html.find("title=\"blocks.0.attn.qkv: 0.007 J (0.00698 to 0.00702), 70.0 %, apportioned") !=
        std::string::npos);
  CHECK(html.find("width:70.0000%") != std::string::npos);
  CHECK(html.find("unattributed") != std::string::npos);
  CHECK(energy::flame_html({}).find("No energy") != std::string::npos);
  const std::vector<LedgerRow> odd{row("forward", "<b>", "a&\"b'", 10)};
  CHECK(energy::flame_html(odd).find("&lt;b&gt;.a&amp;&quot;b&#39;") != std::string::npos);
}

TEST_CASE("a page stands alone") {
  energy::Ledger ledger;
  ledger.rows = kRows;
  ledger.energy_uj = kTotal;
  const std::string html = page("a <title>", "by nobody", ledger, 2);
  CHECK(html.find("<h1>a &lt;title&gt;</h1>") != std::string::npos);
  CHECK(html.find(">blocks.1.mlp</td>") != std::string::npos);
  CHECK(html.find("<th><button>mJ</button></th>") != std::string::npos);  // sorts
  for (const char* outside : {"http:", "https:", "src=", "@import", "url("})
    CHECK(html.find(outside) == std::string::npos);
}

TEST_CASE("overhead is the median of the pairs and outliers don't move it") {
  std::vector<double> without(10, 2.0), with(10, 2.02);
  with[3] = 9;
  without[7] = 9;
  const Difference o = difference_of(without, with);
  CHECK(o.percent == doctest::Approx(1));
  CHECK(o.low == doctest::Approx(1));
  CHECK(o.high == doctest::Approx(1));
}

TEST_CASE("no cost is negative, and one that may be 0 is not called a cost") {
  const std::vector<double> without(10, 2.0);
  const Difference quicker = difference_of(without, std::vector<double>(10, 1.9));
  CHECK(quicker.percent == 0);
  CHECK(quicker.low == 0);
  CHECK(quicker.high == 0);
  CHECK(text_of(quicker) == "nothing that can be shown");
  const Difference unclear =
      difference_of(without, {1.9, 1.98, 2.02, 2.1, 2.04, 1.96, 2.06, 2.02, 1.98, 2.0});
  CHECK(unclear.low == 0);
  CHECK(text_of(unclear) == "nothing that can be shown, at most 3.00 %");
  CHECK(text_of({1.5, 1.25, 2}) == "1.50 % (1.25 to 2.00)");
  CHECK_THROWS_AS(difference_of({2, 2, 2}, {2, 2, 2}), Error);
}

TEST_CASE("a range is relative to the median") {
  CHECK(statistics::relative_range(std::vector{2.0, 2.2, 1.9, 2.0, 2.0}) == doctest::Approx(0.15));
  CHECK(statistics::relative_range(std::vector{0.0, 0.0}) == 0);
}

TEST_CASE("every op's sample grows and still runs") {
  constexpr std::uint64_t kBytes = 1 << 18;
  int grown = 0;
  for (const OpInfo& info : registry()) {
    INFO(info.class_name);
    const Sample sample = enlarged(info.samples(), kBytes);
    const Tensors in = make_inputs(sample, DType::f32);
    run(*sample.op, in);
    if (bytes_of(in) > kBytes / 16) ++grown;
  }
  CHECK(grown > 25);
}
