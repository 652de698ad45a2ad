// Runs end with the same bits on any number of threads, of training and of loading images, and
// resumed on another number of them.
#include <doctest/doctest.h>
#include <signal.h>

#include <map>

#include "energy/books/ledger.h"
#include "tests/support/resume.h"
#include "tests/train/uneven_lanes.h"

namespace {

using namespace hg;
using namespace hg::testing;

Arguments on_threads(int threads) {
  return Arguments{"--threads", std::to_string(threads)} +
         set({"data.workers=" + std::to_string(threads)});
}

struct Threads {
  explicit Threads(const std::string& phases) { put(config, kUnevenLanes + phases); }

  std::string done(const std::string& name, const Arguments& more) const {
    const Outcome outcome =
        hgtrain(Arguments{"train", config, "--out", folder / name, "--quiet"} + more);
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    return folder / name;
  }
  void check_same(const Arguments& more = {}) const {
    const std::string one = done("1", more + on_threads(1));
    for (const int threads : {2, 3, 7}) {
      INFO(threads << " threads");
      check_same_result(done(std::to_string(threads), more + on_threads(threads)), one);
    }
  }

  TempFolder folder;
  const std::string config = folder / "config.toml";
};

}  // namespace

TEST_CASE("any number of threads: supervised, with patches selected and dropped") {
  Threads("").check_same(set({"select.heuristic=entropy", "select.top_k=0.5"}));
  Threads("").check_same(set({"select.heuristic=random", "select.top_k=0.25",
                              "select.top_k_end=0.75", "model.dropout=0.3"}));
}

TEST_CASE("any number of threads: contrastive, in one view and two") {
  Threads(
      "[[phase]]\nkind = 'contrastive'\n[[phase]]\nkind = 'contrastive'\nviews = 'two_view'\n"
      "loss = 'triplet'\nnegatives = 'random'\n")
      .check_same();
}

TEST_CASE("any number of threads: detect, and gates") {
  Threads("[[phase]]\nkind = 'detect'\n")
      .check_same(set({"attention.gate=head", "attention.gate_keep=0.5", "loss.gate_budget=0.1"}));
}

TEST_CASE("any number of threads: pretrain and finetune with stored features") {
  Threads("[[phase]]\nkind = 'pretrain'\n[[phase]]\nkind = 'finetune'\ncache_features = true\n")
      .check_same(set({"data.augment=false"}));
}

TEST_CASE("any number of threads: prune by learned priors, with a sparsity term") {
  Threads(
      "[[phase]]\nkind = 'supervised'\n[[phase]]\nkind = 'prune'\n[[phase]]\n"
      "kind = 'supervised'\n")
      .check_same(set({"model.attention=fiak", "loss.sparsity=0.1"}));
}

TEST_CASE("any number of threads: a student of a teacher, in as many lanes as sizes suggest") {
  const Threads student("");
  const std::string teacher = student.done("teacher", on_threads(2));
  student.check_same(set({"loss.teacher=" + teacher, "loss.distill=0.5", "run.lanes=0"}));
}

TEST_CASE("a run goes on with the same bits on another number of threads") {
  const Arguments longer = set({"train.epochs=8"});
  const Threads threads("");
  const std::string whole = threads.done("whole", longer + on_threads(2));
  for (const int first : {1, 3}) {
    const std::string name = "cut" + std::to_string(first);
    stop_at("epoch 2/8", SIGINT,
            Arguments{"train", threads.config, "--out", threads.folder / name} + longer +
                on_threads(first));
    check_same_result(threads.done(name, longer + on_threads(7) + Arguments{"--resume"}), whole);
  }
  check_refused(hgtrain(Arguments{"train", threads.config, "--out", whole, "--resume"} + longer +
                        set({"run.lanes=4"})),
                2, {"config.toml", "settings"});
}

TEST_CASE("what every worker of the loader does is booked as loading") {
  const Threads threads("");
  for (const char* workers : {"data.workers=1", "data.workers=3"}) {
    const std::string run = threads.done(workers, set({workers, "train.batch_size=1"}));
    std::map<std::string, energy::LedgerRow> loading;
    for (const auto& row : energy::parse_ledger_csv(contents_of(run + "/ledger.csv"), "ledger.csv"))
      if (row.label.layer == "loader") loading[row.label.op] = row;
    CHECK(loading["train"].calls >= 2 * 31);
    CHECK(loading["test"].calls >= 2 * 23);
    for (const auto& [split, row] : loading) CHECK(row.seconds > 0);
  }
}
