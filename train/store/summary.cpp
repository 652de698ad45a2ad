#include "train/store/summary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tensor/base/json_value.h"

namespace hg {
namespace {

using Json = nlohmann::ordered_json;

// One list of keys for both directions.
template <class Summary, class Field>
void visit_fields(Summary& s, Field field) {
  field("name", s.name);
  field("status", s.status);
  field("accuracy", s.accuracy);
  field("micro_f1", s.micro_f1);
  field("macro_f1", s.macro_f1);
  field("energy_j", s.energy_j.value);
  field("energy_kind", s.energy_kind);
  field("energy_source", s.energy_source);
  field("co2_g", s.co2_g);
  field("seconds", s.seconds);
  field("flops", s.flops);
  field("flops_matmul", s.flops_matmul);
  field("images", s.images);
  field("peak_rss_bytes", s.peak_rss_bytes);
  field("joules_per_f1", s.joules_per_f1);
  field("energy_low_j", s.energy_j.low);
  field("energy_high_j", s.energy_j.high);
  field("energy_meter", s.energy_meter);
  field("energy_profile", s.energy_profile);
  field("energy_seconds", s.energy_seconds);
  field("meter_faults", s.meter_faults);
  field("country", s.country);
  field("carbon_g_per_kwh", s.carbon_g_per_kwh);
  field("carbon_source", s.carbon_source);
  field("pue", s.pue);
  field("test_images", s.test_images);
  field("trained_parameters", s.trained_parameters);
  field("cpu_share", s.cpu_share);
  field("meter_notes", s.meter_notes);
  field("energy_unsaved", s.energy_unsaved);
}

template <class Prediction, class Field>
void visit_prediction(Prediction& p, Field field) {
  field("step", p.step);
  field("energy_j", p.energy_j.value);
  field("low_j", p.energy_j.low);
  field("high_j", p.energy_j.high);
}

template <class T>
Json or_null(const T& value) {
  return value;
}
template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
Json or_null(const std::optional<energy::Watts>& power) {
  return power ? Json(power->value) : Json();
}

void take(const JsonValue& json, std::string& value) { value = json.text(); }
void take(const JsonValue& json, double& value) { value = json.number(); }
void take(const JsonValue& json, std::optional<double>& value) { value = json.number(); }
void take(const JsonValue& json, std::int64_t& value) { value = json.integer(); }
void take(const JsonValue& json, std::uint64_t& value) { value = json.count(); }

auto writer_to(Json& json) {
  return [&](const char* key, const auto& value) { json[key] = or_null(value); };
}
auto reader_of(const JsonValue& json) {
  return [&](const char* key, auto& value) {
    if (json.has(key)) take(json[key], value);
  };
}

Json energy_by_domain(const RunSummary& s) {
  Json domains = Json::object();
  for (std::size_t d = 0; d < energy::kDomains; ++d)
    if (s.domain_j[d]) domains[energy::name_of_domain(d)] = *s.domain_j[d];
  return domains;
}

// What was predicted and, of a run that finished, how right it was.
Json prediction_json(const RunSummary& s) {
  if (!s.prediction.made()) return nullptr;
  Json json;
  visit_prediction(s.prediction, writer_to(json));
  const Interval& predicted = s.prediction.energy_j;
  const double actual = s.energy_j.value;
  const bool finished = s.status == kFinished;
  json["actual_j"] = finished ? Json(actual) : Json();
  json["error_percent"] = finished ? Json(100 * (predicted.value / actual - 1)) : Json();
  json["inside"] = finished ? Json(predicted.low <= actual && actual <= predicted.high) : Json();
  return json;
}

Json select_json(const std::optional<SelectionSummary>& s) {
  if (!s) return nullptr;
  return {{"mode", s->mode},       {"kept", s->kept},   {"kept_end", s->kept_end},
          {"patches", s->patches}, {"saves", s->saves}, {"unscored_images", s->unscored_images}};
}

Json sparsity_json(const std::optional<SparsitySummary>& s) {
  if (!s) return nullptr;
  return {{"kind", s->kind},
          {"weight", s->weight},
          {"term", or_null(s->term)},
          {"small_weights", or_null(s->small_weights)},
          {"effective_support", or_null(s->effective_support)}};
}

Json scaling_json(const std::optional<Scaling>& s) {
  if (!s) return nullptr;
  return {{"wait_s", s->wait_s},
          {"exchange_s", s->exchange_s},
          {"communication_share", s->share},
          {"exchange_bytes", s->exchange_bytes},
          {"energy_j", s->energy_j}};
}

}  // namespace

std::string RunSummary::cpu_share_note() const {
  if (!cpu_share || *cpu_share >= kFullCpuShare) return "";
  return fmt::format(
      "got {:.0f} % of the cores it asked for: other work held them; times are longer by that, and "
      "{}",
      100 * *cpu_share,
      energy_kind == energy::to_string(energy::Kind::modelled)
          ? "modelled energy leaves the waiting out"
          : "measured energy holds that work, too");
}

std::string to_json(const RunSummary& s, int indent) {
  Json json;
  visit_fields(s, writer_to(json));
  json["energy_by_domain_j"] = energy_by_domain(s);
  json["idle_w"] = {{"before", or_null(s.idle_before)}, {"after", or_null(s.idle_after)}};
  json["prediction"] = prediction_json(s);
  json["select"] = select_json(s.select);
  json["sparsity"] = sparsity_json(s.sparsity);
  json["ranks"] = s.ranks;
  json["hosts"] = s.hosts;
  json["scaling"] = scaling_json(s.scaling);
  for (const auto& [name, value] : s.figures) json[name] = value;
  return json.dump(indent);
}

void read_summary(const std::string& path, RunSummary& summary) {
  const JsonValue json = JsonValue::read(path);
  visit_fields(summary, reader_of(json));
  if (!json.has("prediction")) return;
  const JsonValue prediction = json["prediction"];
  visit_prediction(summary.prediction, reader_of(prediction));
}

}  // namespace hg
