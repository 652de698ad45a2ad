#include "energy/books/fit.h"

#include <Eigen/Dense>
#include <cmath>

#include "tensor/base/error.h"

namespace hg::energy {
namespace {

constexpr double kWorstMisfit = 0.5;  // beyond it the points don't follow the model

struct Solution {
  std::vector<std::size_t> used;  // coefficients that are not 0
  Eigen::VectorXd values, scale;
  Eigen::MatrixXd inverse;  // of the scaled normal matrix
  double squares = 0;       // of the relative residuals
  bool valid = false;
};

// Features divided by the energy: the model then says 1 for each point. Columns are scaled to
// length 1, so that units don't matter to the rank.
Solution solve(const Eigen::MatrixXd& relative, unsigned subset) {
  Solution c;
  for (std::size_t i = 0; i < kCoefficients; ++i)
    if (subset >> i & 1) c.used.push_back(i);
  const auto n = relative.rows(), k = static_cast<Eigen::Index>(c.used.size());
  Eigen::MatrixXd x(n, k);
  for (Eigen::Index j = 0; j < k; ++j)
    x.col(j) = relative.col(static_cast<Eigen::Index>(c.used[static_cast<std::size_t>(j)]));
  c.scale = x.colwise().norm();
  if (n <= k || c.scale.minCoeff() <= 0) return c;
  x.array().rowwise() /= c.scale.transpose().array();
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(n);
  const Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(x);
  if (qr.rank() < k || std::abs(qr.matrixR()(k - 1, k - 1)) < 1e-3) return c;
  c.values = qr.solve(ones);
  c.inverse = (x.transpose() * x).inverse();
  c.squares = (x * c.values - ones).squaredNorm();
  c.valid = c.values.minCoeff() > 0;
  return c;
}

DomainModel model_of(const Solution& c, Eigen::Index points) {
  DomainModel model;
  model.degrees = static_cast<int>(points - c.values.size());
  const double variance = c.squares / model.degrees;
  model.misfit = std::sqrt(variance);
  for (std::size_t i = 0; i < c.used.size(); ++i) {
    const auto row = static_cast<Eigen::Index>(i);
    model.coefficients[c.used[i]] = c.values[row] / c.scale[row];
    for (std::size_t j = 0; j < c.used.size(); ++j) {
      const auto col = static_cast<Eigen::Index>(j);
      model.covariance[c.used[i]][c.used[j]] =
          variance * c.inverse(row, col) / (c.scale[row] * c.scale[col]);
    }
  }
  return model;
}

}  // namespace

DomainModel fit(std::span<const BenchPoint> points, const std::string& what) {
  const auto n = static_cast<Eigen::Index>(points.size());
  require(points.size() > kCoefficients, what, "cannot be fitted: {} benchmarks for {} unknowns",
          points.size(), kCoefficients);
  Eigen::MatrixXd relative(n, static_cast<Eigen::Index>(kCoefficients));
  for (Eigen::Index i = 0; i < n; ++i) {
    const BenchPoint& p = points[static_cast<std::size_t>(i)];
    require(p.energy_uj > 0, what, "cannot be fitted: the meter saw no energy in {}", p.name);
    for (std::size_t j = 0; j < kCoefficients; ++j)
      relative(i, static_cast<Eigen::Index>(j)) = p.features[j] / p.energy_uj;
  }
  Solution best;
  for (unsigned subset = 1; subset < 1u << kCoefficients; ++subset) {
    Solution c = solve(relative, subset);
    if (c.valid && (!best.valid || c.squares < best.squares)) best = std::move(c);
  }
  require(best.valid, what, "cannot be fitted: the benchmarks don't tell the coefficients apart");
  DomainModel model = model_of(best, n);
  require(
      model.misfit <= kWorstMisfit, what,
      "cannot be fitted: the benchmarks deviate by {:.0f} % from the model; is the machine busy?",
      100 * model.misfit);
  return model;
}

}  // namespace hg::energy
