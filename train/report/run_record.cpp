#include "train/report/run_record.h"

#include <algorithm>
#include <filesystem>

#include "tensor/base/files.h"
#include "tensor/base/usage_error.h"
#include "train/store/run_folder.h"

namespace hg::report {
namespace {

// The summary as far as the ledger tells.
void summarize_rows(RunRecord& run) {
  run.name = std::filesystem::path(run.folder).lexically_normal().filename().string();
  run.status = "not ended";
  const energy::LedgerRow sum = energy::sum_of(run.rows);
  run.energy_j = sum.joules();
  run.energy_kind = energy::to_string(sum.kind);
}

}  // namespace

double RunRecord::total_uj() const { return static_cast<double>(energy::sum_of(rows).energy_uj); }

std::optional<double> RunRecord::final_f1() const {
  const auto last = std::find_if(epochs.rbegin(), epochs.rend(),
                                 [](const EpochRow& row) { return row.micro_f1.has_value(); });
  return last == epochs.rend() ? std::nullopt : last->micro_f1;
}

std::string RunRecord::provenance() const {
  if (energy_meter.empty())
    return fmt::format("Energy {}; no summary names the meter", energy_kind);
  return fmt::format("Energy {} by {}, shared out by profile \"{}\"", energy_kind, energy_meter,
                     energy_profile);
}

std::string RunRecord::source_text() const {
  std::string text = provenance();
  if (!energy_source.empty()) text += ". Meter: " + energy_source;
  if (!meter_notes.empty()) text += ". Faults of the meter: " + meter_notes;
  if (const std::string note = cpu_share_note(); !note.empty()) text += ". The run " + note;
  if (!energy_unsaved.empty()) text += ". Energy files lack the end of the run: " + energy_unsaved;
  return text;
}

RunRecord read_run(const std::string& path) {
  usage_require(is_folder(path), path, "no such run folder");
  const RunFolder folder{path};
  for (const std::string& file : {folder.metrics(), folder.ledger(), folder.config()})
    usage_require(is_file(file), path, "holds no {}: not a run folder",
                  std::filesystem::path(file).filename().string());
  RunRecord run;
  run.folder = path;
  run.config = read_text(folder.config());
  run.epochs = read_metrics(folder.metrics());
  std::erase_if(run.epochs, [](const EpochRow& row) { return !row.train_loss; });
  run.rows = energy::parse_ledger_csv(read_text(folder.ledger()), folder.ledger());
  summarize_rows(run);
  if (is_file(folder.summary())) read_summary(folder.summary(), run);
  return run;
}

}  // namespace hg::report
