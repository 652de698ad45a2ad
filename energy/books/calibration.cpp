#include "energy/books/calibration.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tensor/base/files.h"
#include "tensor/base/json_value.h"
#include "tensor/base/usage_error.h"

namespace hg::energy {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "hg-energy-profile";
constexpr int kVersion = 1;
constexpr std::array<const char*, kCoefficients> kNames{"static_w", "pj_per_flop", "pj_per_byte",
                                                        "active_w_per_thread"};

void allow_only(const JsonValue& object, const std::vector<std::string_view>& known) {
  for (const std::string& key : object.keys())
    if (std::find(known.begin(), known.end(), key) == known.end())
      usage_fail(object[key].where(), "is no key of an energy profile; known here: {}",
                 fmt::join(known, ", "));
}

std::string text_of(const JsonValue& value) {
  const std::string text = value.text();
  if (text.empty()) value.refuse("a text");
  return text;
}

Covariance read_covariance(const JsonValue& value) {
  Covariance c{};
  const auto refuse_unless = [&](bool ok) {
    if (!ok) value.refuse("4 rows of 4 numbers, symmetric, with variances on the diagonal");
  };
  const std::vector<JsonValue> rows = value.items();
  refuse_unless(rows.size() == kCoefficients);
  for (std::size_t i = 0; i < kCoefficients; ++i) {
    const std::vector<JsonValue> row = rows[i].items();
    refuse_unless(row.size() == kCoefficients);
    for (std::size_t j = 0; j < kCoefficients; ++j) c[i][j] = row[j].number();
  }
  for (std::size_t i = 0; i < kCoefficients; ++i)
    for (std::size_t j = 0; j < kCoefficients; ++j) {
      const double most = std::sqrt(c[i][i] * c[j][j]) * (1 + 1e-6);
      refuse_unless(c[i][i] >= 0 && std::abs(c[i][j]) <= most &&
                    std::abs(c[i][j] - c[j][i]) <= 1e-6 * most);
    }
  return c;
}

DomainModel read_domain(const JsonValue& value) {
  allow_only(value,
             {kNames[0], kNames[1], kNames[2], kNames[3], "covariance", "misfit", "degrees"});
  DomainModel model;
  double sum = 0;
  for (std::size_t i = 0; i < kCoefficients; ++i)
    sum += model.coefficients[i] = value[kNames[i]].number(0, 1e6);
  usage_require(sum > 0, value.where(), "all coefficients are 0");
  model.covariance = read_covariance(value["covariance"]);
  model.misfit = value["misfit"].number(0, 10);
  model.degrees = static_cast<int>(value["degrees"].number(1, 1e6));
  return model;
}

PartTimes read_times(const JsonValue& value) {
  allow_only(value, {"ps_per_flop_mm", "ps_per_flop_ew", "ps_per_byte"});
  return {value["ps_per_flop_mm"].number(1e-6, 1e6), value["ps_per_flop_ew"].number(1e-6, 1e6),
          value["ps_per_byte"].number(0, 1e6)};
}

Json domain_json(const DomainModel& model) {
  Json out;
  for (std::size_t i = 0; i < kCoefficients; ++i) out[kNames[i]] = model.coefficients[i];
  out["covariance"] = model.covariance;
  out["misfit"] = model.misfit;
  out["degrees"] = model.degrees;
  return out;
}

DomainModel rough(const Coefficients& c, double relative, double misfit) {
  DomainModel model{c, {}, misfit, 1000};
  for (std::size_t i = 0; i < kCoefficients; ++i)
    model.covariance[i][i] = relative * c[i] * relative * c[i];
  return model;
}

}  // namespace

DomainModel Calibration::domain(std::size_t d) const {
  return domains[d] ? *domains[d] : *default_calibration().domains[d];
}

