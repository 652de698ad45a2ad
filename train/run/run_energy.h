// Energy of a training run: meter and session, and what they leave in the run folder. Its files are
// rewritten, whole and closing, about twice a second, so that a kill loses less than a second; a
// resumed run adds what its earlier parts had saved. Of several ranks the first keeps the files,
// with the books of all.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "data/dataset.h"
#include "energy/meters/choice.h"
#include "tensor/base/process.h"
#include "train/config/config.h"
#include "train/run/rank_books.h"
#include "train/run/trace_file.h"
#include "train/store/energy_files.h"
#include "train/store/power_csv.h"
#include "train/store/summary.h"

namespace hg {

struct RunEnergyOptions {
  std::string folder;   // empty: another rank keeps the files
  bool resume = false;  // add to what the folder holds
  KnownEnergy known;    // of which the run's state knows
  bool trace = false;   // write trace.json
};

struct Flops {
  std::uint64_t all = 0, matmul = 0;
  Flops& operator+=(const Flops& f) { return all += f.all, matmul += f.matmul, *this; }
  Flops& operator-=(const Flops& f) { return all -= f.all, matmul -= f.matmul, *this; }
};

// The country's, or UsageError with the nearest code.
const energy::CarbonIntensity& carbon_intensity_of(const RunConfig& run);

class RunEnergy {
 public:
  static constexpr std::uint64_t kMostTracedOps = 300'000;  // some 50 MB

  RunEnergy(const RunConfig& run, const RunEnergyOptions& options);
  ~RunEnergy();
  RunEnergy(const RunEnergy&) = delete;
  RunEnergy& operator=(const RunEnergy&) = delete;

  // Of the whole run and all ranks, earlier parts included. cut() is exact and for moments when no
  // op runs; total() is as of the last reading, and for others as of the last cut.
  energy::MicroJoules cut();
  // This rank's part of a cut, and what the parts of all come to.
  energy::MicroJoules own_cut() { return {earlier_uj() + session_->cut().energy_uj}; }
  void know_all(std::int64_t energy_uj) {
    others_uj_ = energy_uj - earlier_uj() - session_->total().energy_uj;
  }
  energy::MicroJoules total() const {
    return {earlier_uj() + session_->total().energy_uj + others_uj_};
  }
  std::string described() const;  // "modelled by model; CO2 of Italy"
  energy::Watts power() const { return session_->power(); }
  energy::Grams co2(energy::MicroJoules e) const;
  // FLOPs of the ops of this part of the run, of all ranks, at a moment when no op runs. Without
  // those of the loaders, which work ahead: their FLOPs count with the batch that they were for.
  Flops flops() const;
  // Share of the forward pass in the FLOPs of training so far.
  double forward_share() const;

  // A step of training, or a batch of phase `eval`, begins: on a GPU, some are timed op by op.
  void begin_step(Phase phase) { session_->begin_step(phase); }
  // Books work of a loader's thread under phase `data`.
  void note_loading(Split split, std::int64_t start_ns, std::int64_t end_ns);
  // The files, as of now, once the first rank has the books of all. What cannot be written ends no
  // run: the next save, at most half a second later, tries again.
  void save();
  std::int64_t saved_uj() const;  // what the ledger in the folder sums to
  // Why the files could not be written, once when saves begin to fail; else empty.
  std::string new_trouble();
  void stop(RunSummary& summary);  // checks and saves the whole run's books and sums them up
  // What the trace could hold; "" without one. After stop().
  std::string trace_note() const;

 private:
  std::int64_t earlier_uj() const { return earlier_ ? earlier_->energy_uj : 0; }
  energy::Ledger whole(energy::Ledger books) const;
  void write(const energy::Ledger& session_books);
  MachineUse use(double part_s, double whole_s);
  void note_trouble(const std::string& reason);
  std::string meter_notes() const;

  RankBooks own_books(energy::Ledger books);
  void collect(energy::Ledger books);
  void count_work(Ranks::Work work, std::int64_t start_ns, std::int64_t end_ns,
                  std::uint64_t bytes);

  const bool keeps_files_;
  const double pue_;
  const energy::CarbonIntensity& intensity_;
  EnergyFiles files_;
  Emissions emissions_;
  MachineUse earlier_use_;
  std::optional<energy::Ledger> earlier_;
  energy::MeterChoice choice_;
  std::optional<energy::Watts> idle_before_;
  std::unique_ptr<TraceFile> trace_;
  std::optional<PowerLog> power_;
  std::atomic<std::int64_t> others_uj_{0};  // other ranks' part of this part of the run
  mutable std::mutex mutex_;                // of what follows, and of the files
  std::vector<RankBooks> others_;           // as of the last collect()
  double saved_s_ = -1;
  double cpu_before_s_ = 0, memory_sum_gb_ = 0;
  int memory_samples_ = 0;
  CpuClaim cpu_;
  std::mutex trouble_mutex_;  // never held while files are written
  std::string trouble_;       // of the last save; empty: none
  bool trouble_told_ = true;
  std::unique_ptr<energy::Session> session_;
  std::array<energy::RowId, 2> loading_{};  // rows of the loaders of both splits
  energy::RowId wait_{}, exchange_{};       // of the ranks
};

}  // namespace hg
