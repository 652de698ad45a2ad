// Runs that are killed or interrupted anywhere end, resumed, as if nothing had happened.
#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "tensor/random.h"
#include "tests/support/program.h"
#include "train/store/safetensors.h"

namespace {

using namespace hg;
using namespace hg::testing;

const Arguments kLonger{"--set", "train.epochs=8",      "--set",  "data.train_limit=256",
                        "--set", "train.batch_size=8",  "--set",  "model.dropout=0.1",
                        "--set", "train.grad_clip=1.0", "--quiet"};

void nap() { std::this_thread::sleep_for(std::chrono::microseconds(200)); }

std::size_t rows_of(const std::string& run) {
  const std::size_t lines = lines_of(contents_of(run + "/metrics.csv")).size();
  return lines == 0 ? 0 : lines - 1;
}

void await_rows(Child& child, const std::string& run, std::size_t rows) {
  while (child.running() && (!exists(run + "/metrics.csv") || rows_of(run) < rows)) nap();
}

// Nor energies, which go with time.
Json without_times(const std::string& run) {
  Json summary = Json::parse(contents_of(run + "/summary.json"));
  for (const char* key :
       {"seconds", "peak_rss_bytes", "energy_j", "energy_low_j", "energy_high_j",
        "energy_by_domain_j", "energy_seconds", "co2_g", "joules_per_f1", "prediction"})
    summary.erase(key);
  return summary;
}

void check_same_end(const std::string& run, const std::string& whole) {
  CHECK(contents_of(run + "/model.safetensors") == contents_of(whole + "/model.safetensors"));
  CHECK(contents_of(run + "/config.toml") == contents_of(whole + "/config.toml"));
  CHECK(timeless_metrics(run) == timeless_metrics(whole));
  CHECK(without_times(run) == without_times(whole));
  CHECK(files_in(run) == files_in(whole));
}

Outcome resume(const std::string& run, const Arguments& more = kLonger) {
  return hgtrain(tiny_train(run, more) + Arguments{"--resume"});
}

// Trains into `run` until it is interrupted with `rows` epochs done; an attempt that ended by
// itself, on a machine that slept through it, does not count.
Outcome interrupt(const std::string& run, std::size_t rows, int signal) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    std::filesystem::remove_all(run);
    Child child(tiny_train(run, kLonger));
    await_rows(child, run, rows);
    child.signal(signal);
    const Outcome outcome = child.wait();
    if (outcome.code != 0) return outcome;
  }
  return {};
}

}  // namespace

TEST_CASE("killed in any epoch and resumed, a run ends with the same bits") {
  const TempFolder folder;
  const std::string whole = folder / "whole";
  REQUIRE(hgtrain(tiny_train(whole, kLonger)).code == 0);
  for (const std::size_t rows : {0, 1, 3, 6}) {
    const std::string run = folder / ("rows" + std::to_string(rows));
    Child child(tiny_train(run, kLonger));
    await_rows(child, run, rows);
    child.signal(SIGKILL);
    child.wait();
    const Outcome resumed = resume(run);
    INFO(resumed.err);
    REQUIRE(resumed.code == 0);
    check_same_end(run, whole);
  }
}

TEST_CASE("killed again and again at random moments, a run ends with the same bits") {
  const TempFolder folder;
  const std::string whole = folder / "whole", run = folder / "run";
  REQUIRE(hgtrain(tiny_train(whole, kLonger)).code == 0);
  RandomStream random(7, "kill");
  std::filesystem::create_directory(run);
  for (int kills = 0; kills < 12; ++kills) {
    Child child(tiny_train(run, kLonger) + Arguments{"--resume"});
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(60000)));
    child.signal(SIGKILL);
    child.wait();
  }
  REQUIRE(resume(run).code == 0);
  check_same_end(run, whole);
}

TEST_CASE("an interrupted run says so and goes on in the middle of its epoch") {
  const TempFolder folder;
  const std::string whole = folder / "whole";
  REQUIRE(hgtrain(tiny_train(whole, kLonger)).code == 0);
  for (const int signal : {SIGINT, SIGTERM})
    for (const std::size_t rows : {0, 2}) {
      const std::string run = folder / "run";
      const Outcome stopped = interrupt(run, rows, signal);
      INFO(stopped.err);
      REQUIRE(stopped.code == 130);
      const Json summary = Json::parse(contents_of(run + "/summary.json"));
      CHECK(summary["status"] == "interrupted");
      CHECK(summary["accuracy"].is_null() == (rows_of(run) == 0));
      const Safetensors state = read_safetensors(run + "/state.safetensors");
      CHECK(state.metadata.at("batch") != "0");
      const Outcome resumed = resume(run);
      INFO(resumed.err);
      REQUIRE(resumed.code == 0);
      check_same_end(run, whole);
    }
}

