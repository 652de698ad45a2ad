// A simulated machine: two CPU packages with a thread each, memory, and a GPU, whose counters are
// read as real ones are. What each op draws is known, so that books can be held to it.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "energy/books/ledger.h"
#include "energy/meters/channel_meter.h"
#include "tests/energy/books/simulation.h"

namespace hg::testing {

constexpr std::int64_t kMicro = 1'000, kMilli = 1'000'000, kWhole = 1'000'000'000;
constexpr std::size_t kPackage = 0, kDram = 1, kGpuDomain = 2;

// Draws of ops of about 2 ms on each domain: W, pJ/FLOP, pJ/byte, W of a busy thread or GPU.
inline const std::array<hg::testing::Machine, kDomains> kTruths{
    hg::testing::Machine{{14, 60, 150, 3}, 0.02}, hg::testing::Machine{{3, 0, 250, 0}, 0.03},
    hg::testing::Machine{{40, 12, 60, 50}, 0.03, 13, 1}};
inline const std::vector<OpType> kCpuOps{{2000, 200, 4}, {1500, 75, 6},   {2500, 2.5, 50},
                                         {1800, 15, 14}, {2200, 220, 22}, {1200, 2.2, 1.1},
                                         {3000, 25, 50}, {2600, 60, 2}};
inline const std::vector<OpType> kGpuOps{{2000, 24000, 200}, {1500, 9000, 600},  {2500, 250, 2000},
                                         {1800, 1800, 900},  {2200, 26000, 880}, {1200, 120, 120},
                                         {3000, 3000, 2100}, {2600, 16000, 130}};
inline const auto kCpuRows = static_cast<RowId>(kCpuOps.size()),
                  kGpuRows = static_cast<RowId>(kGpuOps.size());

// Energy over time as one counter sees it: it shows whole units, as of its last tick.
class SimulatedCounter {
 public:
  SimulatedCounter(std::int64_t period_ns, std::int64_t phase_ns, double quantum_uj,
                   std::uint64_t first_uj = 0, std::uint64_t largest_uj = 0)
      : period_ns_(period_ns),
        phase_ns_(phase_ns),
        quantum_uj_(quantum_uj),
        first_uj_(first_uj),
        largest_uj_(largest_uj) {}

  // The tick that a read at this time shows.
  void expect_read(std::int64_t at_ns) {
    tick_ns_ = (at_ns - phase_ns_) / period_ns_ * period_ns_ + phase_ns_;
  }
  std::int64_t tick_ns() const { return tick_ns_; }
  void show(double uj) { shown_uj_ = uj; }
  RawRead read(std::int64_t now_ns) const {
    auto uj =
        first_uj_ + static_cast<std::uint64_t>(std::floor(shown_uj_ / quantum_uj_) * quantum_uj_);
    if (largest_uj_ > 0) uj %= round_of(largest_uj_).whole_uj;
    return {now_ns, ReadStatus::good, uj};
  }

 private:
  std::int64_t period_ns_, phase_ns_, tick_ns_ = 0;
  double quantum_uj_, shown_uj_ = 0;
  std::uint64_t first_uj_, largest_uj_;
};

// What runs one op after the other, with pauses between: a thread or the GPU.
class Track {
 public:
  struct Draw {
    std::size_t domain;
    std::vector<SimulatedCounter*> counters;
    double before_uj = 0;           // until the op that runs
    std::vector<double> tick_uj{};  // at each counter's tick
  };

  Track(const std::vector<OpType>& ops, RowId first_row, Place place, int workers,
        std::vector<Draw> draws, std::mt19937_64& random)
      : ops_(ops),
        first_row_(first_row),
        place_(place),
        workers_(workers),
        draws_(std::move(draws)),
        random_(random) {
    for (Draw& d : draws_) d.tick_uj.resize(d.counters.size());
  }

  // Runs ops until one ends after `until_ns`; visit(op, uj by domain) for each that ends before.
  template <class Deviations, class Visit>
  void run(std::int64_t until_ns, const Deviations& deviations, Visit&& visit) {
    for (;;) {
      if (running_.end_ns == 0) begin(deviations);
      pass_ticks();
      if (running_.end_ns > until_ns) return;
      for (Draw& d : draws_) d.before_uj += uj_[d.domain];
      if (!pausing_) visit(running_, uj_);
      now_ns_ = running_.end_ns;
      running_.end_ns = 0;
    }
  }
  std::int64_t running_since() const { return running_.start_ns; }
  double busy_ns(std::int64_t now_ns) const {
    return busy_ns_ - (pausing_ ? 0 : static_cast<double>(running_.end_ns - now_ns));
  }
  double tick_uj(std::size_t draw, std::size_t counter) const {
    return draws_[draw].tick_uj[counter];
  }

