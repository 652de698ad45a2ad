// Calls to the system that fail, and kills in place of them: whatever is hit, the program ends in
// order, and what it began goes on to the same bits. tests/fault/preload.cpp strikes.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tests/support/environment.h"
#include "tests/support/resume.h"

namespace {

using namespace hg::testing;
namespace fs = std::filesystem;

// A command that is struck, and then run again.
struct Job {
  std::function<void(const std::string& folder)> prepare;
  std::function<Arguments(const std::string& folder)> command;
  std::function<void(const std::string& folder)> check_end;
};

struct Fault {
  std::string kind, mode;
  long k = 0;
  std::string text() const { return fmt::format("{}:{}:{}", kind, k, mode); }
};

Outcome run_struck(const Job& job, const std::string& folder, const Fault& fault) {
  const Environment library("LD_PRELOAD", HG_FAULT_LIBRARY), what("HG_FAULT", fault.text()),
      where("HG_FAULT_UNDER", folder);
  return hgtrain(job.command(folder));
}

long count_calls(const Job& job, const std::string& kind) {
  const TempFolder folder;
  const std::string run = folder / "run", count = folder / "count";
  job.prepare(run);
  const Environment file("HG_FAULT_COUNT", count);
  const Outcome outcome = run_struck(job, run, {kind, "count"});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  const long calls = std::stol(contents_of(count));
  REQUIRE(calls > 0);
  return calls;
}

// All of 1 to `last` where HG_FAULT_ALL is set; else so many of them, from the first to the last.
std::vector<long> places(long last, long most) {
  if (std::getenv("HG_FAULT_ALL")) most = last;
  most = std::min(most, last);
  std::vector<long> ks;
  for (long i = 0; i < most; ++i) ks.push_back(most == 1 ? 1 : 1 + i * (last - 1) / (most - 1));
  return ks;
}

// An error is told in one line.
void check_ended_in_order(const Outcome& outcome, const std::string& mode) {
  INFO(outcome.err);
  if (mode == "kill") {
    CHECK(outcome.code == 128 + SIGKILL);
    return;
  }
  const std::vector<std::string> lines = lines_of(outcome.err);
  CHECK((outcome.code >= 0 && outcome.code <= 2));
  CHECK(lines.size() <= 2);
  if (outcome.code == 0) return;
  REQUIRE(!lines.empty());
  CHECK(lines.back().starts_with("hgtrain: "));
}

void strike(const Job& job, const Fault& fault) {
  INFO(fault.text());
  const TempFolder folder;
  const std::string run = folder / "run";
  job.prepare(run);
  check_ended_in_order(run_struck(job, run, fault), fault.mode);
  const Outcome again = hgtrain(job.command(run));
  INFO(again.err);
  CHECK(again.code == 0);
  if (again.code == 0) job.check_end(run);
}

void strike_everywhere(const Job& job, const std::vector<std::string>& kinds,
                       const std::vector<std::string>& modes, long most) {
  for (const std::string& kind : kinds) {
    const long calls = count_calls(job, kind);
    MESSAGE(kind << ": " << calls << " calls");
    for (const std::string& mode : modes)
      for (const long k : places(calls, most)) strike(job, {kind, mode, k});
  }
}

const std::vector<std::string> kFileCalls{"open", "write", "fsync", "rename"};

// Two epochs of two steps.
Arguments train_into(const std::string& run, int threads) {
  return tiny_train(run, set({"data.train_limit=32", "data.test_limit=16", "train.epochs=2",
                              "model.dropout=0.1", fmt::format("run.threads={}", threads)}) +
                             Arguments{"--quiet"});
}

// Begins in an empty folder, as there may be nothing to resume yet.
class TrainJob {
 public:
  explicit TrainJob(int threads = 1) : threads_(threads) {
    REQUIRE(hgtrain(train_into(whole_, threads)).code == 0);
  }
  Job job() const {
    return {[](const std::string& run) { fs::create_directory(run); },
            [this](const std::string& run) {
              return train_into(run, threads_) + Arguments{"--resume"};
            },
            [this](const std::string& run) { check_same_end(run, whole_); }};
  }

 protected:
  const int threads_;
  const TempFolder folder_;
  const std::string whole_ = folder_ / "whole";
};

// Goes on with a run that was killed in its second epoch.
class ResumeJob : public TrainJob {
 public:
  ResumeJob() {
    TrainJob::job().prepare(begun_);
    const long renames = count_calls(TrainJob::job(), "rename");
    const Outcome killed = run_struck(TrainJob::job(), begun_, {"rename", "kill", renames * 2 / 3});
    REQUIRE(killed.code == 128 + SIGKILL);
    REQUIRE(exists(begun_ + "/state.safetensors"));
  }
  Job job() const {
    Job job = TrainJob::job();
    job.prepare = [this](const std::string& run) {
      fs::copy(begun_, run, fs::copy_options::recursive);
    };
    return job;
  }

 private:
  const std::string begun_ = folder_ / "begun";
};

class ExperimentJob {
 public:
  ExperimentJob() { REQUIRE(hgtrain(command(whole_)).code == 0); }
  Job job() const {
    return {[](const std::string&) {}, command,
            [this](const std::string& out) { check_same_results(out); }};
  }

 private:
  static Arguments command(const std::string& out) {
    return Arguments{"experiment", "quick", "--scale",   "smoke", "--repeats", "1",
                     "--out",      out,     "--threads", "1",     "--quiet"} +
           set({"data.train_limit=20", "data.test_limit=20", "train.batch_size=20",
                "train.epochs=1", "model.depth=1", "model.emb_size=16", "model.patch_size=8"});
  }
  void check_same_results(const std::string& out) const {
    CHECK(files_in(out) == files_in(whole_));
    CHECK(Json::parse(contents_of(out + "/results.json"))["status"] == "finished");
    for (const std::string& run : files_in(whole_ + "/runs"))
      check_same_end(out + "/runs/" + run, whole_ + "/runs/" + run);
  }

  const TempFolder folder_;
  const std::string whole_ = folder_ / "whole";
};

}  // namespace

TEST_CASE("a run survives files that cannot be written") {
  const TrainJob train;
  strike_everywhere(train.job(), kFileCalls, {"fail", "stay"}, 6);
}

TEST_CASE("a run survives kills around its files") {
  const TrainJob train;
  strike_everywhere(train.job(), kFileCalls, {"kill"}, 10);
}

TEST_CASE("a resumed run survives faults and kills around its files") {
  const ResumeJob resume;
  strike_everywhere(resume.job(), kFileCalls, {"fail", "kill"}, 5);
}

TEST_CASE("a run without memory ends in one line") {
  const TrainJob train;
  strike_everywhere(train.job(), {"malloc"}, {"fail", "stay"}, 20);
}

TEST_CASE("a run without threads ends in one line") {
  const TrainJob train(2);
  strike_everywhere(train.job(), {"thread"}, {"fail", "stay", "kill"}, 10);
}

TEST_CASE("an experiment survives faults and kills around its files") {
  const ExperimentJob experiment;
  strike_everywhere(experiment.job(), {"write", "rename"}, {"fail", "kill"}, 4);
}
