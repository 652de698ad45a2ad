#include "train/run/rank_books.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <type_traits>

#include "tensor/base/usage_error.h"
#include "train/ranks/packed.h"

namespace hg {
namespace {

using energy::Ledger;
using energy::LedgerRow;
using energy::RowLabel;

constexpr auto kGpu = static_cast<std::size_t>(energy::Domain::gpu),
               kPackage = static_cast<std::size_t>(energy::Domain::package);
using DomainSet = std::array<bool, energy::kDomains>;

class ReadElsewhere final : public energy::Meter {
 public:
  ReadElsewhere(std::unique_ptr<energy::Meter> meter, const DomainSet& elsewhere)
      : meter_(std::move(meter)), elsewhere_(elsewhere) {}
  std::string_view name() const override { return meter_->name(); }
  energy::Kind kind() const override { return meter_->kind(); }
  energy::Kind kind_of(energy::Domain domain) const override { return meter_->kind_of(domain); }
  energy::Watts max_power(energy::Domain domain) const override {
    return meter_->max_power(domain);
  }
  std::string source() const override { return meter_->source(); }
  energy::ReadingError reading_error(energy::Domain domain) const override {
    return meter_->reading_error(domain);
  }
  std::uint64_t faults() const override {
    std::uint64_t own = 0;
    for (const energy::Domain domain : {energy::Domain::package, energy::Domain::gpu})
      if (!elsewhere_[static_cast<std::size_t>(domain)]) own += meter_->faults_of(domain);
    return own;
  }
  std::vector<energy::Fault> fault_list() const override {
    std::vector<energy::Fault> own = meter_->fault_list();
    std::erase_if(own, [&](const energy::Fault& fault) {
      return elsewhere_[fault.zone.starts_with("gpu ") ? kGpu : kPackage];
    });
    return own;
  }
  energy::Reading read() override {
    energy::Reading reading = meter_->read();
    for (std::size_t d = 0; d < energy::kDomains; ++d)
      if (elsewhere_[d] && reading.domains[d]) reading.domains[d] = energy::Counted{};
    return reading;
  }

 private:
  const std::unique_ptr<energy::Meter> meter_;
  const DomainSet elsewhere_;
};

// Whether a rank before this one reads the GPU.
bool read_before(Ranks& ranks, const std::string& gpu) {
  const std::vector<std::string> all = ranks.gather(std::string_view(gpu));
  for (int r = 0; r < ranks.rank(); ++r)
    if (!gpu.empty() && all[static_cast<std::size_t>(r)] == gpu &&
        ranks.place(r).machine == ranks.place(ranks.rank()).machine)
      return true;
  return false;
}

// The energy of some GPUs would pass for that of all.
void check_gpu_meters(Ranks& ranks, const energy::Meter& meter) {
  const char own = meter.kind_of(energy::Domain::gpu) != energy::Kind::unavailable;
  const std::vector<char> all = ranks.gather(own);
  const auto with = std::ranges::find(all, 1), without = std::ranges::find(all, 0);
  if (with == all.end() || without == all.end()) return;
  usage_fail(ranks.name_of(static_cast<int>(without - all.begin())),
             "its GPU has no meter, where that of {} has one; hgtrain meters tells why there, and "
             "HG_NVML_LIB=none leaves them out everywhere",
             ranks.name_of(static_cast<int>(with - all.begin())));
}

// The figures of a message, in its order: told once for both ways.
auto figures_of(auto& row) requires std::is_same_v<std::decay_t<decltype(row)>, LedgerRow> {
  return std::tie(row.calls, row.seconds, row.flops, row.flops_mm, row.bytes, row.energy_uj,
                  row.static_uj, row.kind, row.low_uj, row.high_uj, row.domain_uj);
}
auto figures_of(auto& books) requires std::is_same_v<std::decay_t<decltype(books)>, RankBooks> {
  auto& ledger = books.ledger;
  return std::tie(ledger.kind, ledger.energy_uj, ledger.low_uj, ledger.high_uj, ledger.domain_uj,
                  ledger.seconds, books.cpu_run_s, books.cpu_wait_s, books.peak_rss_bytes,
                  books.meter_faults);
}

void pack_figures(const auto& of, Packer& to) {
  std::apply([&](const auto&... figure) { (to.value(figure), ...); }, figures_of(of));
}
void unpack_figures(Unpacker& from, auto& of) {
  const auto take = [&]<class T>(T& figure) { figure = from.value<T>(); };
  std::apply([&](auto&... figure) { (take(figure), ...); }, figures_of(of));
}

// Rows of ranks by label, in order of first appearance.
class JoinedRows {
 public:
  explicit JoinedRows(const Ranks& ranks) : ranks_(ranks), several_(ranks.hosts() > 1) {}

