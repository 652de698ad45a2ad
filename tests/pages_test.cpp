// The pages of the programs in a real browser: no complaint of a script, nothing wider than the
// window of a desk or of a phone, tables that fit a desk. Without a browser these are skipped.
#include <doctest/doctest.h>
#include <signal.h>

#include "tests/support/browser.h"
#include "tests/support/program.h"

namespace {

using namespace hg::testing;

bool no_browser() {
  if (!browser().empty()) return false;
  MESSAGE("skipped: no Chromium here (apt-get install chromium)");
  return true;
}

void check_looks_right(const std::string& page) {
  const std::string html = contents_of(page);
  for (const int width : {1280, 500}) {
    INFO(page << " at " << width);
    const Seen seen = look_at(html, width);
    CHECK(seen.code == 0);
    CHECK(seen.console == "");
    CHECK(seen.width == width);
    CHECK(seen.page_width <= width);
    CHECK(seen.outside == "");
    if (width == 1280) CHECK(seen.scrolled == 0);
    CHECK(seen.sorted == 1);
    if (html.find("class=\"flame\"") == std::string::npos) continue;
    CHECK(seen.zoomed == 1);
    CHECK(seen.found >= 1);
  }
}

void train(const std::string& run, const Arguments& more = {}) {
  const Outcome outcome = hgtrain(tiny_train(run, more));
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
}

}  // namespace

TEST_CASE("pages on one run and on two look right in a browser") {
  if (no_browser()) return;
  const TempFolder folder;
  const std::string a = folder / "some/runs/that_has_a_rather_long_name",
                    b = folder / "other/runs/b";
  train(a);
  train(b, set({"model.attention=gmm", "train.learning_rate=0.002"}));
  check_looks_right(a + "/report.html");
  const std::string both = folder / "both.html";
  REQUIRE(hgtrain({"report", a, b, a, "--out", both}).code == 0);
  check_looks_right(both);
}

TEST_CASE("an experiment's page looks right in a browser") {
  if (no_browser()) return;
  const TempFolder folder;
  const std::string out = folder / "out";
  const Outcome outcome =
      hgtrain(Arguments{"experiment", "rq1", "--scale", "smoke", "--repeats", "3", "--out", out,
                        "--threads", "1", "--quiet"} +
              set({"data.train_limit=40", "data.test_limit=20", "train.batch_size=20",
                   "train.epochs=2", "model.depth=1", "model.emb_size=16", "model.patch_size=8"}));
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  check_looks_right(out + "/report.html");
}

TEST_CASE("hgprof's page looks right in a browser") {
  if (no_browser()) return;
  const TempFolder folder;
  const Outcome outcome =
      hgprof(Arguments{"shapes", "--steps", "2", "--html", folder / "p.html"} + tiny_model());
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  check_looks_right(folder / "p.html");
}

TEST_CASE("a watched page updates itself in a browser") {
  if (no_browser()) return;
  const TempFolder folder;
  const std::string run = folder / "run", said = folder / "said";
  train(run);
  ChildOptions options;
  options.out = said;
  Child watch({"watch", run, "--port", "0"}, options);
  REQUIRE(watch.await([&] { return contents_of(said).find('\n') != std::string::npos; }));
  const std::string line = contents_of(said);
  const Seen seen = visit(line.substr(0, line.find(' ')), 5);
  CHECK(seen.code == 0);
  CHECK(seen.console == "");
  CHECK(seen.dom.find("<p id=\"live\">Updated ") != std::string::npos);
  watch.signal(SIGINT);
  CHECK(watch.wait().code == 0);
}
