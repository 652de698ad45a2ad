// The books of one domain: intervals between moments at which its own counter moved, and what each
// row got of their energy. Package and dram belong to work on the CPU, gpu to work on the GPU.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "energy/books/activity.h"
#include "energy/books/calibration.h"

namespace hg::energy {

// What a row adds up to. Its energy is an exact sum of integers; the other figures are estimates.
struct RowEnergy {
  std::int64_t energy_uj = 0;
  double static_uj = 0;
  double variance = 0;                   // of the energy, uJ^2
  double low_slack = 0, high_slack = 0;  // from the bounds of the meter
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

class DomainBooks {
 public:
  DomainBooks(Domain domain, const Calibration& calibration, int workers, ReadingError error);

  void start(const MeterSample& first);
  bool present() const { return present_; }
  void make_room(RowId rows);
  void add(const Activity& activity);
  // Ends the interval if the counter has moved. `at_once`: ends it now in any case.
  void boundary(const MeterSample& sample, bool at_once);
  // Attributes every interval that ends at or before `safe_ns`.
  void close(std::int64_t safe_ns);

  // Leaves what was booked after `earlier`, a copy of this object.
  void subtract(const DomainBooks& earlier);

  std::vector<RowEnergy> energies() const;               // by row
  std::int64_t closed_ns() const { return closed_ns_; }  // end of the last interval attributed
  std::int64_t total_uj() const { return total_uj(closed_); }
  std::int64_t marked_uj() const { return total_uj(marked_); }  // as of the last boundary
  double low_slack() const { return low_.shown; }
  double high_slack() const { return high_.shown; }
  double reading_variance() const { return reading_variance_; }
  double quantile() const { return student_quantile(model_.degrees); }
  void check() const;  // throws unless the rows sum to the total

 private:
  struct Usage {
    double thread_ns = 0, flops = 0, bytes = 0;
    Usage& operator+=(const Usage& more);
  };
  struct Interval {
    std::int64_t begin_ns = 0, end_ns = 0;
    std::int64_t span_ns = -1;  // in which the end may lie; -1: the usual one of the counter
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
    double now = 0;     // since then, at the last interval
    double booked = 0;  // since then, as rows got it
    double shown = 0;   // since then, as the meter says; rows are scaled to it
    void show(double reading) { shown = std::max(0.0, reading - before); }
    double grow(double reading);
    void subtract(const Slack& earlier);
  };

  bool concerns(const Activity& activity) const;
  const Counted& counted(const MeterSample& sample) const;
  std::int64_t total_uj(const MeterSample& sample) const;
  double low_slack_of(const MeterSample& sample) const;
  double high_slack_of(const MeterSample& sample) const;
  std::int64_t moment_of(const MeterSample& sample) const;
  void open_next(std::int64_t begin_ns);
  void join_last();
  void put(Interval& interval, const Activity& activity, std::int64_t from, std::int64_t to);
  void attribute(Interval& interval);
  void add_gaps(Interval& interval) const;
  void measure_features(const Interval& interval);
  double weigh();
  double variance_of(const Interval& interval, double energy) const;
  void book(const Interval& interval);
  Features features(const Usage& usage) const;

  const Domain domain_;
  const DomainModel model_;
  const int workers_;
  const ReadingError error_;
  bool present_ = false;
  std::int64_t closed_ns_ = 0;
  MeterSample first_, marked_;
  MeterSample closed_;           // the boundary before the first open interval
  std::vector<Interval> open_;   // attributed in order; the last one has no end yet
  std::vector<Interval> spare_;  // used intervals, so that steady state allocates nothing
  std::vector<Account> accounts_;
  Slack low_, high_;
  double reading_variance_ = 0;
  // Scratch of attribute(), by row.
  std::vector<Features> features_;
  Features all_{};
  std::vector<double> weights_, targets_;
  std::vector<std::int64_t> parts_;
  Apportioner apportion_;
};

}  // namespace hg::energy
