// metrics.csv: a row for each epoch of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hg {

// An optional figure is none where the phase has no such figure, or the epoch no evaluation.
struct EpochRow {
  std::string phase;
  std::int64_t epoch = 0, step = 0;  // of the phase
  std::optional<double> train_loss, test_loss, accuracy, micro_f1, macro_f1;
  std::optional<double> images_per_s, tokens_per_image;
  std::uint64_t flops = 0;
  double energy_j = 0, co2_g = 0, seconds = 0;
  // The sparsity term without its weight, and how sparse attention weights were after the epoch.
  std::optional<double> sparsity, small_weights, effective_support;
};

std::vector<EpochRow> read_metrics(const std::string& path);

// The file as it grows. It is whole at any moment: each append rewrites it (rows are few), so a
// kill leaves either the old rows or the old rows and the new one.
class MetricsLog {
 public:
  // A new file without rows, or one that goes on after the first `rows` rows: what a killed run
  // wrote after the state it resumes from is dropped, so no row comes twice. For that, the row of
  // an epoch has to be appended before the state of the same epoch is written. The columns on
  // sparsity are there if the loss has such a term. Without a path, rows are kept in memory alone.
  MetricsLog(std::string path, bool with_sparsity, std::optional<std::size_t> rows = {});

  void append(const EpochRow& row);
  const std::vector<EpochRow>& rows() const { return rows_; }

 private:
  void write() const;

  std::string path_;
  bool with_sparsity_;
  std::vector<EpochRow> rows_;
};

}  // namespace hg
