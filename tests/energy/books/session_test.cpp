// Sessions on real threads and a fake meter. Runs under the thread sanitizer too.
#include "energy/books/session.h"

#include <doctest/doctest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <numeric>

#include "energy/meters/window.h"
#include "energy/output/trace.h"
#include "tensor/cpu/parallel.h"
#include "tensor/ops/attention.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/cross_entropy.h"
#include "tensor/ops/linear.h"
#include "tests/energy/meters/fake_meter.h"
#include "tests/support/temp_folder.h"

using namespace hg;
using namespace hg::testing;

namespace {

Tensor filled(const Shape& shape) { return Tensor::full(shape, 0.5); }

// A layer's forward and backward as a worker thread runs them.
void work(int rounds) {
  const cpu::ThreadLimit single(1);
  const Tensor x = filled({2, 9, 12}), w = filled({36, 12}), b = filled({36});
  const Scope net("net");
  for (int i = 0; i < rounds; ++i) {
    const Scope scope("attn");
    Tensor qkv;
    {
      const Scope leaf("qkv", Scope::kLeaf);
      qkv = linear(x, w, b);
    }
    attention(qkv, 2);
    const PhaseScope phase(Phase::backward);
    add(x, x);
  }
}

void on_threads(int count, int rounds) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back([=] { work(rounds); });
  for (std::thread& t : threads) t.join();
}

const LedgerRow& find(const Ledger& ledger, const RowLabel& label) {
  for (const LedgerRow& row : ledger.rows)
    if (row.label == label) return row;
  FAIL("no row " << label.phase << " " << label.layer << " " << label.op);
  return ledger.rows[0];
}

SessionOptions fast(int workers = 2) {
  SessionOptions options;
  options.workers = workers;
  options.period = {0.001};
  return options;
}

}  // namespace

TEST_CASE("every call of every thread is in the books and they close") {
  SteadyMeter meter(50);
  Session session(meter, fast());
  on_threads(3, 400);
  const Ledger ledger = session.stop();
  CHECK(ledger.energy_uj > 0);
  CHECK(ledger.kind == Kind::measured);
  CHECK(ledger.calibration == "default");
  const LedgerRow& qkv = find(ledger, {"forward", "net.attn", "qkv"});
  CHECK(qkv.calls == 1200);
  CHECK(qkv.flops_mm == 1200ull * 2 * 18 * 36 * 12);
  CHECK(qkv.flops == qkv.flops_mm + 1200ull * 18 * 36);
  CHECK(qkv.kind == Kind::apportioned);
  for (const char* part : {"qk", "softmax", "av"})
    CHECK(find(ledger, {"forward", "net.attn", part}).calls == 1200);
  CHECK(find(ledger, {"backward", "net.attn", "add"}).calls == 1200);
  std::int64_t sum = 0;
  for (const LedgerRow& row : ledger.rows) {
    sum += row.energy_uj;
    CHECK(row.low_uj <= row.energy_uj);
    CHECK(row.high_uj >= row.energy_uj);
    CHECK(row.static_uj <= row.energy_uj);
  }
  CHECK(sum == ledger.energy_uj);
  CHECK(ledger.rows[kProfiler].energy_uj > 0);
  CHECK(session.stop().energy_uj == ledger.energy_uj);
}

TEST_CASE("steps end with exact accounts that add up to the run") {
  SteadyMeter meter(40);
  Session session(meter, fast());
  std::int64_t before = 0;
  for (int step = 0; step < 20; ++step) {
    on_threads(2, 20);
    session.cut();
    const Ledger books = session.ledger();
    check(books);
    const std::int64_t now = books.energy_uj;
    CHECK(now >= before);
    CHECK(session.total().energy_uj >= now);
    before = now;
  }
  const Ledger all = session.stop();
  CHECK(all.energy_uj >= before);
  CHECK(session.cut().energy_uj == all.energy_uj);
}

TEST_CASE("a window has what its rows grew by meanwhile, to the microjoule") {
  SteadyMeter meter(50);
  SessionOptions options = fast();
  options.period = {3600};  // the sampler never comes: books change with windows alone
  Session session(meter, options);
  on_threads(2, 20);
  session.begin_window("all");
  std::int64_t joined = 0;
  for (int i = 0; i < 3; ++i) {
    session.begin_window("part");
    const Ledger before = session.ledger();
    on_threads(1, 10);
    const Ledger part = session.end_window("part");
    const Ledger after = session.ledger();
    check(part);
    CHECK(part.energy_uj == after.energy_uj - before.energy_uj);
    CHECK(part.seconds == doctest::Approx(after.seconds - before.seconds));
    CHECK(find(part, {"forward", "net.attn", "qkv"}).calls == 10);
    CHECK(part.scope("net.attn").calls == 50);
    CHECK(part.low_uj <= part.energy_uj);
    CHECK(part.high_uj >= part.energy_uj);
    for (const LedgerRow& row : part.rows)
      CHECK(row.energy_uj == find(after, row.label).energy_uj - find(before, row.label).energy_uj);
    joined += part.energy_uj;
  }
  add(filled({2}), filled({2}));
  const Ledger all = session.end_window("all");
  check(all);
  CHECK(all.energy_uj >= joined);
  CHECK(all.scope("net.attn").calls == 150);
  CHECK(find(all, {"forward", "", "add"}).calls == 1);
  CHECK(all.kind == Kind::measured);

  session.begin_window("idle");
  const Ledger idle = session.end_window("idle");
  check(idle);
  CHECK(idle.scope("").calls == 0);
  CHECK(idle.rows.size() >= 2);
  CHECK(session.stop().scope("net.attn").calls == (40 + 30) * 5);
}

