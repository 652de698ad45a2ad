#include "energy/books/calibration.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "energy/books/fit.h"
#include "tensor/base/error.h"
#include "tests/support/temp_folder.h"

using namespace hg;
using namespace hg::energy;
using hg::testing::message_of;

namespace {

using Json = nlohmann::ordered_json;

std::vector<BenchPoint> points_of(const Coefficients& truth, double noise) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  std::vector<BenchPoint> points;
  for (int i = 0; i < 30; ++i) {
    const double busy = i % 5 == 0 ? 0 : 1 + i % 2, flops = busy * 4e4 * (i % 3),
                 bytes = busy * 8e3 * (i % 4);
    const Features x{1e6, flops, bytes, busy * 1e6};
    points.push_back({"p", x, dot(truth, x) * (1 + noise * normal(random))});
  }
  return points;
}

std::string refusal(const std::string& text) {
  return message_of<Error>([&] { parse_calibration(text, "p.json"); });
}

std::string refusal_with(const Json::json_pointer& where, const Json& value) {
  Json json = Json::parse(to_json(default_calibration()));
  json[where] = value;
  return refusal(json.dump());
}

}  // namespace

TEST_CASE("a fit finds the coefficients and says how far they may be off") {
  const Coefficients truth{7, 30, 90, 4};
  const DomainModel exact = fit(points_of(truth, 0), "test");
  for (std::size_t i = 0; i < kCoefficients; ++i)
    CHECK(exact.coefficients[i] == doctest::Approx(truth[i]).epsilon(1e-9));
  const DomainModel noisy = fit(points_of(truth, 0.03), "test");
  CHECK(noisy.misfit == doctest::Approx(0.03).epsilon(0.35));
  CHECK(noisy.degrees == 26);
  for (std::size_t i = 0; i < kCoefficients; ++i) {
    const double sd = std::sqrt(noisy.covariance[i][i]);
    CHECK(sd > 0);
    CHECK(std::abs(noisy.coefficients[i] - truth[i]) < 4 * sd);
  }
}

TEST_CASE("no coefficient is negative: what would be is left out") {
  const DomainModel model = fit(points_of({7, 30, 0, 4}, 0.02), "test");
  for (const double c : model.coefficients) CHECK(c >= 0);
  CHECK(model.coefficients[1] == doctest::Approx(30).epsilon(0.2));
}

TEST_CASE("a fit that cannot be done says why") {
  const auto why = [](const std::vector<BenchPoint>& points) {
    return message_of<Error>([&] { fit(points, "package"); });
  };
  std::vector<BenchPoint> points = points_of({7, 30, 90, 4}, 0);
  CHECK(why({points[0], points[1]}).find("2 benchmarks for 4 unknowns") != std::string::npos);
  points[3].energy_uj = 0;
  points[3].name = "add 64 MB";
  CHECK(why(points) == "package: cannot be fitted: the meter saw no energy in add 64 MB");
  points = points_of({7, 30, 90, 4}, 0);
  for (std::size_t i = 0; i < points.size(); i += 2) points[i].energy_uj *= 20;
  CHECK(why(points).find("deviate by") != std::string::npos);
}

TEST_CASE("the default profile knows no domain well and says so") {
  for (std::size_t d = 0; d < kDomains; ++d) {
    INFO(name_of_domain(d));
    const DomainModel model = default_calibration().domain(d);
    CHECK(model.misfit >= 0.2);
    for (std::size_t i = 0; i < kCoefficients; ++i)
      CHECK(std::sqrt(model.covariance[i][i]) >= 0.5 * model.coefficients[i]);
  }
}

TEST_CASE("a profile survives being written and read") {
  Calibration c = default_calibration();
  c.name = "desk";
  c.domains[2].reset();
  const Calibration again = parse_calibration(to_json(c), "p.json");
  CHECK(to_json(again) == to_json(c));
  CHECK(again.name == "desk");
  CHECK_FALSE(again.domains[2]);
  CHECK(again.domain(2).coefficients == default_calibration().domains[2]->coefficients);
}

TEST_CASE("a profile that is damaged is refused in one line") {
  CHECK(refusal("{\"format\": ") == "p.json: no JSON: the fault is at byte 12");
  CHECK(refusal("[1]").find("expected an object") != std::string::npos);
  CHECK(refusal("{}").find("is no energy profile") != std::string::npos);
  using P = Json::json_pointer;
  CHECK(refusal_with(P("/version"), 2) == "p.json: version: expected 1, got 2");
  CHECK(refusal_with(P("/name"), "").find("name: expected a text") != std::string::npos);
  CHECK(refusal_with(P("/extra"), 1).find("extra: is no key") != std::string::npos);
  CHECK(refusal_with(P("/domains/package/static_w"), -1)
            .find("domains.package.static_w: expected a number from 0") != std::string::npos);
  CHECK(refusal_with(P("/domains/package/static_w"), nullptr).find("got null") !=
        std::string::npos);
  CHECK(refusal_with(P("/domains/package/misfit"), "x").find("misfit") != std::string::npos);
  CHECK(refusal_with(P("/domains/dram/covariance/1"), Json::array({1, 2})).find("covariance") !=
        std::string::npos);
  CHECK(refusal_with(P("/domains/dram/covariance/0/1"), 99).find("symmetric") != std::string::npos);
  CHECK(refusal_with(P("/domains"), Json::object()).find("none is given") != std::string::npos);
  CHECK(refusal_with(P("/domains/moon"), 1).find("domains.moon") != std::string::npos);
  CHECK(refusal_with(P("/part_times/ps_per_byte"), -1).find("part_times.ps_per_byte") !=
        std::string::npos);
  const Json zero{
      {"static_w", 0}, {"pj_per_flop", 0}, {"pj_per_byte", 0}, {"active_w_per_thread", 0}};
  Json json = Json::parse(to_json(default_calibration()));
  json["domains"]["dram"].update(zero);
  CHECK(refusal(json.dump()) == "p.json: domains.dram: all coefficients are 0");
}

TEST_CASE("Student's quantile") {
  CHECK(student_quantile(1) == doctest::Approx(12.7062));
  CHECK(student_quantile(3) == doctest::Approx(3.1824).epsilon(0.01));
  CHECK(student_quantile(5) == doctest::Approx(2.5706).epsilon(0.001));
  CHECK(student_quantile(20) == doctest::Approx(2.0860).epsilon(1e-4));
  CHECK(student_quantile(100000) == doctest::Approx(1.96).epsilon(1e-4));
}
