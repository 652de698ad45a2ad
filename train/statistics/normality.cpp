#include "train/statistics/normality.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <initializer_list>
#include <numbers>
#include <numeric>

#include "tensor/base/error.h"

namespace hg::statistics {
namespace {

double poly(std::initializer_list<double> coefficients, double t) {
  double sum = 0;
  for (auto c = std::rbegin(coefficients); c != std::rend(coefficients); ++c) sum = sum * t + *c;
  return sum;
}

// a_1 .. a_h, h = n / 2: the weight of x_(n+1-i) is a_i, that of x_(i) is -a_i.
std::vector<double> upper_weights(std::size_t n) {
  if (n == 3) return {std::sqrt(0.5)};
  const auto size = static_cast<double>(n);
  const boost::math::normal standard;
  std::vector<double> m(n / 2);
  for (std::size_t i = 0; i < m.size(); ++i)
    m[i] = quantile(standard, (static_cast<double>(i) + 0.625) / (size + 0.25));
  const double total = 2 * std::inner_product(m.begin(), m.end(), m.begin(), 0.0);
  const double t = 1 / std::sqrt(size);
  std::vector<double> a(m.size());
  a[0] = poly({0, .221157, -.147981, -2.07119, 4.434685, -2.706056}, t) - m[0] / std::sqrt(total);
  double rest_m = total - 2 * m[0] * m[0], rest_a = 1 - 2 * a[0] * a[0];
  std::size_t fitted = 1;
  if (n > 5) {
    a[1] =
        poly({0, .042981, -.293762, -1.752461, 5.682633, -3.582633}, t) - m[1] / std::sqrt(total);
    rest_m -= 2 * m[1] * m[1];
    rest_a -= 2 * a[1] * a[1];
    fitted = 2;
  }
  for (std::size_t i = fitted; i < a.size(); ++i) a[i] = -m[i] / std::sqrt(rest_m / rest_a);
  return a;
}

// 1 - W, which keeps its digits where W is close to 1. The weights' mean is 0 by symmetry.
double one_minus_w(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  const double lowest = x.front(), range = x.back() - x.front();
  for (double& v : x) v = (v - lowest) / range;
  const double centre = mean(x);
  const std::vector<double> a = upper_weights(x.size());
  double ss_a = 0, ss_x = 0, s_ax = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ss_a += 2 * a[i] * a[i];
    s_ax += a[i] * (x[x.size() - 1 - i] - x[i]);
  }
  for (const double v : x) ss_x += (v - centre) * (v - centre);
  const double q = std::sqrt(ss_a * ss_x);
  return std::clamp((q - s_ax) * (q + s_ax) / (ss_a * ss_x), 0.0, 1.0);
}

double p_of(double w, std::size_t n) {
  if (n == 3)
    return std::max(
        0.0, 6 / std::numbers::pi * (std::asin(std::sqrt(1 - w)) - std::asin(std::sqrt(0.75))));
  const auto size = static_cast<double>(n);
  double y = std::log(w), mu, sigma;
  if (n <= 11) {
    const double gamma = poly({-2.273, .459}, size);
    if (y >= gamma) return 1e-99;
    y = -std::log(gamma - y);
    mu = poly({.544, -.39978, .025054, -6.714e-4}, size);
    sigma = std::exp(poly({1.3822, -.77857, .062767, -.0020322}, size));
  } else {
    const double log_n = std::log(size);
    mu = poly({-1.5861, -.31082, -.083751, .0038915}, log_n);
    sigma = std::exp(poly({-.4803, -.082676, .0030302}, log_n));
  }
  return std::erfc((y - mu) / sigma / std::numbers::sqrt2) / 2;
}

}  // namespace

std::optional<std::string> shapiro_wilk_refusal(Sample x) {
  if (x.size() < 3 || x.size() > 5000)
    return fmt::format("{} values, Shapiro-Wilk takes 3 to 5000", x.size());
  if (constant(x)) return fmt::format("constant sample, all {} values are {}", x.size(), x.front());
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  if (!std::isfinite(*high - *low))
    return fmt::format("the range from {} to {} is no finite number", *low, *high);
  return std::nullopt;
}

ShapiroWilk shapiro_wilk(Sample x) {
  require_sample(x, 0, "shapiro-wilk");
  if (const auto refusal = shapiro_wilk_refusal(x)) fail("shapiro-wilk", "{}", *refusal);
  const double w = one_minus_w({x.begin(), x.end()});
  return {1 - w, p_of(w, x.size())};
}

}  // namespace hg::statistics