TEST_CASE("windows that make no sense are refused") {
  SteadyMeter meter(50);
  Session session(meter, fast());
  session.begin_window("a");
  CHECK(message_of<Error>([&] { session.begin_window("a"); }) ==
        "energy window: a is open already");
  CHECK(message_of<Error>([&] { session.end_window("b"); }) == "energy window: b is not open");
  work(1);
  session.stop();
  CHECK(message_of<Error>([&] { session.begin_window("c"); }) ==
        "energy window: c: the session has ended");
  CHECK(session.end_window("a").scope("net").calls == 5);  // up to the end of the session
  CHECK(message_of<Error>([&] { session.end_window("a"); }) == "energy window: a is not open");
}

TEST_CASE("a ring that runs full loses nothing") {
  SteadyMeter meter(50);
  SessionOptions options = fast();
  options.period = {3600};  // the sampler never comes
  Session session(meter, options);
  constexpr int kRounds = 12000;  // more activities than the ring holds
  static_assert(kRounds * 5 > ThreadLog::kCapacity);
  on_threads(1, kRounds);
  CHECK(find(session.stop(), {"forward", "net.attn", "qkv"}).calls == kRounds);
}

TEST_CASE("new threads take over the logs of those that ended") {
  struct Widest final : ActivitySink {
    void activity(std::size_t thread, const Activity&, const RowTable&) override {
      most = std::max(most, thread);
    }
    void reading(const Reading&) override {}
    std::size_t most = 0;
  } widest;
  SteadyMeter meter(50);
  SessionOptions options = fast();
  options.sink = &widest;
  Session session(meter, options);
  for (int i = 0; i < 30; ++i) {
    on_threads(2, 5);
    session.cut();
  }
  CHECK(find(session.stop(), {"forward", "net.attn", "qkv"}).calls == 300);
  CHECK(widest.most < 2);
}

TEST_CASE("books are saved while the session runs and each is balanced") {
  SteadyMeter meter(50);
  SessionOptions options = fast();
  std::vector<std::string> saved;
  std::mutex mutex;
  options.save_period = {0.002};
  options.save = [&](const Ledger& books) {
    check(books);
    const std::lock_guard lock(mutex);
    saved.push_back(ledger_csv(books.rows));
  };
  Session session(meter, options);
  while (true) {
    on_threads(2, 20);
    const std::lock_guard lock(mutex);
    if (saved.size() >= 3) break;
  }
  const Ledger last = session.stop();
  CHECK(saved.back() == ledger_csv(last.rows));
}

TEST_CASE("a ledger that cannot be saved ends the session with the reason") {
  SteadyMeter meter(50);
  SessionOptions options = fast();
  options.save_period = {0};
  options.save = [](const Ledger&) { fail("ledger.csv", "cannot write: disk full"); };
  Session session(meter, options);
  CHECK(message_of<Error>([&] {
          for (int i = 0; i < 100000; ++i) {
            on_threads(1, 1);
            session.cut();
          }
        }) == "ledger.csv: cannot write: disk full");
  CHECK(message_of<Error>([&] { session.stop(); }) == "ledger.csv: cannot write: disk full");
}

TEST_CASE("a session whose last reading fails says so, or is silent where it just goes") {
  SteadyMeter meter(50);
  SessionOptions options = fast();
  options.period = {1000};  // the sampling thread waits, and must be ended all the same
  {
    Session session(meter, options);
    meter.lost = true;
    CHECK(message_of<Error>([&] { session.stop(); }) == "fake: the meter is lost");
  }
  meter.lost = false;
  Session session(meter, options);
  meter.lost = true;
}

TEST_CASE("work that is no op has a row of its own") {
  SteadyMeter meter(50);
  Session session(meter, fast());
  const RowId row = session.profiler().row(Phase::data, "loader", "decode");
  for (int i = 0; i < 3; ++i) {
    const std::int64_t start_ns = backend(Device::cpu).timestamp_ns();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    session.profiler().note(row, start_ns, backend(Device::cpu).timestamp_ns());
  }
  const Ledger ledger = session.stop();
  const LedgerRow& found = find(ledger, {"data", "loader", "decode"});
  CHECK(found.calls == 3);
  CHECK(found.seconds > 0.006 / 2);
  CHECK(found.energy_uj > 0);
}

