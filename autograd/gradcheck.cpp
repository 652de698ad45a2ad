#include "autograd/gradcheck.h"

#include <cmath>
#include <limits>

#include "autograd/tape.h"
#include "tensor/ops/view.h"
#include "tensor/random.h"

namespace hg {
namespace {

Tensor random_like(const Tensor& t, RandomStream& stream) {
  Tensor r = Tensor::empty(t.shape(), DType::f64);
  fill_uniform(r, stream, -1, 1);
  return r;
}

// sum over outputs and elements of weight * (plus - minus): subtracting first loses no digits.
double weighted_change(In plus, In minus, In weights) {
  double sum = 0;
  for (std::size_t k = 0; k < weights.size(); ++k) {
    const auto p = plus[k].to_vector<double>(), m = minus[k].to_vector<double>();
    const auto w = weights[k].to_vector<double>();
    for (std::size_t i = 0; i < w.size(); ++i) sum += w[i] * (p[i] - m[i]);
  }
  return sum;
}

// A copy of t with `amount` added along `direction`; strides are kept, so views stay views.
Tensor moved(const Tensor& t, const std::vector<double>& direction, double amount) {
  Tensor plain = t.clone();
  for (std::int64_t i = 0; i < t.numel(); ++i) plain.data<double>()[i] += amount * direction[i];
  return t.contiguous() ? plain : transpose(transpose(plain).clone());
}

struct Checker {
  const TensorFunction& f;
  Tensors inputs;
  Tensors weights;
  const GradcheckOptions& options;
  GradcheckResult result;

  double numeric(std::size_t k, const std::vector<double>& direction) {
    Tensors shifted = inputs;
    shifted[k] = moved(inputs[k], direction, options.step);
    const Tensors plus = f(shifted);
    shifted[k] = moved(inputs[k], direction, -options.step);
    const Tensors minus = f(shifted);
    return weighted_change(plus, minus, weights) / (2 * options.step);
  }

  void compare(std::size_t k, const std::string& where, double analytic, double numeric,
               double scale) {
    double error = std::abs(analytic - numeric) / scale;
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    ++result.checked;
    if (error > options.tolerance) result.ok = false;
    if (error <= result.max_error) return;
    result.max_error = error;
    result.worst =
        fmt::format("input {}, {}: analytic {}, numeric {}", k, where, analytic, numeric);
  }

  void check_elements(std::size_t k, const std::vector<double>& analytic, RandomStream& stream) {
    const auto n = static_cast<std::int64_t>(analytic.size());
    std::vector<double> direction(analytic.size(), 0.0);
    const std::int64_t count = std::min(n, options.max_elements);
    for (std::int64_t c = 0; c < count; ++c) {
      const std::size_t i = n <= options.max_elements ? static_cast<std::size_t>(c)
                                                      : stream.below(static_cast<std::uint64_t>(n));
      direction[i] = 1;
      compare(k, fmt::format("element {}", i), analytic[i], numeric(k, direction), 1);
      direction[i] = 0;
    }
  }

  // Every element takes part in a directional derivative; its rounding error grows with sqrt(n).
  void check_directions(std::size_t k, const std::vector<double>& analytic, RandomStream& stream) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::vector<double> direction(analytic.size());
      double expected = 0;
      for (std::size_t i = 0; i < analytic.size(); ++i) {
        direction[i] = 2 * stream.uniform() - 1;
        expected += analytic[i] * direction[i];
      }
      compare(k, "random direction", expected, numeric(k, direction),
              std::sqrt(static_cast<double>(std::max<std::size_t>(analytic.size(), 1))));
    }
  }
};

}  // namespace

GradcheckResult gradcheck(const TensorFunction& f, std::span<const Tensor> inputs,
                          const GradcheckOptions& options) {
  RandomStream stream(1, "gradcheck");
  Tensors leaves(inputs.begin(), inputs.end());
  Tape tape;
  for (const Tensor& t : leaves)
    if (is_float(t.dtype())) {
      require(t.dtype() == DType::f64, "gradcheck", "inputs must be f64, got {}", t);
      tape.watch(t);
    }
  const Tensors outputs = f(leaves);
  Checker checker{f, leaves, {}, options, {}};
  for (const Tensor& y : outputs) {
    require(y.dtype() == DType::f64, "gradcheck", "outputs must be f64, got {}", y);
    checker.weights.push_back(random_like(y, stream));
  }
  const Gradients grads = tape.backward(outputs, checker.weights);
  for (std::size_t k = 0; k < leaves.size(); ++k) {
    if (leaves[k].dtype() != DType::f64) continue;
    const auto analytic = grads[leaves[k]].to_vector<double>();
    checker.check_elements(k, analytic, stream);
    checker.check_directions(k, analytic, stream);
  }
  return checker.result;
}

}  // namespace hg
