// Runs that are killed or interrupted anywhere end, resumed, as if nothing had happened.
#include <doctest/doctest.h>
#include <signal.h>

#include "tests/support/resume.h"
#include "train/store/safetensors.h"

namespace {

using namespace hg;
using namespace hg::testing;

// Some epochs have no evaluation, and some activations are dropped.
const Arguments kUneven = set({"train.eval_every=3", "model.dropout=0.2"});

const Arguments kLonger{"--set", "train.epochs=8",     "--set", "data.train_limit=256",
                        "--set", "train.batch_size=8", "--set", "model.dropout=0.1",
                        "--set", "train.grad_clip=1.0"};

std::size_t rows_of(const std::string& run) {
  const std::size_t lines = lines_of(contents_of(run + "/metrics.csv")).size();
  return lines == 0 ? 0 : lines - 1;
}

void stop_after(int epochs, int signal, const std::string& run, const Arguments& more = kLonger) {
  const auto over = [&](Child& child) {
    if (epochs > 0) return child.await_line("epoch " + std::to_string(epochs) + "/8");
    return child.await([&] { return exists(run + "/metrics.csv"); });
  };
  stop_when(over, signal, tiny_train(run, more));
}

Outcome resume(const std::string& run, const Arguments& more = kLonger) {
  return hgtrain(tiny_train(run, more) + Arguments{"--resume"});
}

}  // namespace

TEST_CASE("killed in any epoch and resumed, a run ends with the same bits") {
  const TempFolder folder;
  const std::string whole = folder / "whole";
  REQUIRE(hgtrain(tiny_train(whole, kLonger)).code == 0);
  for (const int epochs : {0, 1, 3, 5}) {
    const std::string run = folder / ("epochs" + std::to_string(epochs));
    stop_after(epochs, SIGKILL, run);
    const Outcome resumed = resume(run);
    INFO(resumed.err);
    REQUIRE(resumed.code == 0);
    check_same_end(run, whole);
  }
}

TEST_CASE("stopped again and again at random moments, a run ends with the same bits") {
  check_survives_stops([](const std::string& run, const Arguments& more) {
    return tiny_train(run, kLonger + more);
  });
}

