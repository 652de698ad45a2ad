#include "energy/books/domain_books.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensor/base/error.h"

namespace hg::energy {
namespace {

constexpr std::size_t kMostOpen = 16;  // intervals; more are joined, while a long op runs
constexpr double kGapMisfit = 0.5;     // nobody knows what threads did outside ops

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

DomainBooks::DomainBooks(Domain domain, const Calibration& calibration, int workers,
                         ReadingError error)
    : domain_(domain),
      model_(calibration.domain(static_cast<std::size_t>(domain))),
      workers_(workers),
      error_(error) {}

// Launches take a thread's time, and calls on the GPU nothing else of the CPU.
bool DomainBooks::concerns(const Activity& a) const {
  return present_ && (a.place == Place::gpu) == (domain_ == Domain::gpu);
}

const Counted& DomainBooks::counted(const MeterSample& sample) const {
  return *sample.reading.domains[static_cast<std::size_t>(domain_)];
}

std::int64_t DomainBooks::total_uj(const MeterSample& sample) const {
  return present_ ? (counted(sample).energy - counted(first_).energy).value : 0;
}

double DomainBooks::low_slack_of(const MeterSample& sample) const {
  return static_cast<double>((counted(sample).energy - counted(sample).low).value);
}
double DomainBooks::high_slack_of(const MeterSample& sample) const {
  return static_cast<double>((counted(sample).high - counted(sample).energy).value);
}

std::int64_t DomainBooks::moment_of(const MeterSample& sample) const {
  const AsOf& as_of = sample.reading.as_of[static_cast<std::size_t>(domain_)];
  return as_of.time_ns > 0 ? as_of.time_ns : sample.reading.time_ns;
}

void DomainBooks::start(const MeterSample& first) {
  present_ = first.reading.domains[static_cast<std::size_t>(domain_)].has_value();
  first_ = marked_ = closed_ = first;
  closed_ns_ = first.reading.time_ns;
  open_.clear();
  open_.reserve(kMostOpen);
  spare_.resize(kMostOpen);
  if (!present_) return;
  low_.before = low_slack_of(first);
  high_.before = high_slack_of(first);
  open_next(moment_of(first));
}

void DomainBooks::make_room(RowId rows) {
  if (!present_) return;
  accounts_.resize(rows);
  for (Interval& i : open_) i.usage.resize(rows);
  for (Interval& i : spare_) i.usage.resize(rows);
  features_.resize(rows);
  weights_.resize(rows);
  targets_.resize(rows);
  parts_.resize(rows);
}

void DomainBooks::open_next(std::int64_t begin_ns) {
  open_.push_back(std::move(spare_.back()));
  spare_.pop_back();
  open_.back().usage.assign(accounts_.size(), {});
  open_.back().begin_ns = begin_ns;
}

DomainBooks::Usage& DomainBooks::Usage::operator+=(const Usage& more) {
  thread_ns += more.thread_ns;
  flops += more.flops;
  bytes += more.bytes;
  return *this;
}

void DomainBooks::add(const Activity& a) {
  if (!concerns(a)) return;
  if (open_.size() == 1 || a.start_ns >= open_.back().begin_ns)  // nearly always
    return put(open_.back(), a, a.start_ns, a.end_ns);
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

// The GPU counts as one thread, whatever the width.
void DomainBooks::put(Interval& interval, const Activity& a, std::int64_t from, std::int64_t to) {
  const std::int64_t whole = a.end_ns - a.start_ns;
  const double part =
      to - from != whole ? static_cast<double>(to - from) / static_cast<double>(whole) : 1;
  const int width = domain_ == Domain::gpu ? 1 : a.width;
  interval.usage[a.row] +=
      {static_cast<double>(to - from) * width, part * static_cast<double>(a.flops()),
       part * static_cast<double>(a.bytes)};
}

void DomainBooks::boundary(const MeterSample& sample, bool at_once) {
  if (!present_) return;
  low_.show(low_slack_of(sample));
  high_.show(high_slack_of(sample));
  const std::int64_t begin = open_.back().begin_ns, moment = moment_of(sample);
  const bool moved = counted(sample).energy != counted(marked_).energy && moment > begin;
  if (!moved && !at_once) return;
  if (open_.size() == kMostOpen) join_last();
  Interval& ended = open_.back();
  ended.end_ns = std::max(ended.begin_ns, at_once ? sample.reading.time_ns : moment);
  const AsOf& as_of = sample.reading.as_of[static_cast<std::size_t>(domain_)];
  ended.span_ns = as_of.time_ns > 0 ? as_of.span_ns : -1;
  ended.end = marked_ = sample;
  open_next(ended.end_ns);
}

// The boundary between the last two is forgotten.
void DomainBooks::join_last() {
  Interval& before = open_[open_.size() - 2];
  for (std::size_t r = 0; r < before.usage.size(); ++r) before.usage[r] += open_.back().usage[r];
  spare_.push_back(std::move(open_.back()));
  open_.pop_back();
}

void DomainBooks::close(std::int64_t safe_ns) {
  while (open_.size() > 1 && open_.front().end_ns <= safe_ns) {
    attribute(open_.front());
    closed_ = open_.front().end;
    closed_ns_ = open_.front().end_ns;
    spare_.push_back(std::move(open_.front()));
    open_.erase(open_.begin());
  }
}

void DomainBooks::attribute(Interval& interval) {
  if (domain_ != Domain::gpu) add_gaps(interval);
  measure_features(interval);
  book(interval);
}

// Thread time outside ops: the profiler's own, and the rest of what the process used.
void DomainBooks::add_gaps(Interval& interval) const {
  double ops = 0;
  for (std::size_t r = kFirstOp; r < interval.usage.size(); ++r) ops += interval.usage[r].thread_ns;
  const auto own = static_cast<double>(interval.end.own_ns - closed_.own_ns);
  const auto used = static_cast<double>(interval.end.cpu_ns - closed_.cpu_ns);
  interval.usage[kProfiler].thread_ns = std::max(0.0, own);
  interval.usage[kUnattributed].thread_ns = std::max(0.0, used - ops - own);
}

// Wall time is counted once: threads outside ops get what ops have left.
void DomainBooks::measure_features(const Interval& interval) {
  const std::size_t rows = interval.usage.size();
  for (std::size_t r = 0; r < rows; ++r) features_[r] = features(interval.usage[r]);
  double covered = 0;
  for (std::size_t r = kProfiler; r < rows; ++r) covered += features_[r][0];
  const double wall_us = static_cast<double>(interval.end_ns - interval.begin_ns) * 1e-3;
  features_[kUnattributed][0] = std::max(0.0, wall_us - covered);
}

Features DomainBooks::features(const Usage& usage) const {
  return {usage.thread_ns * 1e-3 / workers_, usage.flops * 1e-6, usage.bytes * 1e-6,
          usage.thread_ns * 1e-3};
}

// The sum of the rows' weights.
double DomainBooks::weigh() {
  double sum = 0;
  all_ = {};
  for (std::size_t r = 0; r < features_.size(); ++r) {
    sum += weights_[r] = dot(model_.coefficients, features_[r]);
    for (std::size_t i = 0; i < kCoefficients; ++i) all_[i] += features_[r][i];
  }
  return sum > 0 ? sum : (weights_[kUnattributed] = 1);
}

// Of the reading that ended an interval: its unit, and what was drawn while it may have moved.
double DomainBooks::variance_of(const Interval& interval, double energy) const {
  const double wall_s = static_cast<double>(interval.end_ns - interval.begin_ns) * 1e-9;
  const double power = wall_s > 0 ? energy / wall_s : 0;
  const double span_s =
      interval.span_ns < 0 ? error_.update_period_s : static_cast<double>(interval.span_ns) * 1e-9;
  return (square(error_.quantum_uj) + square(power * span_s)) / 12;
}

// With p = w / W, share = E p:  d share / d theta = E (x - p X) / W.
void DomainBooks::book(const Interval& interval) {
  const std::int64_t energy = (counted(interval.end).energy - counted(closed_).energy).value;
  const double sum = weigh();
  const double e = static_cast<double>(energy);
  reading_variance_ = variance_of(interval, e);
  const double low = low_.grow(low_slack_of(interval.end));
  const double high = high_.grow(high_slack_of(interval.end));
  for (std::size_t r = 0; r < accounts_.size(); ++r) {
    Account& a = accounts_[r];
    const double p = weights_[r] / sum;
    a.share += e * p;
    a.static_share += e * model_.coefficients[0] * features_[r][0] / sum;
    a.squared += e * p * p;
    for (std::size_t i = 0; i < kCoefficients; ++i)
      a.gradient[i] += e * (features_[r][i] - p * all_[i]) / sum;
    a.jitter += square(p - a.last_part) * reading_variance_;
    a.last_part = p;
    a.low_slack += p * low;
    a.high_slack += p * high;
    targets_[r] = e * p + a.carry;
  }
  apportion_(energy, targets_, parts_);
  for (std::size_t r = 0; r < accounts_.size(); ++r) {
    accounts_[r].carry = targets_[r] - static_cast<double>(parts_[r]);
    accounts_[r].booked += parts_[r];
  }
}

double DomainBooks::Slack::grow(double reading) {
  const double since = std::max(0.0, reading - before), more = std::max(0.0, since - now);
  now = since;
  booked += more;
  return more;
}

// Three sources of error: the coefficients (their covariance through the gradient), the op's own
// deviation from the model (independent for each row j: own part (1 - p_i), others' p_j), and the
// readings (each one moves energy from one interval to the next).
std::vector<RowEnergy> DomainBooks::energies() const {
  const auto total = static_cast<double>(std::max<std::int64_t>(1, total_uj()));
  const auto misfit = [&](RowId r) { return r == kUnattributed ? kGapMisfit : model_.misfit; };
  double all = 0;
  for (RowId r = 0; r < accounts_.size(); ++r)
    all += square(misfit(r) * accounts_[r].share / total);
  const auto slack = [](double mine, const Slack& s) {
    return s.booked > 0 ? mine * s.shown / s.booked : 0;
  };
  std::vector<RowEnergy> result(accounts_.size());
  for (RowId r = 0; r < accounts_.size(); ++r) {
    const Account& a = accounts_[r];
    const double own = misfit(r), others = all - square(own * a.share / total);
    const double alone = a.share > 0 ? 1 - a.squared / a.share : 0;
    const double variance = quadratic(model_.covariance, a.gradient) +
                            square(a.share) * (square(own * alone) + others) + a.jitter +
                            square(a.last_part) * reading_variance_;
    result[r] = {a.booked, std::min(a.static_share, static_cast<double>(a.booked)), variance,
                 slack(a.low_slack, low_), slack(a.high_slack, high_)};
  }
  return result;
}

void DomainBooks::subtract(const DomainBooks& earlier) {
  first_ = earlier.closed_;
  for (std::size_t r = 0; r < earlier.accounts_.size(); ++r)
    accounts_[r].subtract(earlier.accounts_[r], earlier.reading_variance_);
  low_.subtract(earlier.low_);
  high_.subtract(earlier.high_);
}

// All of it are sums. The error of the first reading counts with p_1^2, of which jitter has
// (p_1 - p_0)^2: p_1^2 <= 2 (p_1 - p_0)^2 + 2 p_0^2.
void DomainBooks::Account::subtract(const Account& earlier, double reading_variance) {
  booked -= earlier.booked;
  share -= earlier.share;
  static_share -= earlier.static_share;
  squared -= earlier.squared;
  for (std::size_t i = 0; i < kCoefficients; ++i) gradient[i] -= earlier.gradient[i];
  jitter = 2 * (jitter - earlier.jitter + square(earlier.last_part) * reading_variance);
  low_slack -= earlier.low_slack;
  high_slack -= earlier.high_slack;
}

void DomainBooks::Slack::subtract(const Slack& earlier) {
  before += earlier.shown;
  now = std::max(0.0, now - earlier.now);
  shown = std::max(0.0, shown - earlier.shown);
  booked -= earlier.booked;
}

void DomainBooks::check() const {
  std::int64_t sum = 0;
  for (const Account& a : accounts_) sum += a.booked;
  require(sum == total_uj(), "energy books",
          "do not close: the rows of {} sum to {} uJ, the meter counted {} uJ", to_string(domain_),
          sum, total_uj());
}

}  // namespace hg::energy
