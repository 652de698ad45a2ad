#include "energy/books/ledger.h"

#include <algorithm>
#include <cmath>

#include "tensor/base/csv.h"
#include "tensor/base/enum_names.h"
#include "tensor/base/usage_error.h"

namespace hg::energy {
namespace {

struct Spread {
  double variance = 0, low_slack = 0, high_slack = 0, quantile = 0;
};

void set_interval(LedgerRow& row, const Spread& s) {
  const double half = s.quantile * std::sqrt(s.variance);
  const auto e = static_cast<double>(row.energy_uj);
  row.low_uj = std::max<std::int64_t>(0, std::llround(e - half - s.low_slack));
  row.high_uj = std::llround(e + half + s.high_slack);
}

// The total is what the meter counted; its bounds and the first and last reading make it uncertain.
void set_total(Ledger& ledger, const Attribution& a) {
  double low = 0, high = 0, variance = 0;
  for (std::size_t d = 0; d < kDomains; ++d) {
    if (!a.has(d)) continue;
    ledger.domain_uj[d] = a.total_uj(d);
    ledger.energy_uj += a.total_uj(d);
    low += a.low_slack(d);
    high += a.high_slack(d);
    variance += 2 * a.reading_variance(d);
  }
  const double half = student_quantile(1000) * std::sqrt(variance);
  const auto e = static_cast<double>(ledger.energy_uj);
  ledger.low_uj = std::max<std::int64_t>(0, std::llround(e - half - low));
  ledger.high_uj = std::llround(e + half + high);
}

// A row and its kind in words, as ledger.csv has them.
struct LedgerLine {
  LedgerRow row;
  std::string kind;
};

CsvColumns columns_of(LedgerLine& line) {
  LedgerRow& r = line.row;
  return {{"phase", &r.label.phase}, {"layer", &r.label.layer},   {"op", &r.label.op},
          {"calls", &r.calls},       {"seconds", &r.seconds},     {"flops", &r.flops},
          {"bytes", &r.bytes},       {"energy_uj", &r.energy_uj}, {"static_uj", &r.static_uj},
          {"kind", &line.kind},      {"low_uj", &r.low_uj},       {"high_uj", &r.high_uj}};
}

Interval in_joules(std::int64_t uj, std::int64_t low_uj, std::int64_t high_uj) {
  return {to_joules({uj}).value, to_joules({low_uj}).value, to_joules({high_uj}).value};
}

Kind kind_of(const std::string& text, const std::string& source) {
  const std::optional<Kind> kind = enum_value<Kind>(text);
  usage_require(kind.has_value(), source, "{} is no kind of energy", excerpt(text));
  return *kind;
}

// A column's sum is formed later on.
template <class T>
void check_column(const std::vector<LedgerRow>& rows, T LedgerRow::*column,
                  const std::string& source) {
  double sum = 0;
  for (const LedgerRow& row : rows) sum += std::abs(static_cast<double>(row.*column));
  constexpr auto kMost = static_cast<double>(kMostMicroJoules);
  usage_require(sum < kMost, source, "a column sums to {}, expected less than {}", sum, kMost);
}

}  // namespace

Interval LedgerRow::joules() const { return in_joules(energy_uj, low_uj, high_uj); }
Interval Ledger::joules() const { return in_joules(energy_uj, low_uj, high_uj); }

LedgerRow empty_sum() {
  LedgerRow sum;
  sum.kind = Kind::measured;
  return sum;
}

void LedgerRow::add(const LedgerRow& more) {
  calls += more.calls;
  seconds += more.seconds;
  flops += more.flops;
  flops_mm += more.flops_mm;
  bytes += more.bytes;
  energy_uj += more.energy_uj;
  static_uj += more.static_uj;
  kind = std::max(kind, more.kind);
  low_uj += more.low_uj;
  high_uj += more.high_uj;
  for (std::size_t d = 0; d < kDomains; ++d) domain_uj[d] += more.domain_uj[d];
}

double Ledger::covered_seconds() const {
  double sum = 0;
  for (const LedgerRow& row : rows)
    if (row.is_op()) sum += row.seconds;
  return sum;
}

std::uint64_t Ledger::flops() const {
  std::uint64_t sum = 0;
  for (const LedgerRow& row : rows) sum += row.flops;
  return sum;
}

std::uint64_t Ledger::flops_mm() const {
  std::uint64_t sum = 0;
  for (const LedgerRow& row : rows) sum += row.flops_mm;
  return sum;
}

Ledger make_ledger(const Attribution& a, const RowTable& labels, const Provenance& provenance) {
  Ledger ledger;
  static_cast<Provenance&>(ledger) = provenance;
  ledger.seconds = static_cast<double>(a.closed_ns() - a.start_ns()) * 1e-9;
  set_total(ledger, a);
  const Kind kind = provenance.kind == Kind::measured ? Kind::apportioned : provenance.kind;
  ledger.rows.resize(a.rows());
  std::vector<Spread> spreads(a.rows());
  for (RowId r = 0; r < a.rows(); ++r) {
    const RowWork& work = a.work(r);
    LedgerRow& row = ledger.rows[r];
    row.label = labels.label(r);
    row.calls = work.calls;
    row.seconds = work.thread_ns * 1e-9 / a.workers();
    row.flops = work.flops;
    row.flops_mm = work.flops_mm;
    row.bytes = work.bytes;
    row.kind = kind;
  }
  ledger.rows[kUnattributed].seconds =
      std::max(0.0, ledger.seconds - ledger.covered_seconds() - ledger.rows[kProfiler].seconds);
  for (std::size_t d = 0; d < kDomains; ++d) {
    if (!a.has(d)) continue;
    const std::vector<RowEnergy> energies = a.energies(d);
    for (RowId r = 0; r < a.rows(); ++r) {
      LedgerRow& row = ledger.rows[r];
      const RowEnergy& e = energies[r];
      row.domain_uj[d] = e.energy_uj;
      row.energy_uj += e.energy_uj;
      row.static_uj += static_cast<std::int64_t>(e.static_uj);
      spreads[r].variance += e.variance;
      spreads[r].low_slack += e.low_slack;
      spreads[r].high_slack += e.high_slack;
      spreads[r].quantile = std::max(spreads[r].quantile, a.quantile(d));
    }
  }
  for (RowId r = 0; r < a.rows(); ++r) set_interval(ledger.rows[r], spreads[r]);
  return ledger;
}

void check(const Ledger& ledger) {
  std::int64_t sum = 0;
  std::array<std::int64_t, kDomains> domains{};
  for (const LedgerRow& row : ledger.rows) {
    sum += row.energy_uj;
    for (std::size_t d = 0; d < kDomains; ++d) domains[d] += row.domain_uj[d];
  }
  require(sum == ledger.energy_uj, "ledger",
          "does not close: rows sum to {} uJ, the meter to {} uJ", sum, ledger.energy_uj);
  for (std::size_t d = 0; d < kDomains; ++d)
    require(domains[d] == ledger.domain_uj[d].value_or(0), "ledger",
            "does not close: rows of {} sum to {} uJ, the meter to {} uJ",
            to_string(static_cast<Domain>(d)), domains[d], ledger.domain_uj[d].value_or(0));
}

std::string ledger_csv(const std::vector<LedgerRow>& rows) {
  std::vector<LedgerLine> lines;
  for (const LedgerRow& row : rows) lines.push_back({row, std::string(to_string(row.kind))});
  return write_csv(lines, columns_of);
}

std::vector<LedgerRow> parse_ledger_csv(std::string_view text, const std::string& source) {
  std::vector<LedgerRow> rows;
  for (const LedgerLine& line : read_csv<LedgerLine>(text, source, columns_of)) {
    rows.push_back(line.row);
    rows.back().kind = kind_of(line.kind, source);
  }
  usage_require(!rows.empty(), source, "holds no rows of a ledger");
  for (const auto column :
       {&LedgerRow::energy_uj, &LedgerRow::static_uj, &LedgerRow::low_uj, &LedgerRow::high_uj})
    check_column(rows, column, source);
  check_column(rows, &LedgerRow::seconds, source);
  return rows;
}

void add_rows(std::vector<LedgerRow>& to, const std::vector<LedgerRow>& from) {
  for (const LedgerRow& row : from) {
    const auto found = std::find_if(to.begin(), to.end(),
                                    [&](const LedgerRow& r) { return r.label == row.label; });
    if (found == to.end())
      to.push_back(row);
    else
      found->add(row);
  }
}

void add_earlier(Ledger& later, const Ledger& earlier) {
  add_rows(later.rows, earlier.rows);
  later.energy_uj += earlier.energy_uj;
  later.low_uj += earlier.low_uj;
  later.high_uj += earlier.high_uj;
  later.seconds += earlier.seconds;
  for (std::size_t d = 0; d < kDomains; ++d)
    if (earlier.domain_uj[d])
      later.domain_uj[d] = later.domain_uj[d].value_or(0) + *earlier.domain_uj[d];
  if (earlier.kind == later.kind) return;
  later.source += fmt::format(" (an earlier part of the run: {})", to_string(earlier.kind));
  later.kind = std::max(later.kind, earlier.kind);
}

}  // namespace hg::energy