 private:
  // Ops come in bursts of one kind, longer than a read's interval and shorter than a slow
  // counter's; after a burst comes a pause.
  template <class Deviations>
  void begin(const Deviations& deviations) {
    pausing_ = left_ == 0;
    if (left_ == 0) {
      kind_ = random_() % ops_.size();
      left_ = 1 + static_cast<int>(random_() % 15);
    } else {
      --left_;
    }
    const OpType& op = ops_[kind_];
    const double us = pausing_ ? 100 + static_cast<double>(random_() % 600)
                               : op.us * (0.9 + static_cast<double>(random_() % 1000) * 2e-4);
    const RowId row = pausing_ ? kUnattributed : first_row_ + static_cast<RowId>(kind_);
    running_ = {.start_ns = now_ns_, .end_ns = now_ns_ + std::llround(us * 1e3), .row = row};
    running_.place = place_;
    const double busy = pausing_ ? 0 : 1;
    if (!pausing_) {
      running_.flops_mm = static_cast<std::uint64_t>(op.mflop * 1e6);
      running_.bytes = static_cast<std::uint64_t>(op.mbyte * 1e6);
      busy_ns_ += static_cast<double>(running_.end_ns - running_.start_ns);
    }
    const double length_us = static_cast<double>(running_.end_ns - running_.start_ns) * 1e-3;
    const Features x{length_us / workers_, busy * op.mflop, busy * op.mbyte, busy * length_us};
    for (const Draw& d : draws_)
      uj_[d.domain] = dot(kTruths[d.domain].truth, x) * (1 + deviations[d.domain][row]);
  }

  void pass_ticks() {
    const auto length = static_cast<double>(running_.end_ns - running_.start_ns);
    for (Draw& d : draws_)
      for (std::size_t c = 0; c < d.counters.size(); ++c) {
        const std::int64_t tick = d.counters[c]->tick_ns();
        if (tick >= running_.start_ns && tick < running_.end_ns)
          d.tick_uj[c] =
              d.before_uj + uj_[d.domain] * static_cast<double>(tick - running_.start_ns) / length;
      }
  }

  const std::vector<OpType>& ops_;
  const RowId first_row_;
  const Place place_;
  const int workers_;
  std::vector<Draw> draws_;
  std::mt19937_64& random_;
  Activity running_{};
  std::array<double, kDomains> uj_{};
  std::int64_t now_ns_ = 0;
  double busy_ns_ = 0;
  std::size_t kind_ = 0;
  int left_ = 0;
  bool pausing_ = false;
};

using Profile = std::array<DomainModel, kDomains>;

inline Calibration with_domains(const Profile& profile) {
  Calibration calibration = default_calibration();
  for (std::size_t d = 0; d < kDomains; ++d) calibration.domains[d] = profile[d];
  return calibration;
}

// Books that follow the machine: of the CPU and a GPU whose counter moves every 20 ms, or of a GPU
// alone whose counter moves every 100 ms.
struct Follower {
  Profile profile;
  bool slow_gpu = false;
  bool at_once = false;  // a fault: ends intervals of the GPU whether its counter moved or not
};

struct Outcome {
  double truth_uj = 0, found_uj = 0, low_uj = 0, high_uj = 0;
  bool holds() const { return low_uj <= truth_uj && truth_uj <= high_uj; }
  double error() const { return std::abs(found_uj - truth_uj) / truth_uj; }
};
struct Followed {
  std::vector<Outcome> cpu, gpu;  // by op
};

class SimulatedMachine {
 public:
  explicit SimulatedMachine(std::uint64_t seed) : random_(seed) {
    std::normal_distribution<double> normal;
    for (std::size_t d = 0; d < kDomains; ++d) {
      deviations_[d].push_back(std::max(-0.9, 0.5 * normal(random_)));  // of pauses: nobody knows
      deviations_[d].push_back(0);
      for (RowId r = 0; r < kCpuRows + kGpuRows; ++r)
        deviations_[d].push_back(kTruths[d].misfit * normal(random_));
    }
  }

  // As hgprof calibrate would find it.
  Profile calibrated() {
    Profile profile;
    for (std::size_t d = 0; d < kDomains; ++d) profile[d] = calibrate(kTruths[d], random_);
    return profile;
  }

  std::vector<Followed> run(double seconds, const std::vector<Follower>& followers);

