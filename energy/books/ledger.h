// The books of a run: a row per phase, layer and op, one for what no op used (`unattributed`) and
// one for the profiler itself. In every domain the rows sum exactly to the meter's total.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "energy/books/attribution.h"
#include "energy/books/labels.h"
#include "tensor/base/text.h"

namespace hg::energy {

struct LedgerRow {
  RowLabel label;  // phase, layer and op
  std::uint64_t calls = 0;
  double seconds = 0;  // thread time divided by worker threads
  std::uint64_t flops = 0, flops_mm = 0, bytes = 0;
  std::int64_t energy_uj = 0, static_uj = 0;
  Kind kind = Kind::unavailable;
  std::int64_t low_uj = 0, high_uj = 0;  // 95 %
  std::array<std::int64_t, kDomains> domain_uj{};

  Interval joules() const;          // with 95 % bounds
  void add(const LedgerRow& more);  // all but its label; the kind is the worse of the two
  bool is_op() const { return label.phase != "unattributed" && label.phase != "profiler"; }
};

LedgerRow sum_of(std::span<const LedgerRow> rows);  // without label; of none: of the best kind

// Rows that have something in common, summed, and the groups inside.
struct RowGroup {
  std::string name;
  LedgerRow sum = sum_of({});
  std::vector<RowGroup> inner{};

  RowGroup& child(std::string_view wanted);
  // Adds it to this group, to a group for each level, one inside the other, and to one of its op.
  void add(const LedgerRow& row, std::span<const std::string_view> levels);
};

// Where the figures come from.
struct Provenance {
  Kind kind = Kind::unavailable;  // of the total; rows of a measured total are apportioned
  std::string meter, source, calibration;
};

struct Ledger : Provenance {
  // unattributed, profiler, then ops in order of first appearance
  std::vector<LedgerRow> rows;
  std::int64_t energy_uj = 0, low_uj = 0, high_uj = 0;  // of the meter
  std::array<std::optional<std::int64_t>, kDomains> domain_uj;
  double seconds = 0;  // wall time

  Interval joules() const;
  double covered_seconds() const;  // by ops
  // All that ran in a scope, forward and backward: "blocks.3" has blocks.3.attn.qkv in it, "" all
  // ops. Its `calls` are 0 where nothing ran in it.
  LedgerRow scope(std::string_view path) const;
};

Ledger make_ledger(const Attribution& attribution, const RowTable& rows,
                   const Provenance& provenance);

// Throws unless the rows sum to the total, in each domain and over all.
void check(const Ledger& ledger);

// More than any run uses, and parts of runs can be added up without overflow.
inline constexpr std::int64_t kMostMicroJoules = INT64_MAX / 4;

// ledger.csv. Users' scripts rely on its columns.
std::string ledger_csv(const std::vector<LedgerRow>& rows);
// Throws UsageError, naming the source, if the text is not such a file, or holds what no run can
// have booked.
std::vector<LedgerRow> parse_ledger_csv(std::string_view text, const std::string& source);

// Adds the rows of another ledger (an earlier part of the run) label by label.
void add_rows(std::vector<LedgerRow>& to, const std::vector<LedgerRow>& from);

// Adds an earlier part of the run to the books of a later one. Domains that only one of them has
// are kept. The kind is the weaker of the two; if they differ, the source says so.
void add_earlier(Ledger& later, const Ledger& earlier);

}  // namespace hg::energy
