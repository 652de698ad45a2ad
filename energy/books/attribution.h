// Shares the meter's energy among the ops that ran (energy/README.md). Of the energy between two
// readings each row gets a part in proportion to its weight, which the calibration gives:
// static*t + a*FLOPs + b*bytes + c*t. The parts are integer microjoules that sum to the whole. Pure
// bookkeeping: no threads, no clock, no meter.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "energy/books/calibration.h"

namespace hg::energy {

using RowId = std::uint32_t;
inline constexpr RowId kUnattributed = 0, kProfiler = 1, kFirstOp = 2;

// One op call, or one part of a fused one, on the thread that ran it.
struct Activity {
  std::int64_t start_ns = 0, end_ns = 0;
  std::uint64_t flops_mm = 0, flops_ew = 0, bytes = 0;
  RowId row = 0;
  std::uint32_t width = 1;  // threads it occupied

  std::uint64_t flops() const { return flops_mm + flops_ew; }
};

// A reading of the meter, with the CPU time used by then.
struct MeterSample {
  Reading reading;
  std::int64_t cpu_ns = 0;  // of all threads of the process
  std::int64_t own_ns = 0;  // of the profiler
};

// What a row adds up to. Its energy is an exact sum of integers; the other figures are estimates.
struct RowEnergy {
  std::int64_t energy_uj = 0;
  double static_uj = 0;
  double variance = 0;                   // of the energy, uJ^2
  double low_slack = 0, high_slack = 0;  // from the bounds of the meter
};

struct RowWork {
  std::uint64_t calls = 0, flops = 0, flops_mm = 0, bytes = 0;
  std::int64_t thread_ns = 0;  // x width
};

// Non-negative integers that sum to `total`, near their targets: those are rounded down, then the
// ones with the largest remainders up. If the targets do not sum to `total`, the first part takes
// the difference.
class Apportioner {
 public:
  void operator()(std::int64_t total, std::span<const double> targets,
                  std::span<std::int64_t> parts);

 private:
  std::vector<std::uint32_t> order_;
};

class Attribution {
 public:
  Attribution(const Calibration& calibration, int workers, ReadingError error = {});

  // Readings come in their order, and so do activities, but one may be ahead of the other.
  void start(const MeterSample& first);
  void add(const Activity& activity);
  void boundary(const MeterSample& sample);
  // Attributes every interval that ends at or before `safe_ns`: all activities that began before
  // that time have been added.
  void close(std::int64_t safe_ns);

  std::size_t rows() const { return work_.size(); }
  RowWork work(RowId row) const { return work_[row]; }
  std::vector<RowEnergy> energies(std::size_t domain) const;  // by row
  // From the first reading to the last interval attributed.
  bool has(std::size_t domain) const { return books_[domain].present; }
  std::int64_t total_uj(std::size_t domain) const;
  double low_slack(std::size_t domain) const { return books_[domain].low.now; }
  double high_slack(std::size_t domain) const { return books_[domain].high.now; }
  std::int64_t closed_ns() const { return closed_ns_; }
  std::int64_t start_ns() const { return start_ns_; }
  int workers() const { return workers_; }
  double reading_variance(std::size_t domain) const { return books_[domain].reading_variance; }
  double quantile(std::size_t domain) const {
    return student_quantile(books_[domain].model.degrees);
  }
  // Throws unless the rows of every domain sum to its total.
  void check() const;
  // What was booked after `earlier`, a copy of this object made when all intervals were closed.
  // Such stretches add up: row by row, to the microjoule. It takes no more activities.
  Attribution since(const Attribution& earlier) const;

 private:
  struct Usage {
    double thread_ns = 0, flops = 0, bytes = 0;
  };
  struct Interval {
    std::int64_t begin_ns = 0, end_ns = 0;
    MeterSample end;
    std::vector<Usage> usage;  // by row
  };
  struct Account {
    std::int64_t booked = 0;
    double carry = 0;  // share minus what is booked
    double share = 0;  // uJ
    double static_share = 0;
    double squared = 0;    // Sum_k E_k p_k^2
    Features gradient{};   // d share / d coefficients
    double last_part = 0;  // p of the last interval
    double jitter = 0;     // Sum_k (p_k - p_k+1)^2 Var(reading)
    double low_slack = 0, high_slack = 0;

    void subtract(const Account& earlier, double reading_variance);
  };
  // Uncertainty of the meter itself; it may shrink again.
  struct Slack {
    double before = 0;  // at the first reading
    double now = 0;     // since then, as the meter says
    double booked = 0;  // since then, as rows got it
    double grow(double reading);
    void subtract(const Slack& earlier);
  };
  struct Book {
    bool present = false;
    DomainModel model;
    std::vector<Account> accounts;
    Slack low, high;
    double reading_variance = 0;
  };

  void make_room(RowId row);
  void put(Interval& interval, const Activity& activity, std::int64_t from, std::int64_t to);
  void attribute(Interval& interval);
  void add_gaps(Interval& interval) const;
  void book(std::size_t domain, const Interval& interval);
  Features features(const Usage& usage) const;

  const Calibration calibration_;
  const int workers_;
  const ReadingError error_;
  std::int64_t start_ns_ = 0, closed_ns_ = 0;
  Reading first_;
  MeterSample closed_;           // the boundary before the first open interval
  std::vector<Interval> open_;   // attributed in order; the last one has no end yet
  std::vector<Interval> spare_;  // used intervals, so that steady state allocates nothing
  std::vector<RowWork> work_;
  std::array<Book, kDomains> books_;
  // Scratch of book(), by row.
  std::vector<Features> features_;
  std::vector<double> weights_, targets_;
  std::vector<std::int64_t> parts_;
  Apportioner apportion_;
};

}  // namespace hg::energy
