// The report as a page: self-contained, escaped, bounded, well-formed. tests/pages_test.cpp looks
// at it in a browser.
#include <doctest/doctest.h>

#include "tests/support/program.h"
#include "train/report/chart.h"
#include "train/report/page.h"

namespace {

using namespace hg;
using namespace hg::testing;
using report::RunRecord;

constexpr const char* kHostile = "<script>alert('x')</script> & \"quotes\"";

energy::LedgerRow row(const std::string& phase, const std::string& layer, const std::string& op,
                      std::int64_t uj) {
  energy::LedgerRow r;
  r.label = {phase, layer, op};
  r.energy_uj = uj;
  r.static_uj = uj / 2;
  r.low_uj = uj / 2;
  r.high_uj = 2 * uj;
  r.seconds = 0.5;
  r.flops = 1000000;
  r.kind = energy::Kind::modelled;
  return r;
}

EpochRow epoch(int number) {
  EpochRow e;
  e.train_loss = 2.0 / number;
  e.test_loss = 2.1 / number;
  e.accuracy = e.micro_f1 = 0.3 * number;
  e.macro_f1 = 0.29 * number;
  e.energy_j = 10;
  e.seconds = 1.5;
  return e;
}

RunRecord run_of(const std::string& name, int blocks = 2) {
  RunRecord run;
  run.folder = "runs/" + name;
  run.name = name;
  run.status = "finished";
  run.config = "[run]\nname = \"" + name + "\"\n";
  for (int e = 1; e <= 3; ++e) run.epochs.push_back(epoch(e));
  run.rows = {row("unattributed", "", "unattributed", 1000000),
              row("profiler", "", "profiler", 10000)};
  for (int b = 0; b < blocks; ++b)
    for (const char* phase : {"forward", "backward"})
      for (const char* op : {"qkv", "qk", "softmax", "av", "proj"})
        run.rows.push_back(row(phase, "blocks." + std::to_string(b) + ".attn", op, 1000000));
  run.energy_j = {30, 20, 45};
  run.energy_kind = "modelled";
  run.energy_meter = "model";
  run.energy_source = name;
  run.energy_profile = "default";
  run.co2_g = 0.01;
  run.country = "ITA";
  run.test_images = 250;
  run.images = 3000;
  run.flops = 1'000'000'000'000;
  run.seconds = 5;
  run.prediction = {5, {29, 25, 33}};
  return run;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// The first tag that is closed out of order or not at all; "" in a well-formed page.
std::string unbalanced(const std::string& html) {
  const std::vector<std::string> empty{"meta", "link", "!doctype", "input"};
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const std::size_t end = html.find('>', at);
    if (end == std::string::npos) return html.substr(at, 40);
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /\n", 1));
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return tag;
      open.pop_back();
    } else if (!tag.ends_with('/') && std::count(empty.begin(), empty.end(), name) == 0) {
      open.push_back(name);
    }
    if (name == "script" || name == "style") {  // their text is no HTML
      at = html.find("</" + name, at);
      if (at == std::string::npos) return name;
      open.pop_back();
    }
  }
  return open.empty() ? "" : open.back();
}

void check_self_contained(const std::string& html) {
  for (const char* outside : {"http:", "https:", "src=", "@import", "url(", "//cdn"}) {
    INFO(outside);
    CHECK(count(html, outside) == 0);
  }
  CHECK(count(html, "href=") == 1);  // the empty icon, so that no browser asks for one
  CHECK(html.size() < report::kMostBytes);
}

}  // namespace

TEST_CASE("the last evaluation counts where later epochs have none") {
  RunRecord run = run_of("run");
  CHECK(run.final_f1() == run.epochs.back().micro_f1);
  run.epochs.back().test_loss = run.epochs.back().micro_f1 = run.epochs.back().macro_f1 = {};
  CHECK(run.final_f1() == run.epochs[1].micro_f1);
  CHECK(report::page({run}).find("0.6000") != std::string::npos);
  CHECK_FALSE(RunRecord{}.final_f1());
}

TEST_CASE("a report says what makes its energy doubtful") {
  RunRecord run = run_of("held up");
  CHECK(run.doubts() == "");
  run.cpu_share = 0.4;
  run.meter_notes = "package-1 stands still";
  run.energy_unsaved = "ledger.csv: cannot write: No space left on device";
  for (const char* part :
       {"The run got 40 % of the cores it asked for", "Faults of the meter: package-1 stands still",
        "Energy files lack the end of the run: ledger.csv: cannot write"})
    CHECK(report::page({run}).find(part) != std::string::npos);
}

