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

// Of a row, or of a whole ledger.
void set_interval(auto& books, const Spread& s) {
  const double half = s.quantile * std::sqrt(s.variance);
  const auto e = static_cast<double>(books.energy_uj);
  books.low_uj = std::max<std::int64_t>(0, std::llround(e - half - s.low_slack));
  books.high_uj = std::llround(e + half + s.high_slack);
}

// The total is what the meter counted; its bounds and the first and last reading make it uncertain.
void set_total(Ledger& ledger, const Attribution& a) {
  Spread spread{.quantile = student_quantile(1000)};
  for (std::size_t d = 0; d < kDomains; ++d) {
    if (!a.has(d)) continue;
    ledger.domain_uj[d] = a.total_uj(d);
    ledger.energy_uj += a.total_uj(d);
    spread.low_slack += a.low_slack(d);
    spread.high_slack += a.high_slack(d);
    spread.variance += 2 * a.reading_variance(d);
  }
  set_interval(ledger, spread);
}

// A row and its kind in words, as ledger.csv has them.
struct LedgerLine {
  LedgerRow row;
  std::string kind;
};

constexpr std::string_view kHost = "host";  // a column of runs on several hosts alone

CsvColumns columns_of(LedgerLine& line, bool with_host) {
  LedgerRow& r = line.row;
  CsvColumns columns{
      {"phase", &r.label.phase}, {"layer", &r.label.layer},   {"op", &r.label.op},
      {"calls", &r.calls},       {"seconds", &r.seconds},     {"flops", &r.flops},
      {"bytes", &r.bytes},       {"energy_uj", &r.energy_uj}, {"static_uj", &r.static_uj},
      {"kind", &line.kind},      {"low_uj", &r.low_uj},       {"high_uj", &r.high_uj}};
  if (with_host) columns.push_back({kHost, &r.label.host});
  return columns;
}

Interval in_joules(std::int64_t uj, std::int64_t low_uj, std::int64_t high_uj) {
  return {to_joules({uj}).value, to_joules({low_uj}).value, to_joules({high_uj}).value};
}

Kind kind_of(const std::string& text, const std::string& source) {
  const std::optional<Kind> kind = enum_value<Kind>(text);
  usage_require(kind.has_value(), source, "{} is no kind of energy", excerpt(text));
  return *kind;
}

// What a run of this program cannot have booked: negative figures, and sums that leave their range.
// 10^12 J are a large power station for a quarter of an hour.
constexpr std::int64_t kMostBookedUj = 1'000'000'000'000'000'000;

template <class Integer>
void add_checked(Integer& sum, Integer more, Integer most, const RowLabel& label, const char* what,
                 const std::string& source) {
  const bool fits = more >= 0 && more <= most && sum <= most - more;
  usage_require(fits, source, "{} of {} {} {} is {}, expected 0 or more, at most {} in all rows",
                what, label.phase, label.layer, label.op, more, most);
  sum += more;
}

void check_plausible(const std::vector<LedgerRow>& rows, const std::string& source) {
  LedgerRow sum;
  for (const LedgerRow& r : rows) {
    const auto add = [&](auto LedgerRow::*figure, auto most, const char* what) {
      add_checked(sum.*figure, r.*figure, most, r.label, what, source);
    };
    add(&LedgerRow::energy_uj, kMostBookedUj, "energy_uj");
    add(&LedgerRow::static_uj, kMostBookedUj, "static_uj");
    add(&LedgerRow::low_uj, kMostBookedUj, "low_uj");
    add(&LedgerRow::high_uj, kMostBookedUj, "high_uj");
    add(&LedgerRow::calls, UINT64_MAX, "calls");
    add(&LedgerRow::flops, UINT64_MAX, "flops");
    add(&LedgerRow::bytes, UINT64_MAX, "bytes");
    usage_require(r.seconds >= 0 && std::isfinite(r.seconds), source,
                  "seconds of {} {} {} is {}, expected 0 or more", r.label.phase, r.label.layer,
                  r.label.op, r.seconds);
  }
}

}  // namespace

Interval LedgerRow::joules() const { return in_joules(energy_uj, low_uj, high_uj); }
Interval Ledger::joules() const { return in_joules(energy_uj, low_uj, high_uj); }

LedgerRow sum_of(std::span<const LedgerRow> rows) {
  LedgerRow sum;
  sum.kind = Kind::measured;
  for (const LedgerRow& row : rows) sum.add(row);
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

LedgerRow Ledger::scope(std::string_view path) const {
  LedgerRow sum;
  sum.kind = rows.empty() ? kind : rows[0].kind;
  for (const LedgerRow& row : rows)
    if (row.is_op() && is_within(row.label, path)) sum.add(row);
  return sum;
}

double Ledger::covered_seconds() const {
  double sum = 0;
  for (const LedgerRow& row : rows)
    if (row.is_op()) sum += row.seconds;
  return sum;
}

RowGroup& RowGroup::child(std::string_view wanted) {
  for (RowGroup& group : inner)
    if (group.name == wanted) return group;
  return inner.emplace_back(RowGroup{std::string(wanted)});
}

void RowGroup::add(const LedgerRow& row, std::span<const std::string_view> levels) {
  sum.add(row);
  if (levels.empty())
    child(row.label.op).sum.add(row);
  else
    child(levels[0]).add(row, levels.subspan(1));
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
  const LedgerRow sum = sum_of(ledger.rows);
  require(sum.energy_uj == ledger.energy_uj, "ledger",
          "does not close: rows sum to {} uJ, the meter to {} uJ", sum.energy_uj, ledger.energy_uj);
  for (std::size_t d = 0; d < kDomains; ++d)
    require(sum.domain_uj[d] == ledger.domain_uj[d].value_or(0), "ledger",
            "does not close: rows of {} sum to {} uJ, the meter to {} uJ", name_of_domain(d),
            sum.domain_uj[d], ledger.domain_uj[d].value_or(0));
}

std::string ledger_csv(const std::vector<LedgerRow>& rows) {
  std::vector<LedgerLine> lines;
  for (const LedgerRow& row : rows) lines.push_back({row, std::string(to_string(row.kind))});
  const bool with_host = std::any_of(rows.begin(), rows.end(),
                                     [](const auto& row) { return !row.label.host.empty(); });
  return write_csv(lines, [=](LedgerLine& line) { return columns_of(line, with_host); });
}

std::vector<LedgerRow> parse_ledger_csv(std::string_view text, const std::string& source) {
  std::vector<LedgerRow> rows;
  const std::vector<CsvRow> header = parse_csv(text.substr(0, text.find('\n')), source);
  const bool with_host =
      !header.empty() && std::find(header[0].begin(), header[0].end(), kHost) != header[0].end();
  for (const LedgerLine& line : read_csv<LedgerLine>(
           text, source, [=](LedgerLine& row) { return columns_of(row, with_host); })) {
    rows.push_back(line.row);
    rows.back().kind = kind_of(line.kind, source);
  }
  usage_require(!rows.empty(), source, "holds no rows of a ledger");
  check_plausible(rows, source);
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