 private:
  std::mt19937_64 random_;
  std::array<std::vector<double>, kDomains> deviations_;  // by row
};

inline void add_counter(ChannelMeter& meter, Domain domain, const char* zone, ReadingError error,
                        Watts most, std::uint64_t largest_uj, const SimulatedCounter& counter) {
  meter.add(domain, CounterSpec{zone, largest_uj, most, Seconds{0.2}, Seconds{1}, error},
            [&counter](std::int64_t now_ns) { return counter.read(now_ns); });
}

inline std::vector<Followed> SimulatedMachine::run(double seconds,
                                                   const std::vector<Follower>& followers) {
  constexpr std::uint64_t kRange = 262143328850;
  const auto phase = [&](std::int64_t period) {
    return -static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(period));
  };
  constexpr ReadingError kRapl{}, kRaplDram{15.3, 1e-3}, kNvml{1000, 0.1};
  SimulatedCounter package0(kMilli, phase(kMilli), 61.035, kRange - 300'000'000, kRange),
      package1(kMilli, phase(kMilli), 61.035, 17, kRange),
      dram(kMilli, phase(kMilli), 15.3, 5, kRange), gpu(20 * kMilli, phase(20 * kMilli), 1000),
      slow(100 * kMilli, phase(100 * kMilli), 1000);
  ChannelMeter meter("simulated"), slow_meter("slow");
  add_counter(meter, Domain::package, "package-0", kRapl, {1000}, kRange, package0);
  add_counter(meter, Domain::package, "package-1", kRapl, {1000}, kRange, package1);
  add_counter(meter, Domain::dram, "dram", kRaplDram, {500}, kRange, dram);
  add_counter(meter, Domain::gpu, "gpu", kNvml, {480}, 0, gpu);
  add_counter(slow_meter, Domain::gpu, "gpu", kNvml, {480}, 0, slow);
  Track thread0(kCpuOps, kFirstOp, Place::cpu, 2, {{kPackage, {&package0}}, {kDram, {&dram}}},
                random_),
      thread1(kCpuOps, kFirstOp, Place::cpu, 2, {{kPackage, {&package1}}, {kDram, {&dram}}},
              random_),
      device(kGpuOps, kFirstOp + kCpuRows, Place::gpu, 1, {{kGpuDomain, {&gpu, &slow}}}, random_);

  std::vector<Attribution> books;
  for (const Follower& f : followers) {
    Attribution::ReadingErrors errors;
    for (std::size_t d = 0; d < kDomains; ++d)
      errors[d] = (f.slow_gpu ? slow_meter : meter).reading_error(static_cast<Domain>(d));
    books.emplace_back(with_domains(f.profile), 2, errors);
  }
  std::vector<double> truth(kFirstOp + kCpuRows + kGpuRows);
  std::vector<Activity> ended;
  const auto note = [&](const Activity& a, const std::array<double, kDomains>& uj) {
    ended.push_back(a);
    truth[a.row] += a.place == Place::gpu ? uj[kGpuDomain] : uj[kPackage] + uj[kDram];
  };
  const auto read_at = [&](std::int64_t now) {
    for (SimulatedCounter* c : {&package0, &package1, &dram, &gpu, &slow}) c->expect_read(now);
    ended.clear();
    thread0.run(now, deviations_, note);
    thread1.run(now, deviations_, note);
    device.run(now, deviations_, note);
    package0.show(thread0.tick_uj(0, 0));
    package1.show(thread1.tick_uj(0, 0));
    dram.show(thread0.tick_uj(1, 0) + thread1.tick_uj(1, 0));
    gpu.show(device.tick_uj(0, 0));
    slow.show(device.tick_uj(0, 1));
    MeterSample sample{meter.read_at(now)}, slow_sample{slow_meter.read_at(now)};
    sample.cpu_ns = slow_sample.cpu_ns = std::llround(thread0.busy_ns(now) + thread1.busy_ns(now));
    return std::pair{sample, slow_sample};
  };
  const auto [first, slow_first] = read_at(kWhole / 4);  // ops had begun before
  std::fill(truth.begin(), truth.end(), 0);
  for (std::size_t f = 0; f < books.size(); ++f)
    books[f].start(followers[f].slow_gpu ? slow_first : first);
  const auto end = kWhole / 4 + static_cast<std::int64_t>(seconds * 1e9);
  for (std::int64_t now = kWhole / 4; now < end;) {
    now += 20 * kMilli + static_cast<std::int64_t>(random_() % 400) * kMicro;
    const auto [sample, slow_sample] = read_at(now);
    const NotedUntil noted{std::min(thread0.running_since(), thread1.running_since()),
                           device.running_since()};
    for (std::size_t f = 0; f < books.size(); ++f) {
      MeterSample mine = followers[f].slow_gpu ? slow_sample : sample;
      if (followers[f].at_once) mine.reading.as_of = {};
      books[f].boundary(mine, followers[f].at_once || now >= end);
      for (const Activity& a : ended) books[f].add(a);
      books[f].close(now >= end ? NotedUntil{} : noted);
    }
  }

  RowTable rows;
  for (RowId r = kFirstOp; r < truth.size(); ++r)
    rows.find_or_add({"forward", "layer", std::to_string(r)});
  std::vector<Followed> all(books.size());
  for (std::size_t f = 0; f < books.size(); ++f) {
    books[f].check();
    const Ledger ledger = make_ledger(books[f], rows, {Kind::measured, "simulated", "", ""});
    check(ledger);
    for (RowId r = kFirstOp; r < truth.size(); ++r) {
      const LedgerRow& row = ledger.rows[r];
      const Outcome outcome{truth[r], static_cast<double>(row.energy_uj),
                            static_cast<double>(row.low_uj), static_cast<double>(row.high_uj)};
      if (r < kFirstOp + kCpuRows)
        all[f].cpu.push_back(outcome);
      else
        all[f].gpu.push_back(outcome);
    }
  }
  return all;
}

}  // namespace hg::testing
