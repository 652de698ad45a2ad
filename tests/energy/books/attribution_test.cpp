// Rules of the books: every interval's parts sum to it, in whole microjoules, whatever comes.
#include "energy/books/attribution.h"

#include <doctest/doctest.h>

#include <numeric>
#include <random>

#include "energy/books/ledger.h"
#include "tests/energy/meters/fake_meter.h"

using namespace hg;
using namespace hg::testing;

namespace {

constexpr std::int64_t kMs = 1'000'000;

Calibration by_time() {
  Calibration c = default_calibration();
  c.domains[0] = DomainModel{{1, 0, 0, 0}, {}, 0, 100};
  c.domains[1] = DomainModel{{0, 0, 1, 0}, {}, 0, 100};  // by bytes
  return c;
}

MeterSample at(std::int64_t ns, std::int64_t package_uj, std::int64_t dram_uj = 0) {
  MeterSample s;
  s.reading.time_ns = ns;
  s.reading.domains[0] = counted(package_uj);
  s.reading.domains[1] = counted(dram_uj);
  return s;
}

Activity op(RowId row, std::int64_t start, std::int64_t end, std::uint64_t bytes = 0) {
  return {.start_ns = start, .end_ns = end, .bytes = bytes, .row = kFirstOp + row};
}

Activity placed(Activity a, Place place) { return a.place = place, a; }

std::vector<std::int64_t> booked(const Attribution& a, std::size_t domain = 0) {
  std::vector<std::int64_t> all;
  for (const RowEnergy& e : a.energies(domain)) all.push_back(e.energy_uj);
  return all;
}
using Uj = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("integers near their targets sum to the total") {
  Apportioner apportion;
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform(-0.9, 5);
  for (int round = 0; round < 500; ++round) {
    std::vector<double> targets(1 + round % 17);
    for (double& t : targets) t = uniform(random);
    const std::int64_t total = std::max<std::int64_t>(
        0, std::llround(std::accumulate(targets.begin(), targets.end(), 0.0)));
    std::vector<std::int64_t> parts(targets.size());
    apportion(total, targets, parts);
    CHECK(std::accumulate(parts.begin(), parts.end(), std::int64_t{0}) == total);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      CHECK(parts[i] >= 0);
      if (i > 0) CHECK(std::abs(static_cast<double>(parts[i]) - targets[i]) < 2);
    }
  }
  std::vector<std::int64_t> parts(3);
  apportion(10, std::vector<double>{3.3, 3.3, 3.4}, parts);
  CHECK(parts == Uj{3, 3, 4});
  apportion(7, std::vector<double>{0, 0, 0}, parts);  // without targets it goes to the first row
  CHECK(parts == Uj{7, 0, 0});
}

TEST_CASE("an interval is shared by weight and an op across a boundary belongs to both sides") {
  Attribution a(by_time(), 1);
  a.start(at(0, 0, 0));
  a.boundary(at(10 * kMs, 1000, 50));
  a.add(op(0, 0, 5 * kMs, 100));
  a.add(op(1, 5 * kMs, 15 * kMs, 300));  // half of it before the boundary
  a.boundary(at(20 * kMs, 1000 + 2000, 150));
  a.close(20 * kMs);
  // by time: interval 1: 500 + 500; interval 2: op 1 has 5 of 10 ms, the rest belongs to no op
  CHECK(booked(a) == Uj{1000, 0, 500, 1500});
  // by bytes: interval 1: 100 and 150 of 250 share 50; interval 2: op 1 alone
  CHECK(booked(a, 1) == Uj{0, 0, 20, 130});
  CHECK(a.work(kFirstOp + 1).thread_ns == 10 * kMs);
  CHECK(a.work(kFirstOp + 1).calls == 1);
  a.check();
}