TEST_CASE("an op that throws leaves no call behind and does not hold up the books") {
  SteadyMeter meter(50);
  Session session(meter, fast());
  work(1);
  const Tensor label = Tensor::full({2}, 99, DType::i64);  // found out by the kernel
  CHECK_THROWS_AS(cross_entropy(filled({2, 3}), label), Error);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const std::int64_t now = session.cut().energy_uj;
  CHECK(now > 0);
  CHECK(session.ledger().energy_uj >= now);
  work(1);
  const Ledger ledger = session.stop();
  CHECK(find(ledger, {"forward", "net.attn", "qkv"}).calls == 2);
  for (const LedgerRow& row : ledger.rows) CHECK(row.label.op != "cross_entropy");
}

TEST_CASE("a session that pauses sees no op and its books still close") {
  SteadyMeter meter(50);
  Session session(meter, fast());
  work(2);
  session.pause();
  work(30);
  const int reads = meter.reads;
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(meter.reads == reads);
  session.resume();
  work(1);
  const Ledger ledger = session.stop();
  CHECK(find(ledger, {"forward", "net.attn", "qkv"}).calls == 3);
  CHECK(ledger.rows[kUnattributed].energy_uj > 10000 * 50 / 2);  // 10 ms and more belong to no op
}

TEST_CASE("while the meter is being read, ops and totals do not wait for it") {
  // Its reads wait until they are let through.
  struct Held final : Meter {
    std::string_view name() const override { return "held"; }
    Kind kind() const override { return Kind::measured; }
    std::string source() const override { return "a gate"; }
    std::uint64_t faults() const override { return 0; }
    Reading read() override {
      inside = true;
      while (closed) std::this_thread::yield();
      inside = false;
      return steady.read();
    }
    SteadyMeter steady{50};
    std::atomic<bool> closed = false, inside = false;
  } meter;
  Session session(meter, fast());
  meter.closed = true;
  while (!meter.inside) std::this_thread::yield();  // the sampler hangs in it
  constexpr int kRounds = 12000;
  static_assert(kRounds * 5 > ThreadLog::kCapacity);  // rings run full and are emptied
  on_threads(2, kRounds);
  CHECK(session.total().energy_uj >= 0);
  CHECK(session.power().value >= 0);
  check(session.ledger());
  meter.closed = false;
  const Ledger ledger = session.stop();
  CHECK(find(ledger, {"forward", "net.attn", "qkv"}).calls == 2 * kRounds);
}

TEST_CASE("power is that of the last second") {
  SteadyMeter meter(50);
  Session session(meter, fast());
  work(1);
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    session.cut();
  }
  CHECK(session.power().value == doctest::Approx(55).epsilon(0.2));  // with dram
}

TEST_CASE("a trace is JSON with layers properly nested and a power track") {
  SteadyMeter meter(50);
  std::string text;
  ChromeTrace trace([&](std::string_view more) { text += more; });
  SessionOptions options = fast();
  options.sink = &trace;
  {
    Session session(meter, options);
    on_threads(2, 30);
    session.stop();
  }
  trace.finish();
  const auto json = nlohmann::json::parse(text);
  std::map<int, std::vector<std::string>> open;
  std::map<int, double> last;
  int ops = 0, powers = 0;
  for (const auto& e : json["traceEvents"]) {
    const std::string ph = e["ph"];
    if (ph == "M") continue;
    CHECK(e["ts"].get<double>() >= 0);
    if (ph == "C") {
      ++powers;
      CHECK(e["args"]["package"].get<double>() < 500);
      continue;
    }
    const int tid = e["tid"];
    CHECK(e["ts"].get<double>() >= last[tid] - 0.002);
    last[tid] = e["ts"];
    if (ph == "B") open[tid].push_back(e["name"]);
    if (ph == "E") {
      REQUIRE(!open[tid].empty());
      open[tid].pop_back();
    }
    if (ph != "X") continue;
    ++ops;
    CHECK(open[tid].size() == 3);
    CHECK(open[tid][1] == "net");
    CHECK(open[tid][2] == "attn");
  }
  CHECK(ops == 2 * 30 * 5);
  CHECK(powers > 0);
  for (const auto& [tid, names] : open) CHECK(names.empty());
}

TEST_CASE("a trace stops at its limit and says what it left out") {
  std::string text;
  ChromeTrace trace([&](std::string_view more) { text += more; }, 2);
  RowTable rows;
  const RowId row = rows.find_or_add({"forward", "a.b", "add"});
  for (int i = 0; i < 5; ++i) trace.activity(0, {.start_ns = i, .end_ns = i + 1, .row = row}, rows);
  trace.finish();
  trace.finish();
  const auto json = nlohmann::json::parse(text);
  CHECK(json["otherData"]["ops"] == 2);
  CHECK(json["otherData"]["ops_left_out"] == 3);
}

TEST_CASE("idle power is the meter's own, and none of a model") {
  hg::testing::SteadyMeter steady(20), modelled(20, Kind::modelled);
  CHECK(idle_power(steady)->value == doctest::Approx(22).epsilon(0.02));  // dram: a tenth more
  CHECK(!idle_power(modelled));
}
