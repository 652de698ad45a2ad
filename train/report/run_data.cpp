#include "train/report/run_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tensor/base/csv.h"
#include "tensor/base/files.h"
#include "tensor/base/usage_error.h"

namespace hg::report {
namespace {

using Json = nlohmann::json;

std::string contents(const std::string& path) { return std::string(MappedFile(path).bytes()); }

std::vector<Epoch> epochs_of(const std::string& path) {
  const CsvTable m(contents(path), path);
  std::vector<Epoch> epochs;
  for (std::size_t i = 0; i < m.rows(); ++i) {
    if (m.text(i, "train_loss").empty()) continue;  // a phase that trains nothing
    epochs.push_back({static_cast<double>(epochs.size() + 1), m.number(i, "train_loss"),
                      m.figure(i, "test_loss"), m.figure(i, "accuracy"), m.figure(i, "micro_f1"),
                      m.figure(i, "macro_f1"), m.number(i, "energy_j"), m.number(i, "seconds")});
  }
  return epochs;
}

// A summary's fields; null and absent are none.
class Summary {
 public:
  Summary(Json json, const std::string& path) : json_(std::move(json)), path_(path) {
    usage_require(json_.is_object(), path, "expected a JSON object");
  }
  std::optional<double> number(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) return std::nullopt;
    usage_require(found->is_number(), path_, "{}: expected a number", key);
    return found->get<double>();
  }
  std::string text(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) return "";
    usage_require(found->is_string(), path_, "{}: expected text", key);
    return found->get<std::string>();
  }
  std::optional<Summary> object(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) return std::nullopt;
    return Summary(*found, path_);
  }

 private:
  const Json json_;
  const std::string path_;
};

std::optional<Prediction> prediction_of(const Summary& s) {
  const std::optional<Summary> p = s.object("prediction");
  if (!p) return std::nullopt;
  const double value = p->number("energy_j").value_or(0);
  return Prediction{
      {value, p->number("low_j").value_or(value), p->number("high_j").value_or(value)},
      p->number("step").value_or(0),
      p->number("actual_j")};
}

void add_summary(RunData& run, const std::string& path) {
  const std::string text = contents(path);
  Json json = Json::parse(text, nullptr, false);
  usage_require(!json.is_discarded(), path, "is not JSON");
  const Summary s(std::move(json), path);
  run.name = s.text("name");
  run.status = s.text("status");
  run.joules.value = s.number("energy_j").value_or(run.joules.value);
  run.joules.low = s.number("energy_low_j").value_or(run.joules.low);
  run.joules.high = s.number("energy_high_j").value_or(run.joules.high);
  run.kind = s.text("energy_kind");
  run.meter = s.text("energy_meter");
  run.source = s.text("energy_source");
  run.profile = s.text("energy_profile");
  run.co2_g = s.number("co2_g");
  run.g_per_kwh = s.number("carbon_g_per_kwh");
  run.pue = s.number("pue");
  run.flops = s.number("flops");
  run.images = s.number("images");
  run.test_images = s.number("test_images");
  run.seconds = s.number("seconds");
  run.peak_rss_bytes = s.number("peak_rss_bytes");
  run.country = s.text("country");
  run.carbon_source = s.text("carbon_source");
  run.prediction = prediction_of(s);
}

void add_ledger(RunData& run, const std::string& path) {
  try {
    run.rows = energy::parse_ledger_csv(contents(path), path);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
  energy::Kind worst = energy::Kind::measured;
  for (const energy::LedgerRow& row : run.rows) {
    run.joules.value += static_cast<double>(row.energy_uj) * 1e-6;
    run.joules.low += static_cast<double>(row.low_uj) * 1e-6;
    run.joules.high += static_cast<double>(row.high_uj) * 1e-6;
    worst = std::max(worst, row.kind);
  }
  run.kind = energy::to_string(worst);
}

}  // namespace

double RunData::total_uj() const {
  double sum = 0;
  for (const energy::LedgerRow& row : rows) sum += static_cast<double>(row.energy_uj);
  return sum;
}

std::optional<double> RunData::final_f1() const {
  if (epochs.empty()) return std::nullopt;
  return epochs.back().micro_f1;
}

std::string RunData::provenance() const {
  if (meter.empty()) return fmt::format("Energy {}; no summary names the meter", kind);
  return fmt::format("Energy {} by {}, shared out by profile \"{}\"", kind, meter, profile);
}

std::string RunData::source_text() const {
  return source.empty() ? provenance() : fmt::format("{}. Meter: {}", provenance(), source);
}

RunData read_run(const std::string& folder) {
  usage_require(std::filesystem::is_directory(folder), folder, "no such run folder");
  for (const char* file : {"metrics.csv", "ledger.csv", "config.toml"})
    usage_require(std::filesystem::exists(folder + "/" + file), folder,
                  "holds no {}: not a run folder", file);
  RunData run;
  run.folder = folder;
  run.name = std::filesystem::path(folder).lexically_normal().filename().string();
  run.status = "not ended";
  run.config = contents(folder + "/config.toml");
  run.epochs = epochs_of(folder + "/metrics.csv");
  add_ledger(run, folder + "/ledger.csv");
  const std::string summary = folder + "/summary.json";
  if (std::filesystem::exists(summary)) add_summary(run, summary);
  return run;
}

}  // namespace hg::report