TEST_CASE("each domain has its own intervals, which end when its counter has moved") {
  Calibration c = by_time();
  c.domains[2] = DomainModel{{1, 0, 0, 0}, {}, 0, 100};
  Attribution a(c, 1);
  const auto reading = [](std::int64_t ms, std::int64_t package, std::int64_t gpu) {
    MeterSample s = at(ms * kMs, package);
    s.reading.domains[2] = counted(gpu);
    return s;
  };
  a.start(reading(0, 0, 0));
  a.add(op(0, 0, 20 * kMs));
  a.add(placed(op(1, 0, 60 * kMs), Place::gpu));
  a.boundary(reading(20, 200, 0));
  a.close(20 * kMs);
  CHECK(a.total_uj(0) == 200);
  CHECK(a.marked_uj() == 200);
  a.add(op(0, 20 * kMs, 40 * kMs));
  a.boundary(reading(40, 400, 0));
  a.close(40 * kMs);
  a.add(placed(op(2, 60 * kMs, 80 * kMs), Place::gpu));
  MeterSample lump = reading(90, 900, 8000);  // what the GPU drew until it moved at 80 ms
  lump.reading.as_of[2] = {80 * kMs, 20 * kMs};
  a.boundary(lump);
  a.close(NotedUntil{});
  a.check();
  CHECK(booked(a) == Uj{500, 0, 400, 0, 0});
  CHECK(booked(a, 2) == Uj{0, 0, 0, 6000, 2000});
  CHECK(a.marked_uj() == 8900);
  // From one move to the next, in 20 ms of which it lay.
  CHECK(a.reading_variance(2) == doctest::Approx((61.0 * 61.0 + 2000.0 * 2000.0) / 12));
}

TEST_CASE("what runs on the GPU weighs there alone, and launching it is work of a thread") {
  Calibration c = by_time();
  c.domains[0]->coefficients = {0, 1, 0, 1};
  c.domains[2] = DomainModel{{0, 1, 0, 0}, {}, 0, 100};
  Attribution a(c, 2);
  MeterSample end = at(10 * kMs, 1000);
  MeterSample begin = at(0, 0);
  begin.reading.domains[2] = counted(0);
  end.reading.domains[2] = counted(5000);
  end.cpu_ns = 8 * kMs;
  a.start(begin);
  a.add(placed(op(0, 0, 2 * kMs), Place::launch));
  Activity product{.start_ns = kMs, .end_ns = 9 * kMs, .flops_mm = 1'000'000'000'000};
  product.row = kFirstOp;
  product.width = 2;
  a.add(placed(product, Place::gpu));
  a.add(op(1, 0, 2 * kMs));
  a.boundary(end);
  a.close(10 * kMs);
  CHECK(booked(a) == Uj{500, 0, 250, 250});  // of 8 ms of threads, ops took 4
  CHECK(booked(a, 2) == Uj{0, 0, 5000, 0});
  CHECK(a.work(kFirstOp).calls == 1);
  CHECK(a.work(kFirstOp).flops == 1'000'000'000'000);
  CHECK(a.work(kFirstOp).thread_ns == 16 * kMs);
}

TEST_CASE("a counter that has not moved keeps its interval, unless it is to end at once") {
  Attribution a(by_time(), 1);
  a.start(at(0, 0));
  a.add(op(0, 0, 5 * kMs));
  a.boundary(at(5 * kMs, 0));
  a.close(5 * kMs);
  a.add(op(1, 5 * kMs, 10 * kMs));
  a.boundary(at(10 * kMs, 1000));
  a.close(10 * kMs);
  CHECK(booked(a) == Uj{0, 0, 500, 500});
  a.add(op(0, 10 * kMs, 20 * kMs));
  a.boundary(at(20 * kMs, 1000), true);
  a.boundary(at(30 * kMs, 1600));
  a.close(30 * kMs);
  CHECK(booked(a) == Uj{600, 0, 500, 500});
}

TEST_CASE("nothing is attributed before it is safe") {
  Attribution a(by_time(), 1);
  a.start(at(0, 0));
  a.boundary(at(10 * kMs, 1000));
  a.boundary(at(20 * kMs, 3000));
  a.close(9 * kMs);
  CHECK(a.total_uj(0) == 0);
  a.close(15 * kMs);
  CHECK(a.total_uj(0) == 1000);
  a.add(op(0, 5 * kMs, 20 * kMs));  // 5 ms too late for the first interval: counts in the second
  a.close(INT64_MAX);
  CHECK(a.total_uj(0) == 3000);
  CHECK(booked(a) == Uj{1000, 0, 2000});
  CHECK(a.work(kFirstOp).thread_ns == 15 * kMs);
  a.check();
}

TEST_CASE("threads at once share wall time and the profiler pays for itself") {
  Attribution a(by_time(), 2);
  a.start(at(0, 0));
  MeterSample end = at(10 * kMs, 1000);
  end.own_ns = 2 * kMs;
  end.cpu_ns = 20 * kMs;
  a.boundary(end);
  a.add(op(0, 0, 10 * kMs));  // 5 ms of wall time
  a.add(op(1, 0, 6 * kMs));   // 3 ms
  a.close(10 * kMs);
  CHECK(booked(a) == Uj{100, 100, 500, 300});
  Activity wide = op(2, 10 * kMs, 20 * kMs);
  wide.width = 2;  // a parallel loop takes both threads
  a.add(wide);
  a.boundary(at(20 * kMs, 2000));
  a.close(20 * kMs);
  CHECK(booked(a) == Uj{100, 100, 500, 300, 1000});
}

