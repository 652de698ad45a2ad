// Training on several ranks, each with an emulated device: the same bits as one rank on one device,
// gradients on their way while earlier layers go backward, and an end in order whatever happens.
#include <filesystem>

#include "tests/energy/meters/moving_tree.h"
#include "tests/train/ranks/experiments.h"
#include "tests/train/ranks/measured.h"
#include "tests/train/ranks/runs.h"

namespace {

using namespace hg;
using namespace hg::testing;

struct DeviceRuns : Runs {
  explicit DeviceRuns(const std::string& phases = "", const std::string& gpus = "3")
      : Runs(phases, HG_TRAIN_EMULATED), devices("HG_EMU_GPUS", gpus) {}
  const Environment devices;
};

const Arguments kCuda{"--device", "cuda"};
const std::vector<int> kThree{3};  // whose lanes are not one node of the tree each

// Refused in one line, under mpirun.
void check_refused_on_ranks(const DeviceRuns& runs, int ranks, const Arguments& more,
                            const std::string& reason) {
  const Outcome refused =
      hgtrain(on_ranks(ranks, runs.train("run", kCuda + more), runs.program), under_mpirun());
  INFO(refused.err);
  CHECK(refused.code == 2);
  CHECK(lines_with("hgtrain: ", refused.err) == 1);
  CHECK(refused.err.find(reason) != std::string::npos);
}

}  // namespace

TEST_CASE("ranks on GPUs: supervised, with patches selected and dropout") {
  HG_NEEDS_MPIRUN();
  DeviceRuns().check_same(kCuda + set({"select.heuristic=entropy", "select.top_k=0.5"}));
}

TEST_CASE("ranks on GPUs: gates, with boxes to find") {
  HG_NEEDS_MPIRUN();
  DeviceRuns("[[phase]]\nkind = 'detect'\n")
      .check_same(kCuda + set({"attention.gate=head", "attention.gate_keep=0.5",
                               "loss.gate_budget=0.1", "train.epochs=1"}),
                  kThree);
}

TEST_CASE("ranks on GPUs: contrastive") {
  HG_NEEDS_MPIRUN();
  DeviceRuns("[[phase]]\nkind = 'contrastive'\n")
      .check_same(kCuda + set({"train.epochs=1"}), kThree);
}

TEST_CASE("ranks on GPUs: two views by triplets, weights that spread, Muon") {
  HG_NEEDS_MPIRUN();
  DeviceRuns("[[phase]]\nkind = 'contrastive'\nviews = 'two_view'\nloss = 'triplet'\n")
      .check_same(kCuda + set({"train.epochs=1", "train.optimizer=muon"}), kThree);
  DeviceRuns().check_same(kCuda + set({"loss.sparsity=0.1", "train.epochs=1"}), kThree);
}

TEST_CASE("ranks on GPUs: without lanes of its own, a batch is one, and that is too few") {
  HG_NEEDS_MPIRUN();
  check_refused_on_ranks(DeviceRuns(), 2, set({"run.lanes=0"}), "has 1 lanes for 2 ranks");
}

TEST_CASE("ranks on GPUs: more ranks than GPUs are refused") {
  HG_NEEDS_MPIRUN();
  const DeviceRuns runs("", "2");
  check_refused_on_ranks(runs, 3, {}, "expected a GPU for each rank: rank 0 (host ");
  runs.shared(2, "two", kCuda + set({"train.epochs=1"}));
}

TEST_CASE("ranks on GPUs: GPUs of several kinds are refused") {
  HG_NEEDS_MPIRUN();
  const Environment kinds("HG_EMU_GPU_KINDS", "2");
  check_refused_on_ranks(DeviceRuns("", "2"), 2, {}, "expected the kind of GPU of rank 0 (host ");
}