TEST_CASE("a report is one well-formed page without the network") {
  const std::string html = report::page({run_of("plain")});
  check_self_contained(html);
  CHECK(unbalanced(html) == "");
  for (const char* part : {"Loss", "Energy against F1", "Joules by phase", "Joules by layer and op",
                           "class=\"flame\"", "prefers-color-scheme: dark", "@media print",
                           "width=device-width", "as predicted", "95 % interval"}) {
    INFO(part);
    CHECK(html.find(part) != std::string::npos);
  }
  CHECK(count(html, "Energy modelled by model, shared out by profile &quot;default&quot;") == 1);
  CHECK(html.find("20.0 J to 45.0 J") != std::string::npos);
  CHECK(html.find("Off by -3.3 %, inside its 95 % interval") != std::string::npos);
}

TEST_CASE("whatever a run is called, it is text") {
  RunRecord run = run_of(kHostile);
  run.rows.push_back(row("forward", kHostile, kHostile, 2000000));
  run.steps = {{0, 1, 1, 2.5, 1e-3}, {0, 1, 2, 2.25, 5e-4}};
  run.power = {{0.5, 1}, {1, 2}};
  run.confusion = {{0, 1, 3, kHostile, "b"}, {1, 1, 4, "b", "b"}};
  run.launches = {{kHostile, kHostile, kHostile, kHostile, kHostile, kHostile, kHostile, 2}};
  run.country = run.carbon_source = run.status = run.energy_profile = kHostile;
  for (const auto& runs : {std::vector{run}, std::vector{run, run_of("b")}}) {
    const std::string html = report::page(runs);
    CHECK(count(html, "<script>") == 1);
    CHECK(count(html, "alert('x')") == 0);
    CHECK(unbalanced(html) == "");
  }
}

TEST_CASE("runs of one name go by as much of their folders as tells them apart") {
  const auto names = [](const std::vector<std::string>& folders) {
    std::vector<RunRecord> runs;
    for (const std::string& folder : folders) {
      runs.push_back(run_of("one"));
      runs.back().folder = folder;
    }
    return report::names_of(runs);
  };
  using Names = std::vector<std::string>;
  CHECK(names({"runs/x/"}) == Names{"one"});
  CHECK(names({"a/runs/x", "a/runs/y/."}) == Names{"x", "y"});
  CHECK(names({"a/runs/x", "b/runs/x", "b/runs/y"}) == Names{"a/runs/x", "b/runs/x", "b/runs/y"});
  CHECK(names({"x", "/elsewhere/x"})[1] == "elsewhere/x");
  CHECK(names({"x", "x"}).size() == 2);  // the same twice: no end to look for
  CHECK(report::names_of({run_of("a"), run_of("b")}) == Names{"a", "b"});
}

TEST_CASE("a run's page shows steps, learning rate, power, classes and how it was made") {
  RunRecord run = run_of("full");
  for (int i = 1; i <= 1000; ++i) run.steps.push_back({0, 1, i, 1000.0 / i, 1e-3 * i});
  for (int i = 0; i < 10; ++i) run.power.push_back({0.5 * i, 10.0 * i});
  run.confusion = {
      {0, 0, 30, "disk", "disk"}, {0, 1, 10, "disk", "ring"}, {1, 1, 5, "ring", "ring"}};
  run.launches = {
      {"2026-01-02", "hgtrain train x", "/home", "hgtrain 1", "ada", "Linux", "a CPU", 2},
      {"2026-01-03", "hgtrain train --resume", "/", "hgtrain 2", "bob", "Linux", "c", 4}};
  const std::string html = report::page({run});
  check_self_contained(html);
  CHECK(unbalanced(html) == "");
  for (const char* part :
       {"Loss by step", "Learning rate", "Power over time", "after 1.0 s: 20.0 W",
        "Confusion matrix", "10 of 40 images of disk were taken for ring, 25.0 %",
        "hgtrain train x", "ada", "Resumed", "a CPU; the engine used 2 of them"}) {
    INFO(part);
    CHECK(html.find(part) != std::string::npos);
  }
  for (int c = 0; c < 40; ++c)
    run.confusion.push_back({c, (c + 1) % 40, c + 1, "c" + std::to_string(c), "d"});
  CHECK(report::page({run}).find("Classes mixed up most") != std::string::npos);
}

TEST_CASE("runs that are compared show the settings they differ in") {
  std::vector<RunRecord> runs{run_of("a"), run_of("b")};
  CHECK(report::page(runs).find("Settings that differ") == std::string::npos);  // not known
  runs[0].settings = load_config("shapes", {"train.learning_rate=0.25"});
  runs[1].settings = load_config("shapes", {"model.attention=gmm"});
  const std::string html = report::page(runs);
  CHECK(html.find("<th>train.learning_rate</th><td>0.25</td>") != std::string::npos);
  CHECK(html.find("<th>model.attention</th><td>&quot;softmax&quot;</td><td>&quot;gmm&quot;</td>") !=
        std::string::npos);
  CHECK(html.find("<th>train.batch_size") == std::string::npos);
  CHECK(unbalanced(html) == "");
}

