// Training on several ranks: the same bits, one ledger, and an end in order whatever happens.
#include <chrono>
#include <filesystem>

#include "tests/energy/meters/moving_tree.h"
#include "tests/train/ranks/runs.h"

namespace {

using namespace hg;
using namespace hg::testing;

const Arguments kLonger = set({"train.epochs=200"});

}  // namespace

TEST_CASE("a rank that cannot load MPI's module says so, whichever it is") {
  const Runs runs;
  ChildOptions options;
  options.program = runs.folder / "hgtrain";
  std::filesystem::copy_file(hgtrain_path(), options.program);
  put(runs.folder / "libhg_mpi.so", "not a library");
  const Environment size("OMPI_COMM_WORLD_SIZE", "2"), rank("OMPI_COMM_WORLD_RANK", "1");
  const Outcome outcome = hgtrain(runs.train("run"), options);
  CHECK(outcome.code == 1);
  CHECK(lines_with("hgtrain: mpirun: cannot load libhg_mpi.so: install MPI; ", outcome.err) == 1);
}

TEST_CASE("any number of ranks: supervised, with patches selected and dropped") {
  HG_NEEDS_MPIRUN();
  Runs().check_same(set({"select.heuristic=entropy", "select.top_k=0.5"}));
  Runs().check_same(set({"select.heuristic=random", "select.top_k=0.25", "select.top_k_end=0.75",
                         "model.dropout=0.3"}));
}

TEST_CASE("any number of ranks: contrastive, in one view and two") {
  HG_NEEDS_MPIRUN();
  Runs(
      "[[phase]]\nkind = 'contrastive'\n[[phase]]\nkind = 'contrastive'\nviews = 'two_view'\n"
      "loss = 'triplet'\nnegatives = 'random'\n")
      .check_same();
}

TEST_CASE("any number of ranks: detect, and gates") {
  HG_NEEDS_MPIRUN();
  Runs("[[phase]]\nkind = 'detect'\n")
      .check_same(set({"attention.gate=head", "attention.gate_keep=0.5", "loss.gate_budget=0.1"}));
}

TEST_CASE("any number of ranks: pretrain and finetune with stored features") {
  HG_NEEDS_MPIRUN();
  Runs("[[phase]]\nkind = 'pretrain'\n[[phase]]\nkind = 'finetune'\ncache_features = true\n")
      .check_same(set({"data.augment=false"}));
}

TEST_CASE("any number of ranks: prune by learned priors, with a sparsity term") {
  HG_NEEDS_MPIRUN();
  Runs(
      "[[phase]]\nkind = 'supervised'\n[[phase]]\nkind = 'prune'\n[[phase]]\n"
      "kind = 'supervised'\n")
      .check_same(set({"model.attention=fiak", "loss.sparsity=0.1"}));
}

TEST_CASE("any number of ranks: keys learnt from passes, and how weights spread") {
  HG_NEEDS_MPIRUN();
  Runs().check_same(set({"model.attention=mgk", "attention.mode=soft_e"}));
  Runs().check_same(set({"loss.sparsity=0.1"}));
}

TEST_CASE("any number of ranks: a student of a teacher, by Muon") {
  HG_NEEDS_MPIRUN();
  const Runs student;
  const std::string teacher = student.alone("teacher");
  student.check_same(
      set({"loss.teacher=" + teacher, "loss.distill=0.5", "train.optimizer=muon", "run.lanes=4"}));
}

TEST_CASE("a run goes on with the same bits on another number of ranks") {
  HG_NEEDS_MPIRUN();
  const Runs runs;
  const std::string whole = runs.alone("whole", kLonger);
  const Outcome stopped = disturbed(2, runs.train("run", kLonger), SIGUSR1);
  INFO(stopped.err);
  CHECK(stopped.code != 0);
  CHECK(summary_of(runs.at("run"))["status"] == "interrupted");
  CHECK(stopped.out.find("interrupted") != std::string::npos);
  const std::size_t rows = column_of(runs.at("run"), "epoch").size();
  CHECK(rows < 200);
  check_same_bits(runs.shared(3, "run", kLonger + Arguments{"--resume"}), whole);
  check_same_bits(runs.alone("run", kLonger + Arguments{"--resume"}), whole);  // nothing is left
}

TEST_CASE("SIGTERM to one rank stops all of them after the same step") {
  HG_NEEDS_MPIRUN();
  const Runs runs;
  const std::string whole = runs.alone("whole", kLonger);
  const Outcome stopped = disturbed(2, runs.train("run", kLonger), SIGTERM);
  INFO(stopped.err);
  CHECK(stopped.code != 0);
  CHECK(summary_of(runs.at("run"))["status"] == "interrupted");
  check_same_bits(runs.alone("run", kLonger + Arguments{"--resume"}), whole);
}

