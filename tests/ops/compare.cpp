#include "tests/ops/compare.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace hg::testing {
namespace {

void compare_floats(const Tensor& actual, const RefTensor<double>& expected, double tolerance) {
  const std::vector<double> values = actual.to(DType::f64).to_vector<double>();
  double scale = 1e-3, worst = 0;
  for (const double v : expected.values())
    if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
  std::size_t at = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double want = expected.values()[i];
    double error = values[i] == want ? 0 : std::abs(values[i] - want) / scale;
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    if (error > worst) worst = error, at = i;
  }
  INFO("element " << at << ": got " << (values.empty() ? 0 : values[at]) << ", expected "
                  << (values.empty() ? 0 : expected.values()[at]));
  CHECK(worst <= tolerance);
}

}  // namespace

std::string describe(const Sample& sample, In in) {
  std::string text(sample.op->name());
  for (const Tensor& t : in) text += " " + to_string(t) + (t.contiguous() ? "" : "^T");
  return text;
}

void check_outputs(In out, std::span<const RefTensor<double>> expected, double tolerance) {
  REQUIRE(out.size() == expected.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    INFO("output " << i);
    REQUIRE(out[i].shape() == expected[i].shape());
    if (out[i].dtype() == DType::i64)
      CHECK(out[i].to_vector<std::int64_t>() == expected[i].integers());
    else
      compare_floats(out[i], expected[i], out[i].dtype() == DType::f64 ? 1e-12 : tolerance);
  }
}

}  // namespace hg::testing
