// Linear layers on the CUDA device, real or emulated, with tensors at any alignment: the kernel
// that makes the product depends on it.
#include "tensor/ops/linear.h"

#include <doctest/doctest.h>

#include "tensor/ops/view.h"
#include "tensor/random.h"
#include "tensor/transfer.h"

namespace hg {
namespace {

Tensor random(const Shape& shape, const char* name) {
  RandomStream stream(11, name);
  const Tensor t = Tensor::empty(shape);
  fill_uniform(t, stream, -1, 1);
  return t;
}

void check_close(const Tensor& cpu, const Tensor& cuda) {
  const auto a = cpu.to_vector<float>(), b = to_device(cuda, Device::cpu).to_vector<float>();
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(b[i] == doctest::Approx(a[i]).epsilon(1e-4));
}

TEST_CASE("a linear layer takes tensors that begin anywhere") {
  const Tensor x = random({6, 17}, "x"), w = random({9, 17}, "w"), b = random({10}, "b");
  const Tensor xd = to_device(x, Device::cuda), wd = to_device(w, Device::cuda),
               bd = to_device(b, Device::cuda);
  struct Begin {
    std::int64_t x, w, b;
  };
  for (const auto& [i, j, k] :
       {Begin{0, 0, 0}, Begin{1, 0, 0}, Begin{0, 4, 0}, Begin{0, 0, 1}, Begin{2, 1, 2}}) {
    INFO("rows from " << i << " and " << j << ", bias from " << k);
    const auto part = [](const Tensor& t, std::int64_t from, std::int64_t n) {
      return slice(t, from, from + n);
    };
    check_close(linear(part(x, i, 4), part(w, j, 5), part(b, k, 5)),
                linear(part(xd, i, 4), part(wd, j, 5), part(bd, k, 5)));
    check_close(linear_gelu(part(x, i, 4), part(w, j, 5), part(b, k, 5)),
                linear_gelu(part(xd, i, 4), part(wd, j, 5), part(bd, k, 5)));
  }
}

}  // namespace
}  // namespace hg