TEST_CASE("a rank that is killed ends the run within seconds, and --resume goes on") {
  HG_NEEDS_MPIRUN();
  const Runs runs;
  const std::string whole = runs.alone("whole", kLonger);
  const auto start = std::chrono::steady_clock::now();
  const Outcome killed = disturbed(2, runs.train("run", kLonger), SIGKILL);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
  INFO(killed.err);
  CHECK(killed.code != 0);
  CHECK(lines_with("hgtrain: rank ", killed.err) <= 1);
  CHECK(lines_with("Killed", killed.err) + lines_with("has ended", killed.err) >= 1);
  std::int64_t sum = 0;
  for (const auto& row : ledger_in(runs.at("run"))) sum += row.energy_uj;
  CHECK(sum > 0);
  check_same_bits(runs.shared(3, "run", kLonger + Arguments{"--resume"}), whole);
}

TEST_CASE("what is wrong for all ranks is told in one line, and nothing is left") {
  HG_NEEDS_MPIRUN();
  const Runs runs;
  const Outcome few = hgtrain(on_ranks(3, runs.train("run", set({"run.lanes=2"}))), under_mpirun());
  CHECK(few.code == 2);
  CHECK(lines_with("hgtrain: ", few.err) == 1);
  CHECK(few.err.find("has 2 lanes for 3 ranks") != std::string::npos);
  CHECK_FALSE(exists(runs.at("run")));
  const Outcome absent = hgtrain(on_ranks(2, {"train", runs.folder / "none.toml"}), under_mpirun());
  CHECK(absent.code == 2);
  CHECK(lines_with("hgtrain: ", absent.err) == 1);
}

TEST_CASE("the ledger closes over ranks, and says what their exchange took") {
  HG_NEEDS_MPIRUN();
  const Runs runs;
  const std::string run = runs.shared(2, "run");
  const Json summary = summary_of(run);
  std::int64_t sum = 0, exchanged = 0, waits = 0;
  for (const auto& row : ledger_in(run)) {
    sum += row.energy_uj;
    if (row.label.layer != "ranks") continue;
    exchanged += row.label.op == "exchange" ? static_cast<std::int64_t>(row.bytes) : 0;
    waits += row.label.op == "wait" ? static_cast<std::int64_t>(row.calls) : 0;
  }
  CHECK(static_cast<double>(sum) == doctest::Approx(1e6 * summary["energy_j"].get<double>()));
  CHECK(summary["ranks"] == 2);
  CHECK(summary["hosts"] == 1);
  CHECK(waits > 0);
  CHECK(summary["scaling"]["exchange_bytes"] == exchanged);
  CHECK(summary["scaling"]["communication_share"].get<double>() < 1);
  CHECK(lines_of(contents_of(run + "/emissions.csv")).size() == 2);
  double epochs = 0;
  for (const std::string& joules : column_of(run, "energy_j")) epochs += std::stod(joules);
  CHECK(epochs == doctest::Approx(summary["energy_j"].get<double>()).epsilon(0.2));
}

TEST_CASE("a machine's counter is read once for all of its ranks") {
  HG_NEEDS_MPIRUN();
  const Runs runs;
  const Environment nvml("HG_NVML_LIB", "/nowhere");
  const MovingTree machine;
  const Environment root("HG_POWERCAP_ROOT", machine.root());
  const std::string run = runs.shared(3, "run", kLonger);
  const Json summary = summary_of(run);
  REQUIRE(summary["energy_kind"] == "measured");
  // 44 W. Three readers would have counted 132.
  const double watts = summary["energy_j"].get<double>() / summary["energy_seconds"].get<double>();
  CHECK(watts > 5);
  CHECK(watts < 66);
  std::int64_t sum = 0;
  for (const auto& row : ledger_in(run)) sum += row.energy_uj;
  CHECK(static_cast<double>(sum) == doctest::Approx(1e6 * summary["energy_j"].get<double>()));
}

TEST_CASE("a joule budget counts all ranks and stops them after the same step") {
  HG_NEEDS_MPIRUN();
  const Runs runs;
  const std::string whole = runs.alone("whole", kLonger);
  const std::string run = runs.shared(2, "run", kLonger + set({"run.joule_budget=0.05"}));
  const Json summary = summary_of(run);
  CHECK(summary["status"] == "budget");
  CHECK(summary["energy_j"].get<double>() >= 0.05);
  check_same_bits(
      runs.shared(3, "run", kLonger + set({"run.joule_budget=1e6"}) + Arguments{"--resume"}),
      whole);
}