Calibration parse_calibration(std::string_view text, const std::string& source) {
  const JsonValue json(text, source);
  usage_require(json.text_if_any("format") == kFormat, source,
                "is no energy profile: expected \"format\": \"{}\"", kFormat);
  if (json["version"].number() != kVersion) json["version"].refuse(std::to_string(kVersion));
  allow_only(json, {"format", "version", "name", "machine", "meter", "domains", "part_times"});
  Calibration c{text_of(json["name"]), text_of(json["machine"]), text_of(json["meter"]), {}, {}};
  const JsonValue domains = json["domains"];
  allow_only(domains, {"package", "dram", "gpu"});
  for (std::size_t d = 0; d < kDomains; ++d)
    if (const std::string name = name_of_domain(d); domains.has(name))
      c.domains[d] = read_domain(domains[name]);
  usage_require(c.domains[0] || c.domains[1] || c.domains[2], domains.where(), "none is given");
  c.times = read_times(json["part_times"]);
  return c;
}

Calibration load_calibration(const std::string& path) {
  return path.empty() ? default_calibration() : parse_calibration(read_text(path), path);
}

std::string to_json(const Calibration& c) {
  Json domains = Json::object();
  for (std::size_t d = 0; d < kDomains; ++d)
    if (c.domains[d]) domains[name_of_domain(d)] = domain_json(*c.domains[d]);
  const Json out{{"format", kFormat},
                 {"version", kVersion},
                 {"name", c.name},
                 {"machine", c.machine},
                 {"meter", c.meter},
                 {"domains", domains},
                 {"part_times",
                  {{"ps_per_flop_mm", c.times.ps_per_flop_mm},
                   {"ps_per_flop_ew", c.times.ps_per_flop_ew},
                   {"ps_per_byte", c.times.ps_per_byte}}}};
  return out.dump(2) + "\n";
}

// Nobody has measured the user's machine, so these are orders of magnitude, each within a factor of
// two (95 %). Package: an idle server core's share of a package is some 5 W; a busy
// core takes 2 to 8 W, of which vector arithmetic makes about half: at 50 to 100 GF/s a core that
// is some 20 pJ/FLOP, of which the arithmetic alone is 5 (Horowitz, ISSCC 2014, 45 nm:
// multiply 3.7, add 0.9); a byte from a 1 MB cache costs 12 pJ there, one from memory 160 to 320,
// half of it outside the package; an op's bytes come mostly from cache. DRAM: 1 W idle. GPU: boards
// idle at 10 W (T4) to 70 W (H100), and are busy at 70 to 700 W; at the peak of single precision
// that is 8 to 20 pJ/FLOP, of their memory's 40 to 150 pJ/byte, everything else included. One board
// may be three times another, so these are within a factor of three. Times: a product runs near
// peak, elementwise work at an eighth of it.
const Calibration& default_calibration() {
  static const Calibration instance{
      "default",
      "no machine: orders of magnitude",
      "none",
      {rough({5, 20, 30, 2}, 0.5, 0.2), rough({1, 0, 40, 0}, 0.5, 0.3),
       rough({30, 10, 60, 50}, 1, 0.4)},
      {10, 80, 40}};
  return instance;
}

// Cornish-Fisher expansion; exact for 1 and 2, where it is poor.
double student_quantile(int degrees) {
  constexpr double z = 1.959963984540054, z2 = z * z;
  if (degrees <= 1) return 12.706204736432095;
  if (degrees == 2) return 4.302652729911275;
  const double v = degrees;
  return z * (1 + (z2 + 1) / (4 * v) + (5 * z2 * z2 + 16 * z2 + 3) / (96 * v * v) +
              (3 * z2 * z2 * z2 + 19 * z2 * z2 + 17 * z2 - 15) / (384 * v * v * v) +
              (79 * z2 * z2 * z2 * z2 + 776 * z2 * z2 * z2 + 1482 * z2 * z2 - 1920 * z2 - 945) /
                  (92160 * v * v * v * v));
}

}  // namespace hg::energy
