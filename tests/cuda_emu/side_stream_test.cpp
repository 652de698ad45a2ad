// The stream beside that of the ops, on a device real or emulated: what is packed and added there,
// and in which order.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include "tensor/cuda_peers.h"
#include "tensor/ops/binary.h"
#include "tensor/transfer.h"

namespace hg {
namespace {

Tensor there(std::initializer_list<float> values) {
  return to_device(Tensor::of<float>({static_cast<std::int64_t>(values.size())}, values),
                   Device::cuda);
}

void await(cuda::SideStream& side) {
  side.mark();
  while (side.marks_to_come() > 0) continue;
}

TEST_CASE("the side stream packs floats, and -0 where there are none") {
  const auto side = cuda::side_stream();
  const Tensor a = there({1, 2, 3}), b = there({4, 5});
  std::vector<cuda::FloatPart> parts{{a.data<float>(), 3}, {nullptr, 2}, {b.data<float>(), 2}};
  for (int i = 0; i < 70; ++i) parts.push_back({b.data<float>() + i % 2, 1});  // in two launches
  const Tensor all = Tensor::empty({77}, DType::f32, Device::cuda);
  side->follow_ops();
  side->pack(parts, all.data<float>());
  await(*side);
  const std::vector<float> values = to_device(all, Device::cpu).to_vector<float>();
  CHECK(std::vector<float>(values.begin(), values.begin() + 7) ==
        std::vector<float>{1, 2, 3, 0, 0, 4, 5});
  CHECK(std::signbit(values[3]));
  for (std::size_t i = 0; i < 70; ++i) CHECK(values[7 + i] == (i % 2 == 0 ? 4 : 5));
}

TEST_CASE("the side stream reaches its marks one after the other, again and again") {
  const auto side = cuda::side_stream();
  const Tensor a = there({1, 2}), sum = Tensor::empty({2}, DType::f32, Device::cuda);
  CHECK(side->marks_to_come() == 0);
  for (const std::size_t marks : {3, 2, 4}) {
    side->follow_ops();
    for (std::size_t m = 0; m < marks; ++m) {
      side->add(a.data<float>(), a.data<float>(), sum.data<float>(), 2);
      side->mark();
    }
    std::size_t before = marks;
    for (std::size_t now; before > 0; before = now) {
      now = side->marks_to_come();
      CHECK(now <= before);
    }
    CHECK(side->marks_to_come() == 0);
  }
}

TEST_CASE("the side stream waits for ops, adds, and leaves what meets -0 as it is") {
  const auto side = cuda::side_stream();
  const Tensor x = add(there({1, -0.0f, 0, 1e-45f}), there({1, -0.0f, 0, 0}));
  const Tensor none = there({-0.0f, -0.0f, -0.0f, -0.0f});
  const Tensor sum = Tensor::empty({4}, DType::f32, Device::cuda);
  side->follow_ops();
  side->add(x.data<float>(), none.data<float>(), sum.data<float>(), 4);
  side->wait_for_ops();
  await(*side);
  const auto before = to_device(x, Device::cpu).to_vector<float>(),
             after = to_device(sum, Device::cpu).to_vector<float>();
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(std::bit_cast<std::uint32_t>(after[i]) == std::bit_cast<std::uint32_t>(before[i]));
}

}  // namespace
}  // namespace hg
