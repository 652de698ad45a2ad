#include "energy/books/ledger.h"

#include <doctest/doctest.h>

#include "tensor/base/error.h"
#include "tests/energy/meters/fake_meter.h"
#include "tests/support/temp_folder.h"

using namespace hg;
using namespace hg::testing;

namespace {

LedgerRow row(const std::string& op, std::int64_t uj) {
  LedgerRow r;
  r.label = {"forward", "blocks.3.attn", op};
  r.calls = 2;
  r.seconds = 0.125;
  r.flops = 10;
  r.bytes = 20;
  r.energy_uj = uj;
  r.static_uj = uj / 2;
  r.kind = Kind::apportioned;
  r.low_uj = uj - 1;
  r.high_uj = uj + 1;
  return r;
}

std::string ledger_refusal(const std::string& text) {
  return message_of<Error>([&] { parse_ledger_csv(text, "ledger.csv"); });
}

}  // namespace

TEST_CASE("ledger.csv has the columns users rely on and reads back") {
  const std::string text = ledger_csv({row("qkv", 1000), row("qk", 7)});
  CHECK(text ==
        "phase,layer,op,calls,seconds,flops,bytes,energy_uj,static_uj,kind,low_uj,high_uj\n"
        "forward,blocks.3.attn,qkv,2,0.125,10,20,1000,500,apportioned,999,1001\n"
        "forward,blocks.3.attn,qk,2,0.125,10,20,7,3,apportioned,6,8\n");
  CHECK(ledger_csv(parse_ledger_csv(text, "ledger.csv")) == text);
}

TEST_CASE("a damaged ledger.csv is refused in one line") {
  const std::string good = ledger_csv({row("qkv", 1000)});
  CHECK(ledger_refusal("a,b\n").find("expected the columns phase,layer") != std::string::npos);
  CHECK(ledger_refusal(good.substr(0, good.size() - 1)) ==
        "ledger.csv: line 2 has no end: the file is cut short");
  CHECK(ledger_refusal(good + "1,2,3\n") == "ledger.csv: line 3: expected 12 fields, got 3");
  CHECK(ledger_refusal(ledger_csv({})) == "ledger.csv: holds no rows of a ledger");
  std::string wrong = good;
  wrong.replace(wrong.find("1000"), 4, "1e3x");
  CHECK(ledger_refusal(wrong) == "ledger.csv: line 2: energy_uj is \"1e3x\", expected a number");
  wrong = good;
  wrong.replace(wrong.find("1000"), 4, "9223372036854775807");
  CHECK(ledger_refusal(wrong).find("is 9223372036854775807, expected 0 or more, at most") !=
        std::string::npos);
  wrong = good;
  wrong.replace(wrong.find("apportioned"), 11, "guessed");
  CHECK(ledger_refusal(wrong) == "ledger.csv: \"guessed\" is no kind of energy");
}

TEST_CASE("a ledger.csv that no run can have written is refused") {
  const auto refusal = [](auto change) {
    LedgerRow changed = row("qkv", 1000);
    change(changed);
    return ledger_refusal(ledger_csv({row("qk", 7), changed, row("av", 7)}));
  };
  const auto names = [](const std::string& text, const char* what) {
    INFO(text);
    CHECK(text.starts_with(std::string("ledger.csv: ") + what + " of forward blocks.3.attn "));
    CHECK(text.find('\n') == std::string::npos);
  };
  names(refusal([](LedgerRow& r) { r.energy_uj = -1; }), "energy_uj");
  names(refusal([](LedgerRow& r) { r.energy_uj = INT64_MAX; }), "energy_uj");
  names(refusal([](LedgerRow& r) { r.energy_uj = 1'000'000'000'000'000'000; }), "energy_uj");
  names(refusal([](LedgerRow& r) { r.static_uj = -5; }), "static_uj");
  names(refusal([](LedgerRow& r) { r.low_uj = INT64_MIN; }), "low_uj");
  names(refusal([](LedgerRow& r) { r.high_uj = INT64_MAX; }), "high_uj");
  names(refusal([](LedgerRow& r) { r.flops = UINT64_MAX; }), "flops");
  names(refusal([](LedgerRow& r) { r.calls = UINT64_MAX - 1; }), "calls");
  names(refusal([](LedgerRow& r) { r.seconds = -1; }), "seconds");
}

