#include "train/report/run_record.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

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

std::optional<Config> settings_of(const std::string& toml, const std::string& source) {
  try {
    return parse_config(toml, source);
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

// The last `parts` parts of a path.
std::string end_of(const std::filesystem::path& path, std::size_t parts) {
  const std::vector<std::filesystem::path> all(path.begin(), path.end());
  std::filesystem::path end;
  for (std::size_t i = all.size() - std::min(parts, all.size()); i < all.size(); ++i) end /= all[i];
  return end.string();
}

std::size_t different(const auto& all) { return std::set(all.begin(), all.end()).size(); }

}  // namespace

double RunRecord::total_uj() const { return static_cast<double>(energy::sum_of(rows).energy_uj); }

std::optional<double> RunRecord::final_f1() const {
  const auto last = std::find_if(epochs.rbegin(), epochs.rend(),
                                 [](const EpochRow& row) { return row.micro_f1.has_value(); });
  return last == epochs.rend() ? std::nullopt : last->micro_f1;
}

std::string RunRecord::provenance() const {
  if (energy_meter.empty())
    return fmt::format("Energy {}; the run names its meter at its end", energy_kind);
  std::string text = fmt::format("Energy {} by {}, shared out by profile \"{}\"", energy_kind,
                                 energy_meter, energy_profile);
  if (!energy_source.empty()) text += fmt::format(" ({})", energy_source);
  return text;
}

std::string RunRecord::doubts() const {
  std::string text;
  if (!meter_notes.empty()) text += "Faults of the meter: " + meter_notes + ". ";
  if (const std::string note = cpu_share_note(); !note.empty()) text += "The run " + note + ". ";
  if (!energy_unsaved.empty()) text += "Energy files lack the end of the run: " + energy_unsaved;
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
  run.settings = settings_of(run.config, folder.config());
  run.epochs = read_metrics(folder.metrics());
  std::erase_if(run.epochs, [](const EpochRow& row) { return !row.train_loss; });
  run.rows = energy::parse_ledger_csv(read_text(folder.ledger()), folder.ledger());
  run.steps = read_steps(folder.steps());
  run.power = read_power(folder.power());
  run.confusion = read_confusion(folder.confusion());
  run.launches = read_launches(folder.launches());
  summarize_rows(run);
  if (is_file(folder.summary())) read_summary(folder.summary(), run);
  return run;
}

std::vector<std::string> names_of(const std::vector<RunRecord>& runs) {
  std::vector<std::string> names;
  std::vector<std::filesystem::path> paths;
  for (const RunRecord& run : runs) {
    names.push_back(run.name);
    paths.push_back(std::filesystem::absolute(run.folder + "/.").lexically_normal().parent_path());
  }
  const auto longest = std::max_element(paths.begin(), paths.end(), [](auto& a, auto& b) {
    return std::distance(a.begin(), a.end()) < std::distance(b.begin(), b.end());
  });
  const std::size_t most =
      runs.empty() ? 0 : static_cast<std::size_t>(std::distance(longest->begin(), longest->end()));
  // The same folder may come twice.
  for (std::size_t parts = 1; parts <= most && different(names) < runs.size() &&
                              (parts == 1 || different(names) < different(paths));
       ++parts)
    for (std::size_t i = 0; i < runs.size(); ++i) names[i] = end_of(paths[i], parts);
  return names;
}

std::string provenance_of(const std::vector<RunRecord>& runs) {
  std::vector<std::string> sentences;
  for (const RunRecord& run : runs)
    if (std::find(sentences.begin(), sentences.end(), run.provenance()) == sentences.end())
      sentences.push_back(run.provenance());
  return fmt::format("{}. Ranges and whiskers are 95 % intervals.", fmt::join(sentences, "; "));
}

Interval share_of(double share, double n) {
  constexpr double z = 1.96;
  const double middle = (share + z * z / (2 * n)) / (1 + z * z / n);
  const double half =
      z / (1 + z * z / n) * std::sqrt(share * (1 - share) / n + z * z / (4 * n * n));
  return {share, std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

}  // namespace hg::report
