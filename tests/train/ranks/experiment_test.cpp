// Experiments over ranks: runs dealt out to groups of them.
#include "tests/train/ranks/experiments.h"

#include <signal.h>

using namespace hg;
using namespace hg::testing;

TEST_CASE("groups of ranks train each run of an experiment once, with the bits of one rank") {
  HG_NEEDS_MPIRUN();
  const Experiments experiments(2);
  experiments.train_alone();
  for (const int ranks : {1, 2, 4}) experiments.check_on_ranks(4, ranks);
}

TEST_CASE("ranks that make no groups of this size are refused in one line") {
  HG_NEEDS_MPIRUN();
  const Experiments experiments(1);
  const Outcome three = hgtrain(on_ranks(3, experiments.run("out", groups_of(2))), under_mpirun());
  CHECK(three.code == 2);
  CHECK(lines_with("hgtrain: ", three.err) == 1);
  CHECK(three.err.find("--ranks-per-run: expected a divisor of 3") != std::string::npos);
  check_refused(hgtrain(experiments.run("out", groups_of(2))), 2, {"--ranks-per-run"});
  CHECK_FALSE(exists(experiments.at("out")));
}

TEST_CASE("arms that have too few lanes for a group are refused before the first run") {
  HG_NEEDS_MPIRUN();
  const Experiments experiments(1);
  const Outcome few =
      hgtrain(on_ranks(2, experiments.run("out", groups_of(2) + Arguments{"--set", "run.lanes=1"})),
              under_mpirun());
  CHECK(few.code == 2);
  CHECK(lines_with("hgtrain: ", few.err) == 1);
  CHECK(few.err.find("a: a batch of phase 0 has 1 lanes for 2 ranks") != std::string::npos);
  CHECK_FALSE(exists(experiments.at("out")));
}

TEST_CASE("a rank that is killed ends all groups, and the experiment goes on where it was") {
  HG_NEEDS_MPIRUN();
  const Experiments experiments(60);
  experiments.train_alone();
  const Arguments pairs = experiments.run("pairs", groups_of(2));
  const Outcome killed = disturbed(4, pairs, SIGKILL);
  INFO(killed.err);
  CHECK(killed.code != 0);
  CHECK(lines_with("hgtrain: rank ", killed.err) <= 1);
  CHECK(lines_with("Killed", killed.err) + lines_with("has ended", killed.err) >= 1);
  const Outcome again = hgtrain(on_ranks(4, pairs + Arguments{"--quiet"}), under_mpirun());
  INFO(again.err);
  REQUIRE(again.code == 0);
  for (const std::string& name : kRuns)
    CHECK(contents_of(experiments.at("pairs/runs/" + name + "/model.safetensors")) ==
          contents_of(experiments.at("alone/runs/" + name + "/model.safetensors")));
}

TEST_CASE("a signal to one rank stops its group in order") {
  HG_NEEDS_MPIRUN();
  const Experiments experiments(200);
  const Outcome stopped = disturbed(4, experiments.run("pairs", groups_of(2)), SIGUSR1);
  INFO(stopped.err);
  CHECK(stopped.code != 0);
  CHECK(lines_with("hgtrain: ", stopped.err) == 0);
  const std::string first = experiments.at("pairs/runs/");
  int interrupted = 0;
  for (const std::string& name : files_in(first))
    interrupted += summary_of(first + name)["status"] == "interrupted";
  CHECK(interrupted == 1);
}