TEST_CASE("on two threads a killed run ends with the same bits, too, and so with a teacher") {
  const TempFolder folder;
  const Arguments two = kLonger + set({"run.threads=2"});
  const std::string first = folder / "first";
  for (const Arguments& more : {two, two + set({"loss.teacher=" + first, "loss.distill=0.5"})}) {
    const std::string whole = more.size() == two.size() ? first : folder / "whole",
                      run = whole + "_killed";
    REQUIRE(hgtrain(tiny_train(whole, more)).code == 0);
    Child child(tiny_train(run, more));
    await_rows(child, run, 2);
    child.signal(SIGKILL);
    child.wait();
    REQUIRE(resume(run, more).code == 0);
    check_same_end(run, whole);
  }
}

TEST_CASE("a run that selects patches ends with the same bits when killed or interrupted") {
  const TempFolder folder;
  const Arguments select =
      kLonger + Arguments{"--set", "select.heuristic=entropy", "--set", "select.top_k=11",
                          "--set", "model.patch_size=4",       "--set", "select.eval=topk"};
  const std::string whole = folder / "whole", run = folder / "run";
  REQUIRE(hgtrain(tiny_train(whole, select)).code == 0);
  Child killed(tiny_train(run, select));
  await_rows(killed, run, 1);
  killed.signal(SIGKILL);
  killed.wait();
  Child stopped(tiny_train(run, select) + Arguments{"--resume"});
  await_rows(stopped, run, 3);
  stopped.signal(SIGINT);
  stopped.wait();
  REQUIRE(resume(run, select).code == 0);
  check_same_end(run, whole);
}

TEST_CASE("a finished run resumes to the same result") {
  const TempFolder folder;
  const std::string whole = folder / "whole", run = folder / "run";
  for (const std::string& r : {whole, run}) REQUIRE(hgtrain(tiny_train(r)).code == 0);
  REQUIRE(resume(run, {}).code == 0);
  check_same_end(run, whole);
  std::filesystem::remove(run + "/model.safetensors");  // the state holds all it needs
  REQUIRE(resume(run, {}).code == 0);
  check_same_end(run, whole);
}

TEST_CASE("resume takes no other settings, no damaged files and no missing run") {
  const TempFolder folder;
  const std::string run = folder / "run", state = run + "/state.safetensors";
  REQUIRE(hgtrain(tiny_train(run)).code == 0);
  const std::string good = contents_of(state), model = contents_of(run + "/model.safetensors");
  check_refused(resume(run, {"--set", "train.epochs=9"}), 2, {"config.toml", "settings"});
  check_refused(resume(run, {"--seed", "2"}), 2, {"config.toml", "settings"});
  check_refused(hgtrain({"train", "shapes", "--resume"}), 2, {"--out"});
  check_refused(resume(folder / "none", {}), 2, {"none"});
  CHECK(!exists(folder / "none"));

  put(state, good.substr(0, good.size() / 2));
  check_refused(resume(run, {}), 2, {"state.safetensors"});
  put(state, "");
  check_refused(resume(run, {}), 2, {"state.safetensors"});
  put(state, contents_of(run + "/model.safetensors"));
  check_refused(resume(run, {}), 2, {"state.safetensors", "metadata"});
  std::string nan = good;  // the last float of the file
  nan.replace(nan.size() - 4, 4, std::string("\0\0\xc0\x7f", 4));
  put(state, nan);
  check_refused(resume(run, {}), 2, {"state.safetensors", "nan"});
  put(state, good);

  const std::string metrics = contents_of(run + "/metrics.csv");
  put(run + "/metrics.csv", metrics.substr(0, metrics.find('\n') + 1));
  check_refused(resume(run, {}), 2, {"metrics.csv", "rows"});
  put(run + "/metrics.csv", metrics);

  const std::string config = contents_of(run + "/config.toml");
  put(run + "/config.toml", config.substr(0, config.size() / 3) + "\n[[[");
  check_refused(resume(run, {}), 2, {"config.toml"});
  put(run + "/config.toml", config);

  CHECK(contents_of(run + "/model.safetensors") == model);
  CHECK(resume(run, {}).code == 0);
}

TEST_CASE("a state that stands outside the run is refused") {
  const TempFolder folder;
  const std::string run = folder / "run", state = run + "/state.safetensors";
  REQUIRE(hgtrain(tiny_train(run)).code == 0);
  const Safetensors good = read_safetensors(state);
  for (const char* field : {"epoch", "batch", "rows", "optimizer_steps", "phase"})
    for (const char* value : {"1000000", "18446744073709551615", "x", ""}) {
      INFO(field << " = " << value);
      auto metadata = good.metadata;
      metadata[field] = value;
      write_safetensors(state, {good.tensors.begin(), good.tensors.end()}, metadata);
      check_refused(resume(run, {}), 2, {"state.safetensors"});
    }
}
