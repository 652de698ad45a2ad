#include "train/run/run_energy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "energy/meters/window.h"
#include "tensor/base/clock.h"
#include "tensor/base/process.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/config/model_options.h"

namespace hg {
namespace {

using energy::Kind;
using energy::Ledger;
using energy::LedgerRow;

constexpr double kGb = 1 << 30;  // as CodeCarbon's

}  // namespace

const energy::CarbonIntensity& carbon_intensity_of(const RunConfig& run) {
  if (const auto* found = energy::find_carbon_intensity(run.country)) return *found;
  std::vector<std::string> codes;
  for (const auto& row : energy::carbon_intensities()) codes.emplace_back(row.iso3);
  const std::string close = nearest(run.country, codes);
  usage_fail("run.country",
             "\"{}\" is no country of ISO 3166; did you mean {} ({})? WLD is the world's average",
             run.country, close, energy::find_carbon_intensity(close)->country);
}

RunEnergy::RunEnergy(const RunConfig& run, const RunEnergyOptions& options)
    : keeps_files_(!options.folder.empty()),
      pue_(run.pue),
      intensity_(carbon_intensity_of(run)),
      files_(options.folder) {
  energy::SessionOptions session;
  session.calibration = energy::load_calibration(run.energy_profile);
  session.sample_steps = true;
  session.save = [this](const Ledger& books) { write(books); };
  emissions_.run_id = random_uuid();
  if (options.resume && keeps_files_) earlier_ = files_.load(options.known, emissions_);
  if (keeps_files_)
    power_.emplace(RunFolder{options.folder}.power(), earlier_ ? earlier_->seconds : 0);
  earlier_use_ = emissions_.use;
  emissions_.project = run.name;
  emissions_.pue = pue_;
  emissions_.cpu = energy::read_cpu_info("/sys");
  emissions_.memory_gb = machine_memory().total_bytes / kGb;
  emissions_.intensity = intensity_;
  choice_ = open_rank_meter(ranks(), device_of(run));
  emissions_.tracking_mode = choice_.meter->kind() == Kind::modelled ? "process" : "machine";
  if (options.trace && keeps_files_)
    trace_ = std::make_unique<TraceFile>(RunFolder{options.folder}.trace(), kMostTracedOps);
  session.sink = trace_ ? &trace_->trace() : nullptr;
  idle_before_ = energy::idle_power(*choice_.meter);
  cpu_before_s_ = process_cpu_s();
  session_ = std::make_unique<energy::Session>(*choice_.meter, session);
  loading_ = {session_->profiler().row(Phase::data, "loader", "train"),
              session_->profiler().row(Phase::data, "loader", "test")};
  wait_ = session_->profiler().row(Phase::optimizer, "ranks", "wait");
  exchange_ = session_->profiler().row(Phase::optimizer, "ranks", "exchange");
  ranks().on_work({[this] { session_->profiler().note_begins(); },
                   [this](auto... work) { count_work(work...); }});
  save();
}

RunEnergy::~RunEnergy() { ranks().on_work({}); }

void RunEnergy::count_work(Ranks::Work work, std::int64_t start_ns, std::int64_t end_ns,
                           std::uint64_t bytes) {
  session_->profiler().note(work == Ranks::Work::wait ? wait_ : exchange_, start_ns, end_ns, bytes);
}

energy::MicroJoules RunEnergy::cut() {
  const std::int64_t own = own_cut().value, all = ranks().sum(own);
  others_uj_ = all - own;
  return {all};
}

std::string RunEnergy::described() const {
  return fmt::format("{} by {}; CO2 of {}", energy::to_string(choice_.meter->kind()),
                     choice_.meter->name(), intensity_.country);
}

energy::Grams RunEnergy::co2(energy::MicroJoules e) const {
  return energy::co2_of(energy::to_joules(e), intensity_, pue_);
}

Flops RunEnergy::flops() const {
  session_->cut();
  Flops sum;
  for (const LedgerRow& row : session_->ledger().rows)
    if (row.label.phase != to_string(Phase::data)) sum += {row.flops, row.flops_mm};
  return ranks().sum(sum);
}

double RunEnergy::forward_share() const {
  double forward = 0, training = 0;
  for (const LedgerRow& row : session_->ledger().rows) {
    if (row.label.phase == "eval") continue;
    training += static_cast<double>(row.flops);
    if (row.label.phase == "forward") forward += static_cast<double>(row.flops);
  }
  return training > 0 ? forward / training : 0;
}

void RunEnergy::note_loading(Split split, std::int64_t start_ns, std::int64_t end_ns) {
  session_->profiler().note(loading_[split == Split::train ? 0 : 1], start_ns, end_ns);
}

void RunEnergy::save() {
  Ledger books = session_->ledger();
  collect(books);
  write(books);
}

RankBooks RunEnergy::own_books(Ledger books) {
  cpu_.sample();
  return {std::move(books),        cpu_.run_s(), cpu_.wait_s(), peak_rss_bytes(),
          choice_.meter->faults(), meter_notes()};
}

void RunEnergy::collect(Ledger books) {
  std::vector<RankBooks> all;
  if (ranks().alone()) return;
  for (const std::string& text : ranks().collect(pack(own_books(std::move(books)))))
    all.push_back(unpack_books(text));
  if (all.empty()) return;  // they are with the first rank
  all.erase(all.begin());
  const std::lock_guard lock(mutex_);
  others_ = std::move(all);
}

Ledger RunEnergy::whole(Ledger books) const {
  if (!others_.empty()) books = of_all_ranks(std::move(books), others_, ranks());
  if (earlier_) energy::add_earlier(books, *earlier_);
  return books;
}

// Called by the sampling thread and by the trainer: books that are older than those saved are
// passed over.
void RunEnergy::write(const Ledger& session_books) {
  if (!keeps_files_) return;
  const std::lock_guard lock(mutex_);
  if (session_books.seconds < saved_s_) return;
  saved_s_ = session_books.seconds;
  const Ledger all = whole(session_books);
  emissions_.use = use(session_books.seconds, all.seconds);
  std::string trouble = files_.save(all, emissions_);
  if (trouble.empty()) trouble = power_->note({all.seconds, all.joules().value});
  note_trouble(trouble);
}

void RunEnergy::note_trouble(const std::string& reason) {
  const std::lock_guard lock(trouble_mutex_);
  if (reason.empty() || trouble_.empty()) trouble_told_ = reason.empty();
  trouble_ = reason;
}

std::string RunEnergy::new_trouble() {
  const std::lock_guard lock(trouble_mutex_);
  return std::exchange(trouble_told_, true) ? "" : trouble_;
}

std::int64_t RunEnergy::saved_uj() const {
  const std::lock_guard lock(mutex_);
  return files_.saved_uj();
}

// Means over the run: earlier parts weigh by their time.
MachineUse RunEnergy::use(double part_s, double whole_s) {
  memory_sum_gb_ += machine_memory().used_bytes / kGb;
  ++memory_samples_;
  const double used = memory_sum_gb_ / memory_samples_, total = emissions_.memory_gb;
  const int cpus = std::max(1, emissions_.cpu.allowed);
  const double busy = part_s > 0 ? (process_cpu_s() - cpu_before_s_) / (part_s * cpus) : 0;
  MachineUse mean{100 * std::clamp(busy, 0.0, 1.0), total > 0 ? 100 * used / total : 0, used};
  const double before = whole_s > 0 ? 1 - part_s / whole_s : 0;
  const auto mix = [&](double MachineUse::*figure) {
    mean.*figure += before * (earlier_use_.*figure - mean.*figure);
  };
  mix(&MachineUse::cpu_percent);
  mix(&MachineUse::memory_percent);
  mix(&MachineUse::memory_gb);
  cpu_.sample();
  mean.cpu_run_s = earlier_use_.cpu_run_s + cpu_.run_s();
  mean.cpu_wait_s = earlier_use_.cpu_wait_s + cpu_.wait_s();
  for (const RankBooks& other : others_) {
    mean.cpu_run_s += other.cpu_run_s;
    mean.cpu_wait_s += other.cpu_wait_s;
  }
  return mean;
}

// "package-1 stands still; gpu 0 reset (3 times)"
std::string RunEnergy::meter_notes() const {
  std::map<std::string, int> notes;
  for (const energy::Fault& fault : choice_.meter->fault_list())
    ++notes[fmt::format("{} {}", fault.zone, energy::to_string(fault.kind))];
  std::vector<std::string> texts;
  for (const auto& [note, times] : notes)
    texts.push_back(times == 1 ? note : fmt::format("{} ({} times)", note, times));
  return fmt::format("{}", fmt::join(texts, "; "));
}

void RunEnergy::stop(RunSummary& s) {
  const Ledger own = session_->stop();
  ranks().on_work({});
  collect(own);
  write(own);
  const Ledger books = whole(own);
  // Idle power is part of the energy, not taken off.
  s.idle_before = idle_before_;
  s.idle_after = energy::idle_power(*choice_.meter);
  if (trace_) trace_->commit();
  s.energy_j = books.joules();
  s.energy_kind = energy::to_string(books.kind);
  s.energy_source = books.source;
  s.energy_meter = books.meter;
  s.energy_profile = books.calibration;
  s.energy_seconds = books.seconds;
  for (std::size_t d = 0; d < energy::kDomains; ++d)
    if (books.domain_uj[d]) s.domain_j[d] = energy::to_joules({*books.domain_uj[d]}).value;
  s.meter_faults = choice_.meter->faults();
  s.meter_notes = meter_notes();
  s.peak_rss_bytes = peak_rss_bytes();
  for (const RankBooks& other : others_) {
    s.meter_faults += other.meter_faults;
    s.peak_rss_bytes += other.peak_rss_bytes;
    if (!other.meter_notes.empty())
      s.meter_notes += (s.meter_notes.empty() ? "" : "; ") + other.meter_notes;
  }
  s.ranks = ranks().size();
  s.hosts = ranks().hosts();
  if (!ranks().alone()) s.scaling = scaling_of(books, ranks().hosts());
  s.energy_unsaved = trouble_;
  s.cpu_share = cpu_share(emissions_.use.cpu_run_s, emissions_.use.cpu_wait_s);
  s.co2_g = co2({books.energy_uj}).value;
  s.country = intensity_.iso3;
  s.carbon_g_per_kwh = intensity_.g_per_kwh;
  s.carbon_source = fmt::format("{}, {}", intensity_.source, intensity_.year);
  s.pue = pue_;
}

std::string RunEnergy::trace_note() const {
  if (!trace_) return "";
  if (!trace_->failure().empty()) return "no trace.json: " + trace_->failure();
  const energy::ChromeTrace& trace = trace_->trace();
  return fmt::format("trace.json holds the {} {:.1f} s{}",
                     trace.ops_left_out() > 0 ? "first" : "whole run,", trace.recorded().value,
                     trace.ops_left_out() > 0
                         ? fmt::format(" ({} ops, as many as it takes)", kMostTracedOps)
                         : "");
}

}  // namespace hg
