// hgprof as users run it.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "energy/books/calibration.h"
#include "energy/books/ledger.h"
#include "tests/energy/meters/powercap_tree.h"
#include "tests/support/environment.h"
#include "tests/support/program.h"

using namespace hg;
using namespace hg::testing;

namespace {

// A tiny model, in batches that two workers share.
Arguments tiny(const Arguments& more = {}) {
  return Arguments{"shapes", "--steps", "3", "--set", "train.batch_size=6"} + tiny_model() + more;
}

Json profile_of(const Arguments& more = {}) {
  const Outcome outcome = hgprof(tiny(Arguments{"--json"} + more));
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  return Json::parse(outcome.out);
}

std::int64_t parts_of(const Json& profile) {
  std::int64_t sum =
      profile["unattributed_uj"].get<std::int64_t>() + profile["profiler_uj"].get<std::int64_t>();
  for (const Json& op : profile["ops"]) sum += op["energy_uj"].get<std::int64_t>();
  return sum;
}

// A powercap tree whose package draws static power and so much for each second that programs
// started by this test compute.
class Powercap {
 public:
  Powercap(double static_w, double busy_w) {
    tree_.zone("intel-rapl:0", "package-0", "0\n");
    thread_ = std::thread([=, this] {
      double uj = 0, cpu_before = 0;
      auto before = std::chrono::steady_clock::now();
      while (!stop_) {
        const auto now = std::chrono::steady_clock::now();
        const double cpu = seconds_of_children();
        uj += static_w * std::chrono::duration<double>(now - before).count() * 1e6;
        uj += busy_w * std::max(0.0, cpu - cpu_before) * 1e6;
        before = now;
        cpu_before = std::max(cpu, cpu_before);
        tree_.set("intel-rapl:0", static_cast<std::uint64_t>(uj));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  ~Powercap() {
    stop_ = true;
    thread_.join();
  }
  const std::string& root() const { return tree_.root(); }

 private:
  // Thread time of this process's children, as the kernel's scheduler counts it.
  static double seconds_of_children() {
    namespace fs = std::filesystem;
    double sum = 0;
    const std::string tasks = "/proc/self/task";
    std::error_code gone;
    for (const auto& task : fs::directory_iterator(tasks, gone)) {
      std::istringstream children(contents_of(task.path().string() + "/children"));
      for (std::string pid; children >> pid;)
        for (const auto& thread : fs::directory_iterator("/proc/" + pid + "/task", gone)) {
          std::istringstream stat(contents_of(thread.path().string() + "/schedstat"));
          double ns = 0;
          stat >> ns;
          sum += ns * 1e-9;
        }
    }
    return sum;
  }

  PowercapTree tree_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace

TEST_CASE("a profile's parts sum to its total and name their source") {
  const Json p = profile_of();
  CHECK(p["meter"]["kind"] == "modelled");
  CHECK(p["meter"]["source"].get<std::string>() != "");
  CHECK(p["profile"] == "default");
  CHECK(p["steps"] == 3);
  CHECK(parts_of(p) == p["total"]["energy_uj"]);
  std::int64_t domains = 0, steps = 0;
  for (const auto& [name, uj] : p["total"]["domains_uj"].items()) domains += uj.get<std::int64_t>();
  for (const Json& uj : p["steps_uj"]) steps += uj.get<std::int64_t>();
  CHECK(domains == p["total"]["energy_uj"]);
  CHECK(steps <= p["total"]["energy_uj"]);
  CHECK(p["steps_uj"].size() == 3);
  CHECK(p["steps_s"].size() == 3);
  CHECK(p["overhead"]["pairs"] == 10);
  for (const char* cost : {"percent", "low", "high", "cpu_percent", "cpu_low", "cpu_high"})
    CHECK(p["overhead"][cost].get<double>() >= 0);
  double seconds = 0;
  std::uint64_t flops = 0;
  for (const Json& op : p["ops"]) {
    seconds += op["seconds"].get<double>();
    flops += op["flops"].get<std::uint64_t>();
    CHECK(op["kind"] == "modelled");
    CHECK(op["steps_uj"].size() == 3);
    double of_steps = 0;
    for (const Json& step : op["steps_uj"]) of_steps += step.get<double>();
    const double uj = op["energy_uj"].get<double>();
    CHECK(std::abs(of_steps - uj) <= 3 + 0.02 * uj);  // each step's is rounded by itself
    CHECK(op["low_uj"].get<std::int64_t>() <= op["energy_uj"].get<std::int64_t>());
    CHECK(op["high_uj"].get<std::int64_t>() >= op["energy_uj"].get<std::int64_t>());
    CHECK(op["static_uj"].get<std::int64_t>() <= op["energy_uj"].get<std::int64_t>());
  }
  CHECK(flops == p["total"]["flops"]);
  CHECK(seconds <= p["total"]["seconds"].get<double>() * 1.0001);
}

TEST_CASE("FLOPs are those that hgtrain info counts and products those of the formulas") {
  const Arguments patches{"--set", "model.patch_size=4"};
  const Json p = profile_of(patches);
  const Json info = Json::parse(
      hgtrain(Arguments{"info", "shapes", "--json"} + tiny_model() + patches).out)["flops"];
  const std::uint64_t images = 3 * 6;
  std::uint64_t forward = 0, forward_mm = 0, backward_mm = 0, qk = 0;
  for (const Json& op : p["ops"]) {
    const auto flops = op["flops"].get<std::uint64_t>(),
               mm = op["flops_matmul"].get<std::uint64_t>();
    if (op["phase"] == "forward") forward += flops, forward_mm += mm;
    if (op["phase"] == "backward") backward_mm += mm;
    if (op["phase"] == "forward" && op["op"] == "qk") qk += mm;
  }
  CHECK(forward == images * info["forward"].get<std::uint64_t>());
  CHECK(forward_mm == images * info["forward_matmul"].get<std::uint64_t>());
  CHECK(backward_mm == images * info["backward_matmul"].get<std::uint64_t>());
  const std::uint64_t tokens = 17, width = 16, depth = 1;  // 16 x 16 images in patches of 4
  CHECK(qk == images * depth * 2 * tokens * tokens * width);
}

TEST_CASE("rows go to CSV and the trace and the page are written") {
  const TempFolder folder;
  const Json p = profile_of(
      {"--csv", folder / "p.csv", "--trace", folder / "p.trace", "--html", folder / "p.html"});
  const auto rows = energy::parse_ledger_csv(contents_of(folder / "p.csv"), "p.csv");
  std::int64_t sum = 0;
  for (const auto& row : rows) sum += row.energy_uj;
  CHECK(sum == p["total"]["energy_uj"]);
  CHECK(rows[0].label.op == "unattributed");
  CHECK(rows[1].label.op == "profiler");
  std::uint64_t calls = 0;
  for (const Json& op : p["ops"]) calls += op["calls"].get<std::uint64_t>();
  CHECK(Json::parse(contents_of(folder / "p.trace"))["otherData"]["ops"] == calls);
  CHECK(contents_of(folder / "p.html").find("class=\"flame\"") != std::string::npos);
}

TEST_CASE("tables on the terminal end with the total and where it comes from") {
  for (const Arguments& by : {Arguments{}, Arguments{"--by", "layer"}, Arguments{"--by", "op"},
                              Arguments{"--by", "phase"}}) {
    const Outcome outcome = hgprof(tiny(by));
    CHECK(outcome.code == 0);
    CHECK(lines_of(outcome.err).size() == 1);
    CHECK(outcome.err.starts_with("measuring what profiling costs: 10 pairs of "));
    CHECK(outcome.out.find("costs -") == std::string::npos);
    for (const char* part : {"unattributed", "profiler", "total", "modelled", "profile \"default\"",
                             "ops cover", "profiling costs"})
      CHECK(outcome.out.find(part) != std::string::npos);
  }
}

TEST_CASE("wrong use is refused in one line") {
  const TempFolder folder;
  const auto refused = [](const Arguments& arguments, const std::vector<std::string>& parts) {
    check_refused(hgprof(arguments), 2, parts, "hgprof");
  };
  refused({}, {"CONFIG", "ops, attention, calibrate, diff"});
  refused({"no-such"}, {"no-such"});
  refused(tiny({"--by", "x"}), {"--by", "layer, op or phase"});
  refused(tiny({"--sort", "x"}), {"--sort"});
  refused(tiny({"--steps", "0"}), {"--steps"});
  refused(tiny({"--profile", folder / "none.json"}), {"none.json", "cannot read"});
  put(folder / "bad.json", "{\"format\": 3}");
  refused(tiny({"--profile", folder / "bad.json"}), {"bad.json", "format"});
  refused({"ops", "--filter", "no_such_op"}, {"--filter", "no_such_op"});
  refused({"diff", folder / "none.json", folder / "bad.json"}, {"none.json"});
  for (const char* number : {"nan", "-nan", "inf", "-1", "1e9", "much"}) {
    INFO(number);
    refused({"diff", "a", "b", "--fail-above", number}, {"--fail-above", number});
    refused({"attention", "--pruned", number}, {"--pruned", number});
    refused({"attention", "--seconds", number}, {"--seconds", number});
    refused({"attention", "--memory", number}, {"--memory", number});
    refused({"calibrate", "--out", folder / "m", "--seconds", number}, {"--seconds", number});
  }
  refused({"diff", folder / "bad.json", folder / "bad.json"}, {"bad.json", "\"ops\" is missing"});
}

TEST_CASE("a profile of energy that is given is named in the result") {
  const TempFolder folder;
  energy::Calibration c = energy::default_calibration();
  c.name = "desk of Ada";
  put(folder / "desk.json", to_json(c));
  CHECK(profile_of({"--profile", folder / "desk.json"})["profile"] == "desk of Ada");
}

TEST_CASE("a single op has figures and a spread") {
  const Outcome outcome = hgprof({"ops", "--filter", "softmax", "--json", "--threads", "1"});
  REQUIRE(outcome.code == 0);
  const Json json = Json::parse(outcome.out);
  CHECK(json["ops"].size() == 4);  // softmax, log-softmax and their gradients
  CHECK(json["meter"]["kind"] == "modelled");
  for (const Json& op : json["ops"]) {
    CHECK(op["j_per_call"].get<double>() > 0);
    CHECK(op["pj_per_flop"].get<double>() > 0);
    CHECK(op["pj_per_byte"].get<double>() > 0);
    CHECK(op["gflops_per_s"].get<double>() > 0);
    CHECK(op["gb_per_s"].get<double>() > 0);
    CHECK(op["spread"].get<double>() >= 0);
    CHECK(op["valid"] == (op["spread"].get<double>() <= 0.2));
  }
}

// A profile of ops with these joules, step by step. All have the same FLOPs.
Json steps_profile(const std::vector<std::vector<double>>& ops) {
  Json profile{{"steps", ops[0].size()}, {"total", {{"seconds", 1}}}, {"ops", Json::array()}};
  std::vector<double> total(ops[0].size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    double sum = 0;
    for (std::size_t s = 0; s < total.size(); ++s) sum += ops[i][s], total[s] += ops[i][s];
    profile["ops"].push_back({{"phase", "forward"},
                              {"layer", "a"},
                              {"op", "op" + std::to_string(i)},
                              {"calls", 1},
                              {"seconds", 1},
                              {"flops", 1000},
                              {"energy_uj", sum},
                              {"low_uj", sum},
                              {"high_uj", sum},
                              {"steps_uj", ops[i]}});
  }
  profile["unattributed_uj"] = profile["profiler_uj"] = 0;
  profile["steps_uj"] = total;
  return profile;
}

Outcome diff_of(const Json& a, const Json& b, const Arguments& more = {}) {
  const TempFolder folder;
  put(folder / "a.json", a.dump());
  put(folder / "b.json", b.dump());
  return hgprof(Arguments{"diff", folder / "a.json", folder / "b.json"} + more);
}

TEST_CASE("diff shows what changed and gates on joules") {
  const std::vector<double> steps{1000, 1004, 996, 1002, 998, 1001};
  const auto changed = [&](double factor, const Arguments& more) {
    std::vector<double> b = steps;
    for (double& uj : b) uj *= factor;
    return diff_of(steps_profile({steps, steps}), steps_profile({steps, b}), more);
  };
  const Arguments gate{"--fail-above", "10"};
  CHECK(changed(1, gate).code == 0);
  CHECK(changed(0.5, gate).code == 0);
  CHECK(changed(1.05, gate).code == 0);
  const Outcome above = changed(1.3, gate);
  CHECK(above.code == 1);
  CHECK(above.err.find("joules grew by more than 10 % and more than noise: total +15.0%, forward "
                       "a.op1 +30.0%") != std::string::npos);
  CHECK(changed(1.3, {}).code == 0);
  const Json json = Json::parse(changed(1.3, {"--json"}).out);
  CHECK(json["ops"][0]["op"] == "op1");  // what changed comes first
  CHECK(json["ops"][0]["energy_uj"]["percent"].get<double>() == doctest::Approx(30));
  CHECK(json["ops"][0]["energy_uj"]["a"].get<double>() == doctest::Approx(1000.5));
  CHECK(json["ops"][0]["energy_uj"]["a_range"] == Json{996.5, 1003.5});
  CHECK(json["ops"][0]["energy_uj"]["within_noise"] == false);
  CHECK(json["ops"][1]["energy_uj"]["within_noise"] == true);
}

TEST_CASE("what differs by noise is marked and fails no gate") {
  // Equal FLOPs. One step in B met another program; its mean is many times A's.
  const Json a =
      steps_profile({{10, 11, 9, 10, 12, 10, 9, 11}, {900, 910, 890, 905, 895, 900, 900, 901}});
  const Json b =
      steps_profile({{10, 12, 9, 1900, 11, 10, 10, 9}, {905, 900, 1100, 897, 903, 900, 899, 901}});
  const Outcome outcome = diff_of(a, b, {"--fail-above", "5"});
  INFO(outcome.out << outcome.err);
  CHECK(outcome.code == 0);
  const auto lines = lines_of(outcome.out);
  REQUIRE(lines.size() == 7);  // head, 2 ops, 2 others, total, legend
  for (const char* op : {"forward a.op0", "forward a.op1", "total"})
    for (const std::string& line : lines)
      if (line.starts_with(op)) CHECK(line.find(" ~ ") != std::string::npos);
  CHECK(outcome.out.find("+-") != std::string::npos);
  CHECK(lines.back().find("~ within noise") != std::string::npos);
  // Without the steps' figures, as earlier versions wrote: by the rows' intervals.
  const auto without_steps = [](Json p, double low, double uj, double high) {
    p.erase("steps_uj");
    for (Json& op : p["ops"]) {
      op.erase("steps_uj");
      op["low_uj"] = low, op["energy_uj"] = uj, op["high_uj"] = high;
    }
    return p;
  };
  const Json old = without_steps(a, 800, 1000, 1200);
  CHECK(diff_of(old, without_steps(b, 1100, 1400, 1700), {"--fail-above", "5"}).code == 0);
  CHECK(diff_of(old, without_steps(b, 1300, 1400, 1700), {"--fail-above", "5"}).code == 1);
}

TEST_CASE("too few steps to tell noise are no basis for a gate") {
  const Json few = steps_profile({{1000, 1001, 1002}}), more = steps_profile({{2000, 2001, 2002}});
  check_refused(diff_of(few, more, {"--fail-above", "5"}), 2, {"a.json", "6 or more"}, "hgprof");
  const Outcome shown = diff_of(few, more);
  CHECK(shown.code == 0);
  CHECK(shown.out.find("+-?") != std::string::npos);
  // twice the steps at the same joules a step: no change
  const Json six = steps_profile({{1000, 1001, 1002, 1000, 1001, 1002}});
  const Json same = Json::parse(diff_of(few, six, {"--json"}).out);
  CHECK(same["total"]["energy_uj"]["percent"].get<double>() == doctest::Approx(0));
}

TEST_CASE("one op that matters is enough to fail the gate") {
  const TempFolder folder;
  const auto profile = [](std::int64_t small, std::int64_t large) {
    const auto op = [](const char* name, std::int64_t uj) {
      return Json{{"phase", "forward"}, {"layer", "a"}, {"op", name},
                  {"calls", 1},         {"seconds", 1}, {"flops", 1},
                  {"energy_uj", uj},    {"low_uj", uj}, {"high_uj", uj}};
    };
    return Json{{"total", {{"seconds", 1}}},
                {"ops", Json::array({op("small", small), op("large", large)})},
                {"unattributed_uj", 0},
                {"profiler_uj", 0}}
        .dump();
  };
  put(folder / "a.json", profile(500, 9500));
  put(folder / "b.json", profile(900, 9100));  // 5 % of the step: it grew by 80 %
  put(folder / "c.json", profile(40, 9960));
  put(folder / "d.json", profile(80, 9920));  // too small to matter
  const auto code = [&](const char* a, const char* b) {
    return hgprof({"diff", folder / a, folder / b, "--fail-above", "20"}).code;
  };
  CHECK(code("a.json", "b.json") == 1);
  CHECK(code("b.json", "a.json") == 0);
  CHECK(code("c.json", "d.json") == 0);
}

TEST_CASE("calibrate fits the meter of the machine and other commands use the profile") {
  const TempFolder folder;
  const Powercap powercap(8, 5);
  const Environment root("HG_POWERCAP_ROOT", powercap.root());
  const Outcome outcome =
      hgprof({"calibrate", "--out", folder / "m.json", "--seconds", "0.02", "--name", "fake"});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  const energy::Calibration c = energy::parse_calibration(contents_of(folder / "m.json"), "m.json");
  CHECK(c.name == "fake");
  REQUIRE(c.domains[0]);
  // The cost of FLOPs and bytes is lost in noise; idle and busy power are what the tree was told.
  CHECK(c.domains[0]->coefficients[0] == doctest::Approx(8).epsilon(0.35));
  CHECK(c.times.ps_per_flop_mm > 0);
  const Json p = profile_of({"--profile", folder / "m.json"});
  CHECK(p["profile"] == "fake");
  CHECK(parts_of(p) == p["total"]["energy_uj"]);
}

TEST_CASE("calibrate without a meter says why it cannot") {
  const TempFolder folder;
  const Environment root("HG_POWERCAP_ROOT", folder / "none");
  const Outcome outcome = hgprof({"calibrate", "--out", folder / "m.json"});
  check_refused(outcome, 1, {"no meter measures this CPU", "rapl-powercap", "--profile"}, "hgprof");
  CHECK_FALSE(exists(folder / "m.json"));
}
