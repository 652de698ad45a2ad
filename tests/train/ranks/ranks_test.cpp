// What ranks tell each other, and what they say of one that is silent.
#include "train/ranks/ranks.h"

#include <doctest/doctest.h>

#include <atomic>

#include "tensor/base/clock.h"
#include "tensor/base/usage_error.h"
#include "tests/energy/meters/fake_meter.h"
#include "tests/train/ranks/local_ranks.h"
#include "train/run/rank_books.h"
#include "train/run/rank_checks.h"

namespace {

using namespace hg;
using namespace hg::testing;

std::string fault_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("alone, ranks have themselves to ask") {
  Ranks alone;
  CHECK(alone.alone());
  CHECK(alone.first());
  CHECK(alone.reads_meters());
  CHECK(alone.hosts() == 1);
  CHECK(alone.gather(7) == std::vector<int>{7});
  CHECK(alone.gather(std::string_view("x")) == std::vector<std::string>{"x"});
  CHECK(alone.sum(3) == 3);
  CHECK(alone.broadcast("text") == "text");
  CHECK(alone.fail(2));
}

TEST_CASE("every rank gets what all have, in their order") {
  for (const std::string machines : {"ab", "aab", "abcba"}) {
    std::atomic<int> right = 0;
    on_local_ranks(machines, [&](Ranks& ranks) {
      const auto size = static_cast<std::size_t>(ranks.size());
      bool ok = ranks.sum(ranks.rank()) == ranks.size() * (ranks.size() - 1) / 2;
      const std::vector<std::string> texts =
          ranks.gather(std::string_view(std::string(static_cast<std::size_t>(ranks.rank()), 'x')));
      for (std::size_t r = 0; r < size; ++r) ok = ok && texts[r] == std::string(r, 'x');
      const std::vector<std::string> first = ranks.collect(std::to_string(ranks.rank()));
      ok = ok && first.size() == (ranks.first() ? size : 0);
      for (std::size_t r = 0; r < first.size(); ++r) ok = ok && first[r] == std::to_string(r);
      for (const std::string& text : {std::string(), std::string("ab"), std::string(10001, 'y')})
        ok = ok && ranks.broadcast(ranks.first() ? text : "other") == text;
      right += ok;
    });
    CHECK(right == static_cast<int>(machines.size()));
  }
}

TEST_CASE("one rank of each machine reads its meters") {
  std::atomic<int> readers = 0, hosts = 0, here = 0;
  on_local_ranks("abaab", [&](Ranks& ranks) {
    readers += ranks.reads_meters();
    hosts += ranks.hosts();
    if (ranks.place(ranks.rank()).machine == "a") here += ranks.here();
  });
  CHECK(readers == 2);
  CHECK(hosts == 5 * 2);
  CHECK(here == 3 * 3);
}

TEST_CASE("groups of ranks work side by side, by their own numbers") {
  std::atomic<int> right = 0;
  on_local_ranks("aabbab", [&](Ranks& all) {
    Ranks group(all, 3);
    const int first = all.rank() / 3 * 3;
    bool ok = group.size() == 3 && group.rank() == all.rank() - first;
    ok = ok && group.gather(all.rank()) == std::vector<int>{first, first + 1, first + 2};
    ok = ok && group.broadcast(std::to_string(all.rank())) == std::to_string(first);
    ok = ok && group.here() == 3 && group.hosts() == 2;
    ok = ok && group.name_of(1) == all.name_of(first + 1);
    ok = ok && group.reads_meters() == (all.rank() != 1 && all.rank() != 5);
    Ranks alone(all, 1);
    ok = ok && alone.alone() && alone.here() == 3 && alone.sum(all.rank()) == all.rank();
    right += ok && all.sum(group.rank()) == 6;
  });
  CHECK(right == 6);
}

TEST_CASE("a group hears of a failure in another one") {
  std::atomic<int> heard = 0;
  on_local_ranks("aabb", [&](Ranks& all) {
    Ranks group(all, 2);
    if (all.rank() == 3) {
      CHECK(all.fail(2));
      return;
    }
    if (all.rank() == 1) return;  // its neighbour waits
    heard += fault_of([&] { group.gather(1); }) == "rank 3 (host b) failed";
  });
  CHECK(heard == 2);
}

TEST_CASE("a silent rank is named after the deadline, and the others hear of it") {
  std::atomic<int> named = 0, heard = 0;
  on_local_ranks("aab", [&](Ranks& ranks) {
    if (ranks.rank() == 2) return;  // says nothing
    ranks.set_timeout(ranks.rank() == 0 ? 0.3 : 60);
    const std::string fault = fault_of([&] { ranks.gather(1); });
    if (ranks.rank() == 0) {
      named += fault.find("no answer for 0 s from rank 2 (host b)") != std::string::npos;
      CHECK(ranks.fail(1));
    } else {
      heard += fault == "rank 0 (host a) failed";
    }
  });
  CHECK(named == 1);
  CHECK(heard == 1);
}

TEST_CASE("why another rank failed is awaited before its end is called a fault of the GPUs") {
  std::atomic<int> heard = 0;
  on_local_ranks("aab", [&](Ranks& ranks) {
    if (ranks.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
      CHECK(ranks.fail(2));
      return;
    }
    const auto breaks = []() -> std::size_t { throw Error("the link of GPUs failed"); };
    const std::string fault = fault_of([&] {
      if (ranks.first())
        ranks.await_devices(breaks);
      else
        ranks.with_devices(breaks);
    });
    heard += fault == "rank 1 (host a) failed";
  });
  CHECK(heard == 2);
  on_local_ranks("a", [](Ranks& ranks) {
    CHECK(fault_of([&] { ranks.with_devices([] { throw Error("broken"); }); }) == "broken");
  });
}

TEST_CASE("devices that move are not silent") {
  on_local_ranks("ab", [](Ranks& ranks) {
    ranks.set_timeout(0.3);
    const std::int64_t start = now_ns();
    const auto open = [&](double part_s) {
      return static_cast<std::size_t>(std::max(0.0, 1 - seconds_since(start)) / part_s);
    };
    CHECK(fault_of([&] { ranks.await_devices([&] { return open(0.1); }); }) == "");
    CHECK(seconds_since(start) > 0.8);
    CHECK(fault_of([&] {
            ranks.await_devices([] { return 1; });
          }).find("the GPUs of other ranks") != std::string::npos);
  });
}

TEST_CASE("of what another rank reads, energy and faults are not this one's") {
  class Faulty final : public energy::Meter {
   public:
    std::string_view name() const override { return "faulty"; }
    energy::Kind kind() const override { return energy::Kind::modelled; }
    std::string source() const override { return ""; }
    energy::Reading read() override {
      energy::Reading reading;
      reading.domains.fill(counted(7));
      return reading;
    }
    std::uint64_t faults() const override { return 5000; }
    std::uint64_t faults_of(energy::Domain domain) const override {
      return domain == energy::Domain::gpu ? 3000 : 2000;
    }
    std::vector<energy::Fault> fault_list() const override {
      return {{energy::FaultKind::gap, 0, "package-0"}, {energy::FaultKind::gap, 1, "gpu 0"}};
    }
  };
  const auto check = [](const std::array<bool, energy::kDomains>& elsewhere, std::uint64_t faults,
                        const std::vector<std::string>& zones) {
    const auto meter = read_elsewhere(std::make_unique<Faulty>(), elsewhere);
    CHECK(meter->faults() == faults);
    std::vector<std::string> own;
    for (const energy::Fault& fault : meter->fault_list()) own.push_back(fault.zone);
    CHECK(own == zones);
    const energy::Reading reading = meter->read();
    for (std::size_t d = 0; d < energy::kDomains; ++d)
      CHECK(reading.domains[d]->energy.value == (elsewhere[d] ? 0 : 7));
  };
  check({false, false, true}, 2000, {"package-0"});
  check({true, true, false}, 3000, {"gpu 0"});
  check({true, true, true}, 0, {});
}

TEST_CASE("of ranks that fail together the first tells") {
  std::atomic<int> tellers = 0, first = -1;
  on_local_ranks("aaa", [&](Ranks& ranks) {
    if (!ranks.fail(2)) return;
    ++tellers;
    first = ranks.rank();
  });
  CHECK(tellers == 1);
  CHECK(first == 0);
}

TEST_CASE("a rank that differs is named") {
  on_local_ranks("abc", [](Ranks& ranks) {
    check_same(ranks, "images", "same");
    const std::string fault =
        fault_of([&] { check_same(ranks, "images", ranks.rank() == 1 ? "others" : "same"); });
    if (ranks.first())
      CHECK(fault == "rank 1 (host b): expected the images of rank 0 (host a), got another");
  });
}

TEST_CASE("books of ranks become one ledger that closes, with a host where there are several") {
  const auto books_of = [](int rank) {
    RankBooks books;
    energy::Ledger& ledger = books.ledger;
    ledger.kind = energy::Kind::modelled;
    ledger.seconds = 2;
    for (const char* op : {"qkv", "proj"}) {
      energy::LedgerRow row;
      row.label = {"forward", "attn", op};
      row.calls = 3;
      row.seconds = 0.5;
      row.flops = 10;
      row.energy_uj = row.low_uj = row.high_uj = row.domain_uj[0] = 100 + rank;
      ledger.energy_uj += row.energy_uj;
      ledger.rows.push_back(row);
    }
    ledger.domain_uj[0] = ledger.energy_uj;
    return books;
  };
  for (const std::string machines : {"aaa", "aab"})
    on_local_ranks(machines, [&](Ranks& ranks) {
      const RankBooks back = unpack_books(pack(books_of(ranks.rank())));
      std::vector<RankBooks> others;
      for (const std::string& text : ranks.collect(pack(back)))
        others.push_back(unpack_books(text));
      if (!ranks.first()) return;
      others.erase(others.begin());
      const energy::Ledger all = of_all_ranks(books_of(0).ledger, others, ranks);
      energy::check(all);
      const bool several = machines == "aab";
      CHECK(all.energy_uj == 2 * (100 + 101 + 102));
      REQUIRE(all.rows.size() == (several ? 4 : 2));
      CHECK(all.rows[0].calls == (several ? 6 : 9));
      CHECK(all.rows[0].seconds == doctest::Approx(0.5));
      CHECK(all.rows[0].label.host == (several ? "a" : ""));
      const std::string csv = energy::ledger_csv(all.rows);
      CHECK((csv.find(",host\n") != std::string::npos) == several);
      const auto read = energy::parse_ledger_csv(csv, "ledger.csv");
      CHECK(read.back().label.host == (several ? "b" : ""));
    });
}
