#include "energy/books/ledger.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tensor/base/error.h"

namespace hg::energy {
namespace {

constexpr std::string_view kHeader =
    "phase,layer,op,calls,seconds,flops,bytes,energy_uj,static_uj,kind,low_uj,high_uj";
constexpr std::size_t kColumns = 12;

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

class Fields {
 public:
  Fields(std::string_view line, const std::string& source, std::size_t number)
      : source_(source), number_(number) {
    while (true) {
      const std::size_t comma = line.find(',');
      fields_.push_back(line.substr(0, comma));
      if (comma == std::string_view::npos) break;
      line.remove_prefix(comma + 1);
    }
    require(fields_.size() == kColumns, source, "line {}: expected {} fields, got {}", number,
            kColumns, fields_.size());
  }

  std::string text(std::size_t i) const { return std::string(fields_[i]); }
  template <class T>
  T number(std::size_t i) const {
    T value{};
    const std::string_view f = fields_[i];
    const auto [end, error] = std::from_chars(f.data(), f.data() + f.size(), value);
    require(error == std::errc() && end == f.data() + f.size(), source_,
            "line {}: \"{}\" in column {}, expected a number", number_, f.substr(0, 40), i + 1);
    return value;
  }
  Kind kind(std::size_t i) const {
    for (const Kind k : {Kind::measured, Kind::apportioned, Kind::modelled, Kind::unavailable})
      if (fields_[i] == to_string(k)) return k;
    fail(source_, "line {}: \"{}\" in column {}, expected a kind", number_,
         fields_[i].substr(0, 40), i + 1);
  }

 private:
  const std::string& source_;
  const std::size_t number_;
  std::vector<std::string_view> fields_;
};

}  // namespace

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

// Labels are names of layers and ops, which hold no commas.
std::string ledger_csv(const std::vector<LedgerRow>& rows) {
  std::string text = std::string(kHeader) + "\n";
  for (const LedgerRow& r : rows)
    fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{},{},{},{},{},{},{}\n", r.label.phase,
                   r.label.layer, r.label.op, r.calls, r.seconds, r.flops, r.bytes, r.energy_uj,
                   r.static_uj, to_string(r.kind), r.low_uj, r.high_uj);
  return text;
}

std::vector<LedgerRow> parse_ledger_csv(std::string_view text, const std::string& source) {
  std::vector<LedgerRow> rows;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    require(end != std::string_view::npos, source, "line {} has no end: the file is cut short",
            number);
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (number == 1) {
      require(line == kHeader, source, "expected the columns {}", kHeader);
      continue;
    }
    const Fields f(line, source, number);
    LedgerRow row;
    row.label = {f.text(0), f.text(1), f.text(2)};
    row.calls = f.number<std::uint64_t>(3);
    row.seconds = f.number<double>(4);
    row.flops = f.number<std::uint64_t>(5);
    row.bytes = f.number<std::uint64_t>(6);
    row.energy_uj = f.number<std::int64_t>(7);
    row.static_uj = f.number<std::int64_t>(8);
    row.kind = f.kind(9);
    row.low_uj = f.number<std::int64_t>(10);
    row.high_uj = f.number<std::int64_t>(11);
    rows.push_back(row);
  }
  require(!rows.empty(), source, "holds no rows of a ledger");
  return rows;
}

void add_rows(std::vector<LedgerRow>& to, const std::vector<LedgerRow>& from) {
  for (const LedgerRow& row : from) {
    const auto found = std::find_if(to.begin(), to.end(),
                                    [&](const LedgerRow& r) { return r.label == row.label; });
    if (found == to.end()) {
      to.push_back(row);
      continue;
    }
    found->calls += row.calls;
    found->seconds += row.seconds;
    found->flops += row.flops;
    found->flops_mm += row.flops_mm;
    found->bytes += row.bytes;
    found->energy_uj += row.energy_uj;
    found->static_uj += row.static_uj;
    found->kind = std::max(found->kind, row.kind);
    found->low_uj += row.low_uj;
    found->high_uj += row.high_uj;
    for (std::size_t d = 0; d < kDomains; ++d) found->domain_uj[d] += row.domain_uj[d];
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