TEST_CASE("static energy is a part of a row and never more than it") {
  Calibration c = by_time();
  c.domains[0]->coefficients = {1, 0, 0, 3};  // a quarter is static
  Attribution a(c, 1);
  a.start(at(0, 0));
  a.add(op(0, 0, 10 * kMs));
  a.boundary(at(10 * kMs, 1000));
  a.close(10 * kMs);
  CHECK(a.energies(0)[kFirstOp].energy_uj == 1000);
  CHECK(a.energies(0)[kFirstOp].static_uj == doctest::Approx(250));
}

TEST_CASE("books close over random runs and rows never lose energy") {
  std::mt19937_64 random(3);
  for (int run = 0; run < 20; ++run) {
    const int rows = 1 + static_cast<int>(random() % 40);
    Attribution a(default_calibration(), 1 + run % 3);
    std::int64_t now = 0, package = 0, dram = 0;
    a.start(at(0, 5, 7));
    package = 5, dram = 7;
    Uj before;
    for (int interval = 0; interval < 200; ++interval) {
      std::int64_t t = now;
      now += 1 + static_cast<std::int64_t>(random() % (20 * kMs));
      while (t < now) {
        const auto length = static_cast<std::int64_t>(random() % (2 * kMs));
        a.add({.start_ns = t,
               .end_ns = t + length,
               .flops_mm = random() % 1000000,
               .flops_ew = random() % 1000,
               .bytes = random() % 1000000,
               .row = kFirstOp + static_cast<RowId>(random() % static_cast<unsigned>(rows)),
               .width = 1 + static_cast<std::uint32_t>(random() % 2)});
        t += length + 1 + static_cast<std::int64_t>(random() % kMs);
      }
      package += static_cast<std::int64_t>(random() % (interval % 3 == 0 ? 20 : 2000000));
      dram += static_cast<std::int64_t>(random() % 3);
      MeterSample s = at(now, package, dram);
      s.cpu_ns = now * 2;
      s.own_ns = now / 100;
      a.boundary(s);
      if (random() % 4 != 0) a.close(now);
      if (interval % 10 == 0) {  // an epoch: every part of it is positive too
        a.close(now);
        a.check();
        const Uj after = booked(a);
        for (std::size_t r = 0; r < before.size(); ++r) CHECK(after[r] >= before[r]);
        before = after;
        CHECK(std::accumulate(after.begin(), after.end(), std::int64_t{0}) == package - 5);
      }
    }
    a.close(INT64_MAX);
    a.check();
    CHECK(a.total_uj(0) == package - 5);
    CHECK(a.total_uj(1) == dram - 7);
  }
}

