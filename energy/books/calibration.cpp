#include "energy/books/calibration.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "tensor/base/error.h"

namespace hg::energy {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "hg-energy-profile";
constexpr int kVersion = 1;
constexpr std::array<const char*, kCoefficients> kNames{"static_w", "pj_per_flop", "pj_per_byte",
                                                        "active_w_per_thread"};

// Reads one object; messages name its path in the file.
class Reader {
 public:
  Reader(const Json& object, const std::string& source, std::string path)
      : object_(object), source_(source), path_(std::move(path)) {
    if (!object.is_object()) refuse("", "an object", object);
  }

  const Json& at(const std::string& key) const {
    const auto found = object_.find(key);
    require(found != object_.end(), source_, "{} is missing", path_ + key);
    return *found;
  }
  bool has(const std::string& key) const { return object_.contains(key); }
  std::string text(const std::string& key) const {
    const Json& value = at(key);
    if (!value.is_string() || value.get<std::string>().empty()) refuse(key, "a text", value);
    return value;
  }
  double number(const std::string& key, double low, double high) const {
    const Json& value = at(key);
    const bool ok = value.is_number() && value.get<double>() >= low && value.get<double>() <= high;
    if (!ok) refuse(key, fmt::format("a number from {} to {}", low, high), value);
    return value;
  }
  Reader object(const std::string& key) const { return {at(key), source_, path_ + key + "."}; }
  void only(std::initializer_list<std::string_view> known) const {
    for (const auto& [key, value] : object_.items())
      require(std::find(known.begin(), known.end(), key) != known.end(), source_,
              "{} is no key of an energy profile; known here: {}", path_ + key,
              fmt::join(known, ", "));
  }
  void require_that(bool ok, const char* fault) const {
    require(ok, source_, "{}: {}", path_.substr(0, path_.size() - 1), fault);
  }
  [[noreturn]] void refuse(const std::string& key, const std::string& expected,
                           const Json& found) const {
    const std::string name = path_ + key;
    fail(source_, "{}: expected {}, got {}", name.empty() ? "the file" : name, expected,
         found.dump().substr(0, 60));
  }

 private:
  const Json& object_;
  const std::string& source_;
  const std::string path_;
};

Covariance read_covariance(const Reader& reader) {
  const std::string expected = "4 rows of 4 numbers, symmetric, with variances on the diagonal";
  const Json& rows = reader.at("covariance");
  Covariance c{};
  const auto refuse_unless = [&](bool ok) {
    if (!ok) reader.refuse("covariance", expected, rows);
  };
  refuse_unless(rows.is_array() && rows.size() == kCoefficients);
  for (std::size_t i = 0; i < kCoefficients; ++i) {
    refuse_unless(rows[i].is_array() && rows[i].size() == kCoefficients);
    for (std::size_t j = 0; j < kCoefficients; ++j) {
      refuse_unless(rows[i][j].is_number() && std::isfinite(rows[i][j].get<double>()));
      c[i][j] = rows[i][j];
    }
  }
  for (std::size_t i = 0; i < kCoefficients; ++i)
    for (std::size_t j = 0; j < kCoefficients; ++j) {
      const double most = std::sqrt(c[i][i] * c[j][j]) * (1 + 1e-6);
      refuse_unless(c[i][i] >= 0 && std::abs(c[i][j]) <= most &&
                    std::abs(c[i][j] - c[j][i]) <= 1e-6 * most);
    }
  return c;
}

DomainModel read_domain(const Reader& reader) {
  reader.only({kNames[0], kNames[1], kNames[2], kNames[3], "covariance", "misfit", "degrees"});
  DomainModel model;
  double sum = 0;
  for (std::size_t i = 0; i < kCoefficients; ++i)
    sum += model.coefficients[i] = reader.number(kNames[i], 0, 1e6);
  reader.require_that(sum > 0, "all coefficients are 0");
  model.covariance = read_covariance(reader);
  model.misfit = reader.number("misfit", 0, 10);
  model.degrees = static_cast<int>(reader.number("degrees", 1, 1e6));
  return model;
}

PartTimes read_times(const Reader& reader) {
  reader.only({"ps_per_flop_mm", "ps_per_flop_ew", "ps_per_byte"});
  return {reader.number("ps_per_flop_mm", 1e-6, 1e6), reader.number("ps_per_flop_ew", 1e-6, 1e6),
          reader.number("ps_per_byte", 0, 1e6)};
}

Json parse(std::string_view text, const std::string& source) {
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& e) {
    fail(source, "no JSON: the fault is at byte {}", e.byte);
  }
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
  return domains[d] ? *domains[d] : rough({1, 0, 0, 0}, 0.5, 0.5);
}

Calibration parse_calibration(std::string_view text, const std::string& source) {
  const Json json = parse(text, source);
  const Reader reader(json, source, "");
  require(reader.has("format") && reader.at("format") == kFormat, source,
          "is no energy profile: expected \"format\": \"{}\"", kFormat);
  require(reader.at("version") == kVersion, source, "version: expected {}, got {}", kVersion,
          reader.at("version").dump().substr(0, 60));
  reader.only({"format", "version", "name", "machine", "meter", "domains", "part_times"});
  Calibration c{reader.text("name"), reader.text("machine"), reader.text("meter"), {}, {}};
  const Reader domains = reader.object("domains");
  domains.only({"package", "dram", "gpu"});
  for (std::size_t d = 0; d < kDomains; ++d) {
    const std::string name(to_string(static_cast<Domain>(d)));
    if (domains.has(name)) c.domains[d] = read_domain(domains.object(name));
  }
  require(c.domains[0] || c.domains[1] || c.domains[2], source, "domains: none is given");
  c.times = read_times(reader.object("part_times"));
  return c;
}

std::string to_json(const Calibration& c) {
  Json domains = Json::object();
  for (std::size_t d = 0; d < kDomains; ++d)
    if (c.domains[d])
      domains[std::string(to_string(static_cast<Domain>(d)))] = domain_json(*c.domains[d]);
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
// half of it outside the package; an op's bytes come mostly from cache. DRAM: 1 W idle. GPU: idle,
// as ops run on the CPU. Times: a product runs near peak, elementwise work at an eighth of it.
const Calibration& default_calibration() {
  static const Calibration instance{
      "default",
      "no machine: orders of magnitude",
      "none",
      {rough({5, 20, 30, 2}, 0.5, 0.2), rough({1, 0, 40, 0}, 0.5, 0.3), rough({10, 0, 0, 0}, 0, 0)},
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