  void add(int rank, const std::vector<LedgerRow>& rows) {
    for (LedgerRow row : rows) {
      row.label.host = several_ ? ranks_.place(rank).host : "";
      row.seconds /= sharing(rank);
      const auto [at, fresh] = places_.try_emplace(row.label, rows_.size());
      if (fresh)
        rows_.push_back(row);
      else
        rows_[at->second].add(row);
    }
  }
  std::vector<LedgerRow> take() { return std::move(rows_); }

 private:
  // Ranks whose rows become one.
  int sharing(int rank) const {
    int count = 0;
    for (int r = 0; r < ranks_.size(); ++r)
      count += !several_ || ranks_.place(r).host == ranks_.place(rank).host;
    return count;
  }

  const Ranks& ranks_;
  const bool several_;
  std::map<RowLabel, std::size_t> places_;
  std::vector<LedgerRow> rows_;
};

}  // namespace

std::unique_ptr<energy::Meter> read_elsewhere(std::unique_ptr<energy::Meter> meter,
                                              const DomainSet& elsewhere) {
  return std::make_unique<ReadElsewhere>(std::move(meter), elsewhere);
}

energy::MeterChoice open_rank_meter(Ranks& ranks, Device device) {
  energy::MeterSetup setup = energy::MeterSetup::from_environment(device);
  setup.sharing = ranks.here();
  energy::MeterChoice choice = energy::open_meter(setup);
  check_gpu_meters(ranks, *choice.meter);
  DomainSet elsewhere;
  elsewhere.fill(choice.meter->kind() != energy::Kind::modelled && !ranks.reads_meters());
  elsewhere[kGpu] = read_before(ranks, setup.gpu);
  if (std::ranges::find(elsewhere, true) != elsewhere.end())
    choice.meter = read_elsewhere(std::move(choice.meter), elsewhere);
  return choice;
}

std::string pack(const RankBooks& books) {
  Packer to;
  pack_figures(books, to);
  to.bytes(books.meter_notes);
  to.value(books.ledger.rows.size());
  for (const LedgerRow& row : books.ledger.rows) {
    for (const std::string& text : {row.label.phase, row.label.layer, row.label.op}) to.bytes(text);
    pack_figures(row, to);
  }
  return to.all();
}

RankBooks unpack_books(std::string_view text) {
  Unpacker from(text);
  RankBooks books;
  unpack_figures(from, books);
  books.meter_notes = from.bytes();
  books.ledger.rows.resize(from.value<std::size_t>());
  for (LedgerRow& row : books.ledger.rows) {
    for (std::string* label : {&row.label.phase, &row.label.layer, &row.label.op})
      *label = from.bytes();
    unpack_figures(from, row);
  }
  return books;
}

Ledger of_all_ranks(Ledger first, const std::vector<RankBooks>& others, const Ranks& ranks) {
  JoinedRows rows(ranks);
  rows.add(0, first.rows);
  int rank = 0;
  for (const RankBooks& books : others) {
    const Ledger& other = books.ledger;
    rows.add(++rank, other.rows);
    first.energy_uj += other.energy_uj;
    first.low_uj += other.low_uj;
    first.high_uj += other.high_uj;
    first.kind = std::max(first.kind, other.kind);
    for (std::size_t d = 0; d < energy::kDomains; ++d)
      if (other.domain_uj[d])
        first.domain_uj[d] = first.domain_uj[d].value_or(0) + *other.domain_uj[d];
  }
  first.rows = rows.take();
  return first;
}

Scaling scaling_of(const Ledger& ledger, int hosts) {
  Scaling scaling;
  for (const LedgerRow& row : ledger.rows) {
    if (row.label.layer != "ranks") continue;
    (row.label.op == "wait" ? scaling.wait_s : scaling.exchange_s) += row.seconds / hosts;
    if (row.label.op == "exchange") scaling.exchange_bytes += row.bytes;
    scaling.energy_j += energy::to_joules({row.energy_uj}).value;
  }
  if (ledger.seconds > 0) scaling.share = (scaling.wait_s + scaling.exchange_s) / ledger.seconds;
  return scaling;
}

}  // namespace hg
