#include "train/run/run_energy.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "energy/meters/window.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/run/energy_profile.h"

namespace hg {
namespace {

using energy::Kind;
using energy::Ledger;
using energy::LedgerRow;

std::string ledger_path(const std::string& folder) { return folder + "/ledger.csv"; }
std::string emissions_path(const std::string& folder) { return folder + "/emissions.csv"; }

double process_cpu_s() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Memory of the whole machine, as CodeCarbon reports it.
struct Memory {
  double total_gb = 0, used_gb = 0;
};
Memory machine_memory() {
  Memory memory;
  std::FILE* file = std::fopen("/proc/meminfo", "r");
  if (file == nullptr) return memory;
  double available = 0;
  for (char line[128]; std::fgets(line, sizeof line, file) != nullptr;) {
    const std::string_view text = line;
    const auto gb = [&](std::string_view key) {
      return std::strtod(line + key.size(), nullptr) / (1 << 20);
    };
    if (text.starts_with("MemTotal:")) memory.total_gb = gb("MemTotal:");
    if (text.starts_with("MemAvailable:")) available = gb("MemAvailable:");
  }
  std::fclose(file);
  memory.used_gb = memory.total_gb - available;
  return memory;
}

// The domains' energies follow from a file that was saved a moment before or after the ledger: they
// are stretched to its total.
void fit_domains(Ledger& ledger, const Emissions& saved) {
  std::int64_t sum = 0, left = ledger.energy_uj;
  for (const auto& uj : saved.domain_uj) sum += uj.value_or(0);
  std::optional<std::int64_t>* largest = nullptr;
  for (std::size_t d = 0; d < energy::kDomains; ++d) {
    if (!saved.domain_uj[d]) continue;
    const double share =
        sum > 0 ? static_cast<double>(*saved.domain_uj[d]) / static_cast<double>(sum) : 0;
    ledger.domain_uj[d] = std::llround(share * static_cast<double>(ledger.energy_uj));
    left -= *ledger.domain_uj[d];
    if (largest == nullptr || **largest < *ledger.domain_uj[d]) largest = &ledger.domain_uj[d];
  }
  if (largest != nullptr) **largest += left;
}

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
    : folder_(options.folder), pue_(run.pue), intensity_(carbon_intensity_of(run)) {
  energy::SessionOptions session;
  session.calibration = load_energy_profile(run.energy_profile);
  session.save = [this](const Ledger& books) { write(books); };
  emissions_.run_id = random_uuid();
  if (options.resume) load_earlier(options.at_least_uj);
  emissions_.project = run.name;
  emissions_.pue = pue_;
  emissions_.cpu = energy::read_cpu_info("/sys");
  emissions_.memory_gb = machine_memory().total_gb;
  emissions_.intensity = intensity_;
  choice_ = energy::open_meter();
  emissions_.tracking_mode = choice_.meter->kind() == Kind::modelled ? "process" : "machine";
  if (options.trace) trace_ = std::make_unique<TraceFile>(folder_ + "/trace.json", kMostTracedOps);
  session.sink = trace_ ? &trace_->trace() : nullptr;
  idle_before_ = energy::idle_power(*choice_.meter);
  cpu_before_s_ = process_cpu_s();
  session_ = std::make_unique<energy::Session>(*choice_.meter, session);
  loading_ = {session_->profiler().row(Phase::data, "loader", "train"),
              session_->profiler().row(Phase::data, "loader", "test")};
  save();
}

RunEnergy::~RunEnergy() = default;

void RunEnergy::load_earlier(std::int64_t at_least_uj) {
  const std::string path = ledger_path(folder_);
  if (at_least_uj == 0 && !std::filesystem::exists(path)) return;
  const MappedFile file(path);
  Ledger ledger;
  try {
    ledger.rows = energy::parse_ledger_csv(file.bytes(), path);
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
  ledger.kind = Kind::measured;
  for (const LedgerRow& row : ledger.rows) {
    ledger.energy_uj += row.energy_uj;
    ledger.low_uj += row.low_uj;
    ledger.high_uj += row.high_uj;
    if (row.kind != Kind::apportioned) ledger.kind = std::max(ledger.kind, row.kind);
  }
  usage_require(
      ledger.energy_uj >= at_least_uj, path,
      "sums to {} uJ, expected at least the {} uJ that the run had used when its state was "
      "saved",
      ledger.energy_uj, at_least_uj);
  const std::string emissions = emissions_path(folder_);
  emissions_ = parse_emissions(MappedFile(emissions).bytes(), emissions);
  earlier_use_ = emissions_.use;
  ledger.seconds = emissions_.seconds;
  fit_domains(ledger, emissions_);
  earlier_ = std::move(ledger);
}

energy::Grams RunEnergy::co2(energy::MicroJoules e) const {
  return energy::co2_of(energy::to_joules(e), intensity_, pue_);
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

void RunEnergy::save() { write(session_->ledger()); }

Ledger RunEnergy::whole(Ledger books) const {
  if (earlier_) energy::add_earlier(books, *earlier_);
  return books;
}

// Called by the sampling thread and by the trainer: books that are older than those saved are
// passed over.
void RunEnergy::write(const Ledger& session_books) {
  const std::lock_guard lock(mutex_);
  if (session_books.seconds < saved_s_) return;
  saved_s_ = session_books.seconds;
  const Ledger all = whole(session_books);
  std::int64_t sum = 0;
  for (const LedgerRow& row : all.rows) sum += row.energy_uj;
  require(sum == all.energy_uj, ledger_path(folder_),
          "does not close: rows sum to {} uJ, the meter to {} uJ", sum, all.energy_uj);
  emissions_.seconds = all.seconds;
  emissions_.domain_uj = all.domain_uj;
  emissions_.use = use(session_books.seconds, all.seconds);
  write_file(emissions_path(folder_), emissions_csv(emissions_));
  write_file(ledger_path(folder_), energy::ledger_csv(all.rows));
}

// Means over the run: earlier parts weigh by their time.
MachineUse RunEnergy::use(double part_s, double whole_s) {
  const Memory memory = machine_memory();
  memory_sum_gb_ += memory.used_gb;
  ++memory_samples_;
  const double used = memory_sum_gb_ / memory_samples_;
  const int cpus = std::max(1, emissions_.cpu.allowed);
  const double busy = part_s > 0 ? (process_cpu_s() - cpu_before_s_) / (part_s * cpus) : 0;
  MachineUse mean{100 * std::clamp(busy, 0.0, 1.0),
                  memory.total_gb > 0 ? 100 * used / memory.total_gb : 0, used};
  const double before = whole_s > 0 ? 1 - part_s / whole_s : 0;
  const auto mix = [&](double MachineUse::*figure) {
    mean.*figure += before * (earlier_use_.*figure - mean.*figure);
  };
  mix(&MachineUse::cpu_percent);
  mix(&MachineUse::memory_percent);
  mix(&MachineUse::memory_gb);
  return mean;
}

Ledger RunEnergy::stop() {
  const Ledger books = session_->stop();
  idle_after_ = energy::idle_power(*choice_.meter);
  if (trace_) trace_->commit();
  return whole(books);
}

std::string RunEnergy::trace_note() const {
  if (!trace_) return "";
  const energy::ChromeTrace& trace = trace_->trace();
  return fmt::format("trace.json holds the {} {:.1f} s{}",
                     trace.ops_left_out() > 0 ? "first" : "whole run,", trace.recorded().value,
                     trace.ops_left_out() > 0
                         ? fmt::format(" ({} ops, as many as it takes)", kMostTracedOps)
                         : "");
}

}  // namespace hg
