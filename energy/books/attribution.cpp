#include "energy/books/attribution.h"

#include <algorithm>

#include "tensor/base/error.h"

namespace hg::energy {

Attribution::Attribution(const Calibration& calibration, int workers,
                         std::span<const ReadingError, kDomains> errors)
    : workers_(workers),
      books_{DomainBooks(Domain::package, calibration, workers, errors[0]),
             DomainBooks(Domain::dram, calibration, workers, errors[1]),
             DomainBooks(Domain::gpu, calibration, 1, errors[2])} {
  require(workers > 0, "attribution", "{} worker threads", workers);
}

void Attribution::start(const MeterSample& first) {
  start_ns_ = first.reading.time_ns;
  first_own_ns_ = first.own_ns;
  for (DomainBooks& books : books_) books.start(first);
  make_room(kProfiler);
}

void Attribution::make_room(RowId row) {
  if (row < work_.size()) return;
  for (DomainBooks& books : books_) books.make_room(row + 1);
  work_.resize(row + 1);  // last: it says that there is room, which memory may not be enough for
}

void Attribution::add(const Activity& a) {
  make_room(a.row);
  if (a.place != Place::launch) {
    RowWork& work = work_[a.row];
    ++work.calls;
    work.flops += a.flops();
    work.flops_mm += a.flops_mm;
    work.bytes += a.bytes;
    work.thread_ns += (a.end_ns - a.start_ns) * a.width;
  }
  for (DomainBooks& books : books_) books.add(a);
}

void Attribution::boundary(const MeterSample& sample, bool at_once) {
  work_[kProfiler].thread_ns = std::max<std::int64_t>(0, sample.own_ns - first_own_ns_);
  for (DomainBooks& books : books_) books.boundary(sample, at_once);
}

void Attribution::close(NotedUntil noted) {
  for (std::size_t d = 0; d < kDomains; ++d)
    books_[d].close(static_cast<Domain>(d) == Domain::gpu ? noted.gpu_ns : noted.cpu_ns);
}

std::int64_t Attribution::marked_uj() const {
  std::int64_t sum = 0;
  for (const DomainBooks& books : books_)
    if (books.present()) sum += books.marked_uj();
  return sum;
}

std::int64_t Attribution::closed_ns() const {
  std::int64_t last = start_ns_;
  for (const DomainBooks& books : books_)
    if (books.present()) last = std::max(last, books.closed_ns());
  return last;
}

Attribution Attribution::since(const Attribution& earlier) const {
  Attribution stretch = *this;
  stretch.start_ns_ = earlier.closed_ns();
  for (RowId r = 0; r < earlier.rows(); ++r) {
    RowWork& work = stretch.work_[r];
    const RowWork& before = earlier.work_[r];
    work.calls -= before.calls;
    work.flops -= before.flops;
    work.flops_mm -= before.flops_mm;
    work.bytes -= before.bytes;
    work.thread_ns -= before.thread_ns;
  }
  for (std::size_t d = 0; d < kDomains; ++d) stretch.books_[d].subtract(earlier.books_[d]);
  return stretch;
}

void Attribution::check() const {
  for (const DomainBooks& books : books_) books.check();
}

}  // namespace hg::energy