TEST_CASE("a ledger whose rows don't sum to the meter is refused") {
  Ledger ledger;
  ledger.rows = {row("qkv", 1000), row("qk", 7)};
  ledger.rows[0].domain_uj = {1000, 0, 0};
  ledger.rows[1].domain_uj = {0, 7, 0};
  ledger.energy_uj = 1007;
  ledger.domain_uj = {1000, 7, std::nullopt};
  check(ledger);
  ledger.domain_uj = {1001, 6, std::nullopt};
  CHECK(message_of<Error>([&] { check(ledger); }) ==
        "ledger: does not close: rows of package sum to 1000 uJ, the meter to 1001 uJ");
  ledger.energy_uj = 1008;
  CHECK(message_of<Error>([&] { check(ledger); }) ==
        "ledger: does not close: rows sum to 1007 uJ, the meter to 1008 uJ");
}

TEST_CASE("a resumed run adds its rows to those it had") {
  std::vector<LedgerRow> rows{row("qkv", 1000)};
  LedgerRow modelled = row("qkv", 5);
  modelled.kind = Kind::modelled;
  add_rows(rows, {modelled, row("av", 3)});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].energy_uj == 1005);
  CHECK(rows[0].calls == 4);
  CHECK(rows[0].kind == Kind::modelled);  // the sum is as good as its worst part
  CHECK(rows[1].label.op == "av");
}

TEST_CASE("rows say their time over the workers and what is no op's fills the wall time") {
  RowTable labels;
  const RowId qk = labels.find_or_add({"forward", "attn", "qk"});
  Attribution a(default_calibration(), 2, {1, 0});
  MeterSample s;
  s.reading.domains[0] = counted(0);
  a.start(s);
  a.add({.start_ns = 0, .end_ns = 1'000'000'000, .row = qk});
  s.reading.time_ns = 1'000'000'000;
  s.reading.domains[0] = counted(1'000'000);
  s.cpu_ns = 1'500'000'000;
  s.own_ns = 200'000'000;
  a.boundary(s);
  a.close(INT64_MAX);
  const Ledger ledger = make_ledger(a, labels, {Kind::modelled, "model", "a table", "default"});
  check(ledger);
  CHECK(ledger.seconds == doctest::Approx(1));
  CHECK(ledger.rows[qk].seconds == doctest::Approx(0.5));
  CHECK(ledger.covered_seconds() == doctest::Approx(0.5));
  CHECK(ledger.rows[kProfiler].seconds == doctest::Approx(0.1));
  CHECK(ledger.rows[kUnattributed].seconds == doctest::Approx(0.4));
  CHECK(ledger.rows[qk].kind == Kind::modelled);
  CHECK(ledger.rows[qk].low_uj < ledger.rows[qk].energy_uj);
  CHECK(ledger.rows[qk].high_uj > ledger.rows[qk].energy_uj);
  CHECK_FALSE(ledger.domain_uj[1]);
}

TEST_CASE("labels: a leaf is one row and a gradient goes by its forward op") {
  CHECK(row_op({"a.qkv", "a", "qkv"}, "linear", "bias") == "qkv");
  CHECK(row_op({"a", "a", ""}, "attention", "qk") == "qk");
  CHECK(row_op({"a", "a", ""}, "softmax_backward", "") == "softmax");
}

TEST_CASE("a scope has the rows of its layers and leaves, and of no other that begins alike") {
  Ledger ledger;
  const auto add = [&](const char* phase, const char* layer, const char* op, std::int64_t uj) {
    LedgerRow& r = ledger.rows.emplace_back(row(op, uj));
    r.label = {phase, layer, op};
  };
  add("unattributed", "", "unattributed", 1);
  add("profiler", "", "profiler", 2);
  add("forward", "blocks.1.attn", "qkv", 10);
  add("backward", "blocks.1.attn", "qkv", 20);
  add("forward", "blocks.1", "norm1", 40);
  add("forward", "blocks.10", "norm1", 80);
  add("forward", "", "head", 160);
  CHECK(ledger.scope("blocks.1").energy_uj == 70);
  CHECK(ledger.scope("blocks.1").calls == 6);
  CHECK(ledger.scope("blocks.1.attn.qkv").energy_uj == 30);
  CHECK(ledger.scope("blocks").energy_uj == 150);
  CHECK(ledger.scope("head").energy_uj == 160);
  CHECK(ledger.scope("").energy_uj == 310);
  CHECK(ledger.scope("unattributed").calls == 0);
  CHECK(ledger.scope("block").calls == 0);
  CHECK(ledger.scope("blocks.1").kind == Kind::apportioned);
}