TEST_CASE("a small row's share is not lost to rounding over many intervals") {
  Attribution a(by_time(), 1);
  a.start(at(0, 0));
  constexpr int kIntervals = 10000;
  for (int i = 0; i < kIntervals; ++i) {  // 10 uJ an interval, of which one row earns 0.3
    const std::int64_t t = i * kMs;
    a.add(op(0, t, t + 970'000));
    a.add(op(1, t + 970'000, t + kMs));
    a.boundary(at(t + kMs, 10 * (i + 1)));
    a.close(t + kMs);
  }
  CHECK(std::abs(booked(a)[kFirstOp + 1] - 3000) <= 1);
  a.check();
}

TEST_CASE("many boundaries during one long op are joined and the books still close") {
  Attribution a(by_time(), 1);
  a.start(at(0, 0));
  for (int i = 1; i <= 500; ++i) {
    a.boundary(at(i * kMs, 100 * i));
    a.close(0);  // the op that began at 0 still runs
  }
  a.add(op(0, 0, 500 * kMs));
  a.close(INT64_MAX);
  CHECK(booked(a) == Uj{0, 0, 50000});
}

TEST_CASE("bounds of the meter widen every row in proportion and shrink when it recovers") {
  Attribution a(by_time(), 1);
  a.start(at(0, 0));
  a.add(op(0, 0, 6 * kMs));
  a.add(op(1, 6 * kMs, 10 * kMs));
  MeterSample s = at(10 * kMs, 1000);
  s.reading.domains[0]->low = {900};
  s.reading.domains[0]->high = {2000};
  a.boundary(s);
  a.close(10 * kMs);
  CHECK(a.energies(0)[kFirstOp].low_slack == doctest::Approx(60));
  CHECK(a.energies(0)[kFirstOp + 1].high_slack == doctest::Approx(400));
  s = at(20 * kMs, 1000);
  s.reading.domains[0]->high = {1500};
  a.boundary(s);
  a.close(20 * kMs);
  CHECK(a.energies(0)[kFirstOp].low_slack == 0);
  CHECK(a.energies(0)[kFirstOp + 1].high_slack == doctest::Approx(200));
}

TEST_CASE("a stretch of the books is what an account of its own would have been") {
  Calibration calibration = default_calibration();
  Attribution all(calibration, 2), alone(calibration, 2);
  std::mt19937_64 random(3);
  std::uniform_int_distribution<std::int64_t> uj(900, 2100), bytes(0, 1 << 20), row(0, 3);
  MeterSample now = at(0, 5'000, 700);
  all.start(now);
  std::optional<Attribution> earlier;
  for (int interval = 0; interval < 40; ++interval) {
    if (interval == 15) {
      earlier.emplace(all);
      alone.start(now);
    }
    const std::int64_t start = now.reading.time_ns;
    for (int i = 0; i < 5; ++i) {
      Activity a = op(static_cast<RowId>(row(random)), start + 2 * i * kMs,
                      start + (2 * i + 1) * kMs, static_cast<std::uint64_t>(bytes(random)));
      a.flops_mm = 12345;
      all.add(a);
      if (earlier) alone.add(a);
    }
    now = at(start + 10 * kMs, now.reading.domains[0]->energy.value + uj(random),
             now.reading.domains[1]->energy.value + uj(random) / 7);
    for (Attribution* a : {&all, &alone}) {
      if (a == &alone && !earlier) continue;
      a->boundary(now);
      a->close(INT64_MAX);
    }
  }
  const Attribution stretch = all.since(*earlier);
  stretch.check();
  CHECK(stretch.start_ns() == 150 * kMs);
  CHECK(stretch.closed_ns() == all.closed_ns());
  for (const std::size_t domain : {0, 1}) {
    CHECK(stretch.total_uj(domain) == alone.total_uj(domain));
    const Uj whole = booked(all, domain), before = booked(*earlier, domain);
    const std::vector<RowEnergy> found = stretch.energies(domain), wanted = alone.energies(domain);
    REQUIRE(found.size() == 6);
    for (RowId r = 0; r < found.size(); ++r) {
      CHECK(found[r].energy_uj == whole[r] - before[r]);
      CHECK(std::abs(found[r].energy_uj - wanted[r].energy_uj) <= 1);
      CHECK(found[r].static_uj == doctest::Approx(wanted[r].static_uj).epsilon(1e-3));
      // Never surer than the account of its own.
      CHECK(found[r].variance >= wanted[r].variance * (1 - 1e-9));
      CHECK(found[r].variance < wanted[r].variance * 2.5 + 1);
      CHECK(stretch.work(r).calls == alone.work(r).calls);
      CHECK(stretch.work(r).flops == alone.work(r).flops);
      CHECK(stretch.work(r).bytes == alone.work(r).bytes);
    }
  }
}

TEST_CASE("a stretch has the doubt of the meter that came up in it") {
  Calibration calibration = by_time();
  Attribution all(calibration, 1);
  const auto doubtful = [](std::int64_t ms, std::int64_t uj, std::int64_t doubt) {
    MeterSample s = at(ms * kMs, uj);
    s.reading.domains[0] = Counted{{uj}, {uj - doubt}, {uj + 2 * doubt}};
    return s;
  };
  all.start(doubtful(0, 0, 0));
  all.boundary(doubtful(10, 1000, 300));
  all.close(INT64_MAX);
  const Attribution earlier = all;
  all.boundary(doubtful(20, 2000, 300));
  all.close(INT64_MAX);
  CHECK(all.since(earlier).low_slack(0) == 0);
  all.boundary(doubtful(30, 3000, 350));
  all.close(INT64_MAX);
  CHECK(all.since(earlier).low_slack(0) == 50);
  CHECK(all.since(earlier).high_slack(0) == 100);
  CHECK(all.since(earlier).energies(0)[kUnattributed].low_slack == doctest::Approx(50));
}
