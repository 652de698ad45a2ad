// Shares the meter's energy among the ops that ran (energy/README.md), each domain by itself. Of
// the energy between two moments at which a domain's counter moved each row gets a part in
// proportion to its weight, which the calibration gives:
// static*t + a*FLOPs + b*bytes + c*t. The parts are integer microjoules that sum to the whole. Pure
// bookkeeping: no threads, no clock, no meter.
#pragma once

#include "energy/books/domain_books.h"

namespace hg::energy {

struct RowWork {
  std::uint64_t calls = 0, flops = 0, flops_mm = 0, bytes = 0;
  std::int64_t thread_ns = 0;  // x width
};

class Attribution {
 public:
  using ReadingErrors = std::array<ReadingError, kDomains>;  // by domain
  Attribution(const Calibration& calibration, int workers,
              std::span<const ReadingError, kDomains> errors);
  Attribution(const Calibration& calibration, int workers, ReadingError error = {})
      : Attribution(calibration, workers, ReadingErrors{error, error, error}) {}

  // Readings come in their order, and so do activities, but one may be ahead of the other.
  void start(const MeterSample& first);
  void add(const Activity& activity);
  // Ends the intervals of the domains whose counters have moved. `at_once`: of all.
  void boundary(const MeterSample& sample, bool at_once = false);
  // Attributes every interval that ends before that.
  void close(NotedUntil noted);
  void close(std::int64_t safe_ns) { close({safe_ns, safe_ns}); }

  std::size_t rows() const { return work_.size(); }
  RowWork work(RowId row) const { return work_[row]; }
  std::vector<RowEnergy> energies(std::size_t domain) const { return of(domain).energies(); }
  bool has(std::size_t domain) const { return of(domain).present(); }
  // From the first reading to the last interval attributed.
  std::int64_t total_uj(std::size_t domain) const { return of(domain).total_uj(); }
  // And to the last one that has ended, over all domains.
  std::int64_t marked_uj() const;
  double low_slack(std::size_t domain) const { return of(domain).low_slack(); }
  double high_slack(std::size_t domain) const { return of(domain).high_slack(); }
  std::int64_t closed_ns() const;
  std::int64_t start_ns() const { return start_ns_; }
  int workers() const { return workers_; }
  double reading_variance(std::size_t domain) const { return of(domain).reading_variance(); }
  double quantile(std::size_t domain) const { return of(domain).quantile(); }
  // Throws unless the rows of every domain sum to its total.
  void check() const;
  // What was booked after `earlier`, a copy of this object made when all intervals were closed.
  // Such stretches add up: row by row, to the microjoule. It takes no more activities.
  Attribution since(const Attribution& earlier) const;

 private:
  const DomainBooks& of(std::size_t domain) const { return books_[domain]; }
  void make_room(RowId row);

  const int workers_;
  std::int64_t start_ns_ = 0, first_own_ns_ = 0;
  std::vector<RowWork> work_;
  std::array<DomainBooks, kDomains> books_;
};

}  // namespace hg::energy
