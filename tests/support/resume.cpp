#include "tests/support/resume.h"

#include <doctest/doctest.h>

#include <signal.h>
#include <cstring>

#include "tensor/random.h"

namespace hg::testing {

std::string tensors_in(const std::string& path) {
  const std::string bytes = contents_of(path);
  std::uint64_t header = 0;
  REQUIRE(bytes.size() > sizeof header);
  std::memcpy(&header, bytes.data(), sizeof header);
  return bytes.substr(sizeof header + header);
}

namespace {

Json without_times(const std::string& run) {
  Json summary = summary_of(run);
  for (const char* key : {"seconds", "peak_rss_bytes", "energy_j", "energy_low_j", "energy_high_j",
                          "energy_by_domain_j", "energy_seconds", "co2_g", "joules_per_f1",
                          "idle_w", "prediction", "cpu_share", "energy_unsaved"})
    summary.erase(key);
  return summary;
}

void check_trains(const Arguments& arguments) {
  const Outcome outcome = hgtrain(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
}

}  // namespace

void stop_when(const std::function<bool(Child&)>& event, int signal, const Arguments& arguments) {
  ChildOptions options;
  options.in_step = true;
  Child child(arguments, options);
  if (event(child)) child.signal(signal);
  const Outcome outcome = child.wait();
  INFO(outcome.err);
  REQUIRE(outcome.code == (signal == SIGKILL ? 128 + SIGKILL : 130));
}

void stop_at(const std::string& part, int signal, const Arguments& arguments) {
  stop_when([&](Child& child) { return child.await_line(part); }, signal, arguments);
}

void check_same_result(const std::string& run, const std::string& whole) {
  CHECK(contents_of(run + "/model.safetensors") == contents_of(whole + "/model.safetensors"));
  CHECK(tensors_in(run + "/state.safetensors") == tensors_in(whole + "/state.safetensors"));
  CHECK(timeless_metrics(run) == timeless_metrics(whole));
  CHECK(without_times(run) == without_times(whole));
  for (const char* exact : {"/steps.csv", "/confusion.csv"}) {
    CHECK(exists(run + exact) == exists(whole + exact));
    CHECK(contents_of(run + exact) == contents_of(whole + exact));
  }
  CHECK(files_in(run) == files_in(whole));
}

void check_same_end(const std::string& run, const std::string& whole) {
  check_same_result(run, whole);
  CHECK(contents_of(run + "/config.toml") == contents_of(whole + "/config.toml"));
}

void check_survives_stops(const TrainInto& train, int stops) {
  const TempFolder folder;
  const std::string whole = folder / "whole", run = folder / "run";
  check_trains(train(whole, {}));
  std::filesystem::create_directory(run);
  RandomStream random(7, "stop");
  for (int i = 0; i < stops; ++i) {
    Child child(train(run, {"--resume"}));
    child.await_cpu_time(std::chrono::microseconds(random.below(60000)));
    child.signal(i % 2 == 0 ? SIGKILL : SIGINT);
    child.wait();
  }
  for (int again = 0; again < 2; ++again) {  // the second time there is nothing left to do
    check_trains(train(run, {"--resume"}));
    check_same_end(run, whole);
  }
}

}  // namespace hg::testing