TEST_CASE("many points become means of neighbours") {
  std::vector<report::Point> points;
  for (int i = 0; i < 10; ++i) points.push_back({1.0 * i, 2.0 * i, std::to_string(i)});
  const std::vector<report::Point> few = report::thinned(points, 3);
  REQUIRE(few.size() == 3);
  CHECK(few[0].x == doctest::Approx(1));   // 0, 1, 2
  CHECK(few[2].y == doctest::Approx(15));  // 6 to 9
  CHECK(few[2].note == "9");
  CHECK(report::thinned(points, 10).size() == 10);
}

TEST_CASE("several runs stand side by side and those of one name go by their folders") {
  const std::string html = report::page({run_of("a"), run_of("b"), run_of("a")});
  check_self_contained(html);
  CHECK(unbalanced(html) == "");
  CHECK(html.find("3 runs side by side") != std::string::npos);
  CHECK(html.find("runs/a") != std::string::npos);
  CHECK(count(html, "class=\"flame\"") == 3);
}

TEST_CASE("a page of many deep runs stays below its limit and says what it left out") {
  std::vector<RunRecord> runs;
  for (int i = 0; i < 30; ++i) runs.push_back(run_of("deep" + std::to_string(i), 48));
  const std::string html = report::page(runs);
  CHECK(html.size() <= report::kMostBytes);
  CHECK(html.find("left out to keep the page small") != std::string::npos);
  CHECK(unbalanced(html) == "");
}

TEST_CASE("a run without epochs or energy or summary still has a page") {
  RunRecord run = run_of("empty");
  run.epochs.clear();
  run.rows.clear();
  run.energy_j = {};
  run.prediction = {};
  run.energy_meter = "";
  const std::string html = report::page({run});
  CHECK(unbalanced(html) == "");
  CHECK(html.find("There is no such figure yet") != std::string::npos);
  CHECK(html.find("nan") == std::string::npos);
}

TEST_CASE("ticks are round and inside and not too many") {
  using report::ticks;
  CHECK(ticks(0, 10, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(ticks(0.9, 4.1, 6, true) == std::vector<double>{1, 2, 3, 4});
  CHECK(ticks(1, 1, 5).empty());
  CHECK(ticks(0, 1e6, 5).size() <= 6);
  for (const double t : ticks(-0.013, 0.27, 5)) {
    CHECK(t >= -0.013);
    CHECK(t <= 0.27);
  }
}

TEST_CASE("a chart of one epoch has finite coordinates") {
  const std::string svg =
      report::line_chart({"epoch", "loss", true, false}, {{"a", {{1, 0, "note"}}}});
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
  CHECK(svg.find("note") != std::string::npos);
}

TEST_CASE("hgtrain report writes pages and refuses what is no run") {
  const TempFolder folder;
  const std::string run = folder / "run", out = folder / "page.html";
  REQUIRE(hgtrain(tiny_train(run, set({"run.name=two words"}) + Arguments{"--quiet"})).code == 0);
  const std::string own = contents_of(run + "/report.html");
  check_self_contained(own);
  CHECK(unbalanced(own) == "");
  const Outcome written = hgtrain({"report", run, run, "--out", out});
  CHECK(written.code == 0);
  CHECK(written.out == out + "\n");
  CHECK(contents_of(out).find("2 runs") != std::string::npos);
  for (const char* part : {"Loss by step", "Learning rate", "Confusion matrix",
                           "train shapes --out", "--set &#39;run.name=two words&#39; --quiet"})
    CHECK(own.find(part) != std::string::npos);
  std::filesystem::remove(run + "/summary.json");  // as a kill leaves it
  CHECK(hgtrain({"report", run}).code == 0);
  CHECK(contents_of(run + "/report.html").find("not ended") != std::string::npos);

  check_refused(hgtrain({"report", folder / "none"}), 2, {"none", "no such run folder"});
  check_refused(hgtrain({"report", folder.path()}), 2, {"not a run folder"});
  const std::string ledger = contents_of(run + "/ledger.csv");
  put(run + "/ledger.csv", ledger.substr(0, ledger.size() - 5));
  check_refused(hgtrain({"report", run}), 2, {"ledger.csv", "cut short"});
  put(run + "/ledger.csv", ledger);
  put(run + "/summary.json", "{\"energy_j\": \"much\"}");
  check_refused(hgtrain({"report", run}), 2, {"summary.json", "energy_j", "expected a number"});
  put(run + "/summary.json", "[");
  check_refused(hgtrain({"report", run}), 2, {"summary.json", "JSON"});
}