TEST_CASE("ranks on GPUs: a program without NCCL's module says what it lacks") {
  HG_NEEDS_MPIRUN();
  DeviceRuns runs;
  const std::filesystem::path there(HG_TRAIN_EMULATED);
  const std::string copy = runs.folder / "hgtrain";
  std::filesystem::copy_file(there, copy);
  std::filesystem::copy_file(there.parent_path() / "libhg_mpi.so", runs.folder / "libhg_mpi.so");
  const Outcome outcome = hgtrain(on_ranks(2, runs.train("run", kCuda), copy), under_mpirun());
  INFO(outcome.err);
  CHECK(outcome.code == 2);
  CHECK(lines_with("hgtrain: ", outcome.err) == 1);
  CHECK(outcome.err.find("built without NCCL") != std::string::npos);
  CHECK(outcome.err.find("HG_NCCL") != std::string::npos);
}

TEST_CASE("gradients are exchanged while earlier layers go backward, and the ledger says so") {
  HG_NEEDS_MPIRUN();
  const DeviceRuns runs;
  const Environment log("HG_EMU_NCCL_LOG", runs.folder / "log");
  const std::string run = runs.shared(2, "run", kCuda);
  const std::string kGroup = "group ";
  std::vector<int> work;  // given to the device before each group of messages
  for (const std::string& line : lines_of(contents_of(runs.folder / "log")))
    if (line.starts_with(kGroup)) work.push_back(std::stoi(line.substr(kGroup.size())));
  constexpr std::size_t kSteps = 4;
  REQUIRE(work.size() % kSteps == 0);
  const std::size_t groups = work.size() / kSteps;
  CHECK(groups >= 8);
  for (std::size_t step = 0; step < kSteps; ++step)
    CHECK(work[(step + 1) * groups - 1] > work[step * groups] + 40);
  const Json summary = summary_of(run);
  std::int64_t sum = 0, bytes = 0, exchanges = 0;
  for (const auto& row : ledger_in(run)) {
    sum += row.energy_uj;
    if (row.label.layer != "ranks" || row.label.op != "exchange") continue;
    bytes += static_cast<std::int64_t>(row.bytes);
    exchanges += static_cast<std::int64_t>(row.calls);
  }
  CHECK(static_cast<double>(sum) == doctest::Approx(1e6 * summary["energy_j"].get<double>()));
  CHECK(exchanges == 2 * kSteps);
  CHECK(bytes > 0);
  CHECK(summary["scaling"]["exchange_bytes"] == bytes);
}

TEST_CASE("ranks on GPUs: one that is killed ends the run in one line, and --resume goes on") {
  HG_NEEDS_MPIRUN();
  const DeviceRuns runs;
  const Arguments longer = kCuda + set({"train.epochs=4"});
  const std::string whole = runs.alone("whole", longer);
  const Outcome killed = disturbed(2, runs.train("run", longer), SIGKILL, runs.program);
  INFO(killed.err);
  CHECK(killed.code != 0);
  CHECK(lines_with("hgtrain: ", killed.err) <= 1);
  CHECK(lines_with("Killed", killed.err) + lines_with("has ended", killed.err) >= 1);
  check_same_bits(runs.shared(3, "run", longer + Arguments{"--resume"}), whole);
}

TEST_CASE("ranks on GPUs: one that says nothing for run.rank_timeout ends the run") {
  HG_NEEDS_MPIRUN();
  const DeviceRuns runs;
  const Arguments longer = kCuda + set({"train.epochs=200", "run.rank_timeout=1"});
  const Outcome stopped = disturbed(2, runs.train("run", longer), SIGSTOP, runs.program);
  INFO(stopped.err);
  CHECK(stopped.code != 0);
  CHECK(lines_with("hgtrain: ", stopped.err) == 1);
  CHECK(stopped.err.find("no answer for ") != std::string::npos);
  CHECK(stopped.err.find("run.rank_timeout") != std::string::npos);
}

TEST_CASE(
    "ranks on GPUs: an exchange that takes longer than run.rank_timeout, but moves, goes on") {
  HG_NEEDS_MPIRUN();
  const Environment slow("HG_EMU_NCCL_MS", "100");
  const Arguments one = kCuda + set({"train.epochs=1", "run.rank_timeout=1"});
  DeviceRuns().shared(2, "slow", one);
}

