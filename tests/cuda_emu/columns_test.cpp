// Sums over the rows of long matrices, which are made in parts, on the device and on the CPU: the
// ops' own samples are shorter.
#include <doctest/doctest.h>

#include <cstring>

#include "tensor/ops/broadcast.h"
#include "tensor/ops/layer_norm.h"
#include "tensor/run.h"
#include "tensor/transfer.h"
#include "tests/ops/compare.h"

namespace hg {
namespace {

using S = SampleInput;

constexpr double kColumnTolerance = 1e-4;

Tensors on_device(const Op& op, In in) {
  Tensors there, out;
  for (const Tensor& t : in) there.push_back(to_device(t, Device::cuda));
  for (const Tensor& t : run(op, there)) out.push_back(to_device(t, Device::cpu));
  return out;
}

// As on the CPU, and the same bits again.
void check_columns(const Op& op, const std::vector<S>& inputs) {
  const Tensors in = make_inputs({op.clone(), inputs}, DType::f32);
  const Tensors expected = run(op, in), got = on_device(op, in), again = on_device(op, in);
  testing::check_outputs(got, testing::as_references<double>(expected), kColumnTolerance);
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(std::memcmp(got[i].raw(), again[i].raw(), got[i].bytes()) == 0);
}

TEST_CASE("columns are summed in parts, of any number of rows") {
  for (const std::int64_t rows : {0, 1, 63, 64, 127, 128, 200, 1000, 9000})
    for (const std::int64_t width : {3, 33}) {
      INFO(rows << " rows of " << width);
      check_columns(ops::SumLeading(1), {S::uniform({rows, width})});
    }
}

TEST_CASE("layer norm's gradients of many rows and of every width that a warp holds") {
  for (const std::int64_t width : {1, 32, 64, 65, 192, 200, 384, 768, 769, 1024, 1025}) {
    const std::int64_t rows = width > 300 ? 35 : 300;
    INFO(rows << " rows of " << width);
    const S row = S::uniform({rows, width});
    check_columns(ops::LayerNormBackward(),
                  {row, row, S::uniform({width}), S::uniform({rows}), S::uniform({rows}, 0.5, 2)});
  }
}

}  // namespace
}  // namespace hg
