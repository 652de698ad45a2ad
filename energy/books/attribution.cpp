#include "energy/books/attribution.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensor/base/error.h"

namespace hg::energy {
namespace {

constexpr std::size_t kMostOpen = 16;  // intervals; more are joined, while a long op runs
constexpr double kGapMisfit = 0.5;     // nobody knows what threads did outside ops

std::int64_t energy_of(const Reading& r, std::size_t d) { return r.domains[d]->energy.value; }
double low_slack_of(const Reading& r, std::size_t d) {
  return static_cast<double>(energy_of(r, d) - r.domains[d]->low.value);
}
double high_slack_of(const Reading& r, std::size_t d) {
  return static_cast<double>(r.domains[d]->high.value - energy_of(r, d));
}

double quadratic(const Covariance& c, const Features& g) {
  double sum = 0;
  for (std::size_t i = 0; i < kCoefficients; ++i)
    for (std::size_t j = 0; j < kCoefficients; ++j) sum += g[i] * c[i][j] * g[j];
  return sum;
}

double square(double x) { return x * x; }

}  // namespace

void Apportioner::operator()(std::int64_t total, std::span<const double> targets,
                             std::span<std::int64_t> parts) {
  const auto n = static_cast<std::int64_t>(parts.size());
  std::int64_t left = total;
  for (std::size_t i = 0; i < parts.size(); ++i)
    left -= parts[i] = static_cast<std::int64_t>(std::floor(std::max(0.0, targets[i])));
  if (left > 0 && left < n) {
    order_.resize(parts.size());
    std::iota(order_.begin(), order_.end(), 0u);
    const auto missing = [&](std::uint32_t i) {
      return targets[i] - static_cast<double>(parts[i]);
    };
    std::nth_element(order_.begin(), order_.begin() + (left - 1), order_.end(),
                     [&](std::uint32_t a, std::uint32_t b) {
                       const double ma = missing(a), mb = missing(b);
                       return ma > mb || (ma == mb && a < b);
                     });
    for (std::int64_t k = 0; k < left; ++k) ++parts[order_[static_cast<std::size_t>(k)]];
    return;
  }
  parts[0] += left;
  // Negative targets were rounded up to 0, so others must give a microjoule.
  for (std::size_t i = 0; parts[0] < 0; i = (i + 1) % parts.size())
    if (i > 0 && parts[i] > 0) --parts[i], ++parts[0];
}

Attribution::Attribution(const Calibration& calibration, int workers, ReadingError error)
    : calibration_(calibration), workers_(workers), error_(error) {
  require(workers > 0, "attribution", "{} worker threads", workers);
}

void Attribution::start(const MeterSample& first) {
  start_ns_ = closed_ns_ = first.reading.time_ns;
  first_ = first.reading;
  closed_ = first;
  for (std::size_t d = 0; d < kDomains; ++d) {
    books_[d].present = first.reading.domains[d].has_value();
    books_[d].model = calibration_.domain(d);
    if (!books_[d].present) continue;
    books_[d].low.before = low_slack_of(first_, d);
    books_[d].high.before = high_slack_of(first_, d);
  }
  open_.clear();
  open_.reserve(kMostOpen);
  open_.emplace_back().begin_ns = start_ns_;
  spare_.resize(kMostOpen - 1);
  make_room(kProfiler);
}

void Attribution::make_room(RowId row) {
  if (row < work_.size()) return;
  const std::size_t n = row + 1;
  for (Book& book : books_) book.accounts.resize(n);
  for (Interval& i : open_) i.usage.resize(n);
  for (Interval& i : spare_) i.usage.resize(n);
  features_.resize(n);
  weights_.resize(n);
  targets_.resize(n);
  parts_.resize(n);
  work_.resize(n);  // last: it says that there is room, which memory may not be enough for
}

void Attribution::add(const Activity& a) {
  make_room(a.row);
  RowWork& work = work_[a.row];
  ++work.calls;
  work.flops += a.flops();
  work.flops_mm += a.flops_mm;
  work.bytes += a.bytes;
  work.thread_ns += (a.end_ns - a.start_ns) * a.width;
  // An activity that comes too late for its interval goes into the first open one.
  std::int64_t from = a.start_ns;
  for (std::size_t i = 0; i < open_.size(); ++i) {
    const bool last = i + 1 == open_.size() || a.end_ns <= open_[i].end_ns;
    const std::int64_t to = last ? a.end_ns : std::max(from, open_[i].end_ns);
    if (last || to > from) put(open_[i], a, from, to);
    if (last) return;
    from = to;
  }
}

void Attribution::put(Interval& interval, const Activity& a, std::int64_t from, std::int64_t to) {
  const std::int64_t whole = a.end_ns - a.start_ns;
  const double part = whole > 0 ? static_cast<double>(to - from) / static_cast<double>(whole) : 1;
  Usage& usage = interval.usage[a.row];
  usage.thread_ns += static_cast<double>(to - from) * a.width;
  usage.flops += part * static_cast<double>(a.flops());
  usage.bytes += part * static_cast<double>(a.bytes);
}

void Attribution::boundary(const MeterSample& sample) {
  if (open_.size() == kMostOpen) {  // join the last two: the boundary between them is forgotten
    Interval& before = open_[open_.size() - 2];
    for (std::size_t r = 0; r < rows(); ++r) {
      before.usage[r].thread_ns += open_.back().usage[r].thread_ns;
      before.usage[r].flops += open_.back().usage[r].flops;
      before.usage[r].bytes += open_.back().usage[r].bytes;
    }
    spare_.push_back(std::move(open_.back()));
    open_.pop_back();
  }
  open_.back().end_ns = sample.reading.time_ns;
  open_.back().end = sample;
  Interval next = std::move(spare_.back());
  spare_.pop_back();
  next.usage.assign(rows(), {});
  next.begin_ns = sample.reading.time_ns;
  open_.push_back(std::move(next));
}

void Attribution::close(std::int64_t safe_ns) {
  while (open_.size() > 1 && open_.front().end_ns <= safe_ns) {
    attribute(open_.front());
    closed_ = open_.front().end;
    closed_ns_ = open_.front().end_ns;
    spare_.push_back(std::move(open_.front()));
    open_.erase(open_.begin());
  }
}

void Attribution::attribute(Interval& interval) {
  add_gaps(interval);
  work_[kProfiler].thread_ns += std::llround(interval.usage[kProfiler].thread_ns);
  for (std::size_t r = 0; r < rows(); ++r) features_[r] = features(interval.usage[r]);
  // Wall time is counted once: threads outside ops get what ops have left.
  double covered = 0;
  for (std::size_t r = kProfiler; r < rows(); ++r) covered += features_[r][0];
  const double wall_us = static_cast<double>(interval.end_ns - interval.begin_ns) * 1e-3;
  features_[kUnattributed][0] = std::max(0.0, wall_us - covered);
  for (std::size_t d = 0; d < kDomains; ++d)
    if (books_[d].present) book(d, interval);
}

// Thread time outside ops: the profiler's own, and the rest of what the process used.
void Attribution::add_gaps(Interval& interval) const {
  double ops = 0;
  for (std::size_t r = kFirstOp; r < rows(); ++r) ops += interval.usage[r].thread_ns;
  const auto own = static_cast<double>(interval.end.own_ns - closed_.own_ns);
  const auto used = static_cast<double>(interval.end.cpu_ns - closed_.cpu_ns);
  interval.usage[kProfiler].thread_ns = std::max(0.0, own);
  interval.usage[kUnattributed].thread_ns = std::max(0.0, used - ops - own);
}

Features Attribution::features(const Usage& usage) const {
  return {usage.thread_ns * 1e-3 / workers_, usage.flops * 1e-6, usage.bytes * 1e-6,
          usage.thread_ns * 1e-3};
}

// With p = w / W, share = E p:  d share / d theta = E (x - p X) / W.
void Attribution::book(std::size_t d, const Interval& interval) {
  Book& book = books_[d];
  const Reading &from = closed_.reading, &to = interval.end.reading;
  const std::int64_t energy = energy_of(to, d) - energy_of(from, d);
  const Coefficients& c = book.model.coefficients;
  double sum = 0;
  Features all{};
  for (std::size_t r = 0; r < rows(); ++r) {
    sum += weights_[r] = dot(c, features_[r]);
    for (std::size_t i = 0; i < kCoefficients; ++i) all[i] += features_[r][i];
  }
  if (sum <= 0) weights_[kUnattributed] = sum = 1;
  const double e = static_cast<double>(energy);
  const double wall_s = static_cast<double>(interval.end_ns - interval.begin_ns) * 1e-9;
  const double power = wall_s > 0 ? e / wall_s : 0;
  book.reading_variance = (square(error_.quantum_uj) + square(power * error_.update_period_s)) / 12;
  const double low = book.low.grow(low_slack_of(to, d));
  const double high = book.high.grow(high_slack_of(to, d));
  for (std::size_t r = 0; r < rows(); ++r) {
    Account& a = book.accounts[r];
    const double p = weights_[r] / sum;
    a.share += e * p;
    a.static_share += e * c[0] * features_[r][0] / sum;
    a.squared += e * p * p;
    for (std::size_t i = 0; i < kCoefficients; ++i)
      a.gradient[i] += e * (features_[r][i] - p * all[i]) / sum;
    a.jitter += square(p - a.last_part) * book.reading_variance;
    a.last_part = p;
    a.low_slack += p * low;
    a.high_slack += p * high;
    targets_[r] = e * p + a.carry;
  }
  apportion_(energy, targets_, parts_);
  for (std::size_t r = 0; r < rows(); ++r) {
    book.accounts[r].carry = targets_[r] - static_cast<double>(parts_[r]);
    book.accounts[r].booked += parts_[r];
  }
}

double Attribution::Slack::grow(double reading) {
  const double since = std::max(0.0, reading - before), more = std::max(0.0, since - now);
  now = since;
  booked += more;
  return more;
}

std::int64_t Attribution::total_uj(std::size_t d) const {
  return books_[d].present ? energy_of(closed_.reading, d) - energy_of(first_, d) : 0;
}

// Three sources of error: the coefficients (their covariance through the gradient), the op's own
// deviation from the model (independent for each row j: own part (1 - p_i), others' p_j), and the
// readings (each one moves energy from one interval to the next).
std::vector<RowEnergy> Attribution::energies(std::size_t d) const {
  const Book& book = books_[d];
  const auto total = static_cast<double>(std::max<std::int64_t>(1, total_uj(d)));
  const auto misfit = [&](RowId r) { return r == kUnattributed ? kGapMisfit : book.model.misfit; };
  double all = 0;
  for (RowId r = 0; r < rows(); ++r) all += square(misfit(r) * book.accounts[r].share / total);
  const auto slack = [](double mine, const Slack& s) {
    return s.booked > 0 ? mine * s.now / s.booked : 0;
  };
  std::vector<RowEnergy> result(rows());
  for (RowId r = 0; r < rows() && book.present; ++r) {
    const Account& a = book.accounts[r];
    const double own = misfit(r), others = all - square(own * a.share / total);
    const double alone = a.share > 0 ? 1 - a.squared / a.share : 0;
    const double variance = quadratic(book.model.covariance, a.gradient) +
                            square(a.share) * (square(own * alone) + others) + a.jitter +
                            square(a.last_part) * book.reading_variance;
    result[r] = {a.booked, std::min(a.static_share, static_cast<double>(a.booked)), variance,
                 slack(a.low_slack, book.low), slack(a.high_slack, book.high)};
  }
  return result;
}

Attribution Attribution::since(const Attribution& earlier) const {
  Attribution stretch = *this;
  stretch.start_ns_ = earlier.closed_ns_;
  stretch.first_ = earlier.closed_.reading;
  for (RowId r = 0; r < earlier.rows(); ++r) {
    RowWork& work = stretch.work_[r];
    const RowWork& before = earlier.work_[r];
    work.calls -= before.calls;
    work.flops -= before.flops;
    work.flops_mm -= before.flops_mm;
    work.bytes -= before.bytes;
    work.thread_ns -= before.thread_ns;
  }
  for (std::size_t d = 0; d < kDomains; ++d) {
    Book& book = stretch.books_[d];
    const Book& before = earlier.books_[d];
    for (RowId r = 0; r < earlier.rows(); ++r)
      book.accounts[r].subtract(before.accounts[r], before.reading_variance);
    book.low.subtract(before.low);
    book.high.subtract(before.high);
  }
  return stretch;
}

// All of it are sums. The error of the first reading counts with p_1^2, of which jitter has
// (p_1 - p_0)^2: p_1^2 <= 2 (p_1 - p_0)^2 + 2 p_0^2.
void Attribution::Account::subtract(const Account& earlier, double reading_variance) {
  booked -= earlier.booked;
  share -= earlier.share;
  static_share -= earlier.static_share;
  squared -= earlier.squared;
  for (std::size_t i = 0; i < kCoefficients; ++i) gradient[i] -= earlier.gradient[i];
  jitter = 2 * (jitter - earlier.jitter + square(earlier.last_part) * reading_variance);
  low_slack -= earlier.low_slack;
  high_slack -= earlier.high_slack;
}

void Attribution::Slack::subtract(const Slack& earlier) {
  before += earlier.now;
  now = std::max(0.0, now - earlier.now);
  booked -= earlier.booked;
}

void Attribution::check() const {
  for (std::size_t d = 0; d < kDomains; ++d) {
    std::int64_t sum = 0;
    for (const Account& a : books_[d].accounts) sum += a.booked;
    require(sum == total_uj(d), "energy books",
            "do not close: the rows of {} sum to {} uJ, the meter counted {} uJ", name_of_domain(d),
            sum, total_uj(d));
  }
}

}  // namespace hg::energy