TEST_CASE("an interrupted run says so and goes on in the middle of its epoch") {
  const TempFolder folder;
  const std::string whole = folder / "whole";
  REQUIRE(hgtrain(tiny_train(whole, kLonger)).code == 0);
  for (const int signal : {SIGINT, SIGTERM})
    for (const int epochs : {0, 2}) {
      const std::string run = folder / fmt::format("run{}_{}", signal, epochs);
      stop_after(epochs, signal, run);
      const Json summary = summary_of(run);
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

TEST_CASE("checkpoints within an epoch change no bit and a killed run goes on from one") {
  const TempFolder folder;
  const Arguments often = kLonger + set({"run.save_minutes=1e-9"});
  const std::string rare = folder / "rare", whole = folder / "whole", run = folder / "run";
  REQUIRE(hgtrain(tiny_train(rare, kLonger + set({"run.save_minutes=0"}))).code == 0);
  REQUIRE(hgtrain(tiny_train(whole, often)).code == 0);
  CHECK(contents_of(whole + "/model.safetensors") == contents_of(rare + "/model.safetensors"));
  CHECK(timeless_metrics(whole) == timeless_metrics(rare));
  const auto saved = [&](Child& child) {
    return child.await([&] { return exists(run + "/state.safetensors"); });
  };
  stop_when(saved, SIGKILL, tiny_train(run, often));
  CHECK(rows_of(run) == 0);  // in the first epoch
  CHECK(read_safetensors(run + "/state.safetensors").metadata.at("batch") != "0");
  REQUIRE(resume(run, kLonger + set({"run.save_minutes=3"})).code == 0);  // may differ
  REQUIRE(resume(run, often).code == 0);
  check_same_end(run, whole);
}

TEST_CASE("on two threads a killed run ends with the same bits, too, and so with a teacher") {
  const TempFolder folder;
  const Arguments two = kLonger + set({"run.threads=2"});
  const std::string first = folder / "first";
  for (const Arguments& more :
       {two, two + kUneven + set({"loss.teacher=" + first, "loss.distill=0.5"})}) {
    const std::string whole = more.size() == two.size() ? first : folder / "whole",
                      run = whole + "_killed";
    REQUIRE(hgtrain(tiny_train(whole, more)).code == 0);
    stop_after(2, SIGKILL, run, more);
    REQUIRE(resume(run, more).code == 0);
    check_same_end(run, whole);
  }
}

TEST_CASE("a run that selects patches ends with the same bits when killed or interrupted") {
  const TempFolder folder;
  const Arguments select =
      kLonger + Arguments{"--set", "select.heuristic=entropy", "--set", "select.top_k=11",
                          "--set", "model.patch_size=4",       "--set", "select.eval=topk",
                          "--set", "select.top_k_end=14"} +
      kUneven;
  const std::string whole = folder / "whole", run = folder / "run";
  REQUIRE(hgtrain(tiny_train(whole, select)).code == 0);
  stop_after(1, SIGKILL, run, select);
  stop_after(3, SIGINT, run, select + Arguments{"--resume"});
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
  check_refused(resume(run, {"--set", "train.epochs=3"}), 2, {"config.toml", "epochs = 4, not 3"});
  check_refused(resume(run, {"--seed", "2"}), 2, {"config.toml", "run.seed = 1, not 2"});
  check_refused(hgtrain({"train", "shapes", "--resume"}), 2, {"--out"});
  check_refused(hgtrain({"train", "--resume", "--out", folder / "none"}), 2, {"CONFIG", "none"});
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

TEST_CASE("a run resumes by its own configuration, and says at which step") {
  const TempFolder folder;
  const std::string whole = folder / "whole", run = folder / "run";
  REQUIRE(hgtrain(tiny_train(whole, kLonger)).code == 0);
  stop_after(2, SIGKILL, run, kLonger + set({"run.joule_budget=1e9"}));
  const Outcome resumed = hgtrain({"train", "--resume", "--out", run});
  INFO(resumed.err);
  REQUIRE(resumed.code == 0);
  CHECK(lines_of(resumed.err).at(0).starts_with("goes on at step "));
  CHECK(contents_of(run + "/config.toml").find("joule_budget = 1000000000.0") != std::string::npos);
  CHECK(contents_of(run + "/model.safetensors") == contents_of(whole + "/model.safetensors"));
}

TEST_CASE("a budget stays with a run until another one is given") {
  const TempFolder folder;
  const std::string run = folder / "run";
  REQUIRE(hgtrain(tiny_train(run, set({"run.joule_budget=1e-3"}))).code == 0);
  CHECK(summary_of(run)["status"] == "budget");
  REQUIRE(resume(run, {}).code == 0);  // with CONFIG, which has none
  CHECK(summary_of(run)["status"] == "budget");
  REQUIRE(resume(run, set({"run.joule_budget=0"})).code == 0);
  CHECK(summary_of(run)["status"] == "finished");
}

TEST_CASE("a finished run goes on for more epochs") {
  const TempFolder folder;
  const std::string run = folder / "run";
  REQUIRE(hgtrain(tiny_train(run)).code == 0);
  REQUIRE(hgtrain({"train", "--resume", "--out", run, "--set", "train.epochs=6"}).code == 0);
  CHECK(rows_of(run) == 6);
  CHECK(resume(run, {"--set", "train.epochs=6"}).code == 0);
}

TEST_CASE("--resume without a run begins it and says so, as a requeued job needs") {
  const TempFolder folder;
  const std::string whole = folder / "whole", run = folder / "run";
  REQUIRE(hgtrain(tiny_train(whole)).code == 0);
  const Outcome begun = resume(run, {});
  CHECK(begun.code == 0);
  CHECK(begun.err.find(run + ": no run there yet") != std::string::npos);
  check_same_end(run, whole);
}

TEST_CASE("of two processes on one run folder the second is refused") {
  const TempFolder folder;
  const std::string run = folder / "run";
  ChildOptions in_step;
  in_step.in_step = true;
  Child first(tiny_train(run, kLonger), in_step);
  REQUIRE(first.await_line("epoch 1/8"));
  const std::string config = contents_of(run + "/config.toml");
  check_refused(hgtrain(tiny_train(run, kLonger + Arguments{"--resume"})), 2,
                {run, "in use by process"});
  check_refused(hgtrain(tiny_train(run, kLonger + Arguments{"--seed", "2"})), 2, {run});
  CHECK(contents_of(run + "/config.toml") == config);
  CHECK(first.wait().code == 0);
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