TEST_CASE("groups of ranks on GPUs are linked once for all their runs, and end in order") {
  HG_NEEDS_MPIRUN();
  const Experiments experiments(1, HG_TRAIN_EMULATED);
  const Environment devices("HG_EMU_GPUS", "4"), log("HG_EMU_NCCL_LOG", experiments.folder / "log");
  experiments.train_alone(kCuda);
  experiments.check_on_ranks(4, 2, kCuda);
  int destroyed = 0, others = 0;
  for (const std::string& line : lines_of(contents_of(experiments.folder / "log")))
    (line == "destroyed" ? destroyed : others) += !line.starts_with("group ");
  CHECK(destroyed == 2);
  CHECK(others == 0);
}

TEST_CASE("ranks on GPUs: bench and info --ranks read the GPUs, and say nothing of the network") {
  HG_NEEDS_MPIRUN();
  const MpiRoot root;
  const Environment devices("HG_EMU_GPUS", "2"), library("HG_NVML_LIB", HG_NVML_STUB),
      mode("HG_STUB_NVML", "steady");
  const MovingTree machine;
  const Environment powercap("HG_POWERCAP_ROOT", machine.root());
  const auto outcome = [&](const Arguments& arguments) {
    const Outcome done = hgtrain(on_ranks(2, arguments + kCuda, HG_TRAIN_EMULATED), under_mpirun());
    INFO(done.err);
    REQUIRE(done.code == 0);
    return done;
  };
  // 80 W of each GPU and about 44 of the machine.
  const auto check_together = [](const Json& together) {
    check_figures(together, 2, {"step_ms", "exchange_ms", "wait_ms", "joules"});
    CHECK(together["energy_kind"] == "measured");
    const double watts = 1e3 * together["joules"].get<double>() / together["step_ms"].get<double>();
    CHECK(watts > 150);
    CHECK_FALSE(together.contains("gb_per_s"));
    CHECK_FALSE(together.contains("latency_us"));
  };
  const Json scaling =
      Json::parse(outcome(measured("info", {"--ranks", "2", "--json"})).out)["scaling"];
  check_together(scaling["measured_together"]);
  const Json& alone = scaling["measured"];
  CHECK(1e3 * alone["joules"].get<double>() / alone["step_ms"].get<double>() > 90);
  const Outcome text = outcome(measured("bench", {"--steps", "2"}));
  CHECK(lines_with("Measured with these 2 ranks", text.out) == 1);
  CHECK(lines_with("--network", text.out) == 0);
}

TEST_CASE("a GPU without a meter is named where others have one") {
  HG_NEEDS_MPIRUN();
  const DeviceRuns runs;  // NVML's stand-in knows the first two GPUs
  const Environment library("HG_NVML_LIB", HG_NVML_STUB), mode("HG_STUB_NVML", "steady");
  const Outcome refused =
      hgtrain(on_ranks(3, runs.train("run", kCuda), runs.program), under_mpirun());
  INFO(refused.err);
  CHECK(refused.code == 2);
  CHECK(lines_with("hgtrain: rank 2 ", refused.err) == 1);
  CHECK(lines_with("its GPU has no meter", refused.err) == 1);
}

TEST_CASE("each GPU is read once, by the rank that works on it, and the machine by the first") {
  HG_NEEDS_MPIRUN();
  const DeviceRuns runs("", "2");
  const Environment library("HG_NVML_LIB", HG_NVML_STUB), mode("HG_STUB_NVML", "steady");
  const MovingTree machine;
  const Environment root("HG_POWERCAP_ROOT", machine.root());
  // 80 W of each GPU.
  const auto gpu_watts = [&](const std::string& name) {
    const Json summary = summary_of(runs.shared(2, name, kCuda));
    REQUIRE(summary["energy_kind"] == "measured");
    return summary["energy_by_domain_j"]["gpu"].get<double>() /
           summary["energy_seconds"].get<double>();
  };
  CHECK(gpu_watts("two") == doctest::Approx(160).epsilon(0.2));
  const Environment same("HG_NVML_GPU", "0000:01:00.0");
  CHECK(gpu_watts("one") == doctest::Approx(80).epsilon(0.2));
}
