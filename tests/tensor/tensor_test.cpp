#include "tensor/tensor.h"
#include "tensor/cuda_device.h"

#include <doctest/doctest.h>

#include <limits>

#include "tensor/cuda_device.h"
#include "tensor/ops/view.h"

using namespace hg;

namespace {
const Tensor kTwoByThree = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
}

TEST_CASE("a tensor is made with shape, strides and type") {
  const Tensor t = Tensor::empty({2, 3, 4}, DType::f64);
  CHECK(t.defined());
  CHECK(t.rank() == 3);
  CHECK(t.dim(-1) == 4);
  CHECK(t.numel() == 24);
  CHECK(t.bytes() == 192);
  CHECK(t.strides() == Shape{12, 4, 1});
  CHECK(t.contiguous());
  CHECK(to_string(t) == "f64[2,3,4]");
  CHECK(Tensor::zeros({3}).to_vector<float>() == std::vector<float>{0, 0, 0});
  CHECK(Tensor::full({2}, 7, DType::i64).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{7, 7});
  CHECK(Tensor::zeros({0, 3}).to_vector<float>().empty());
  CHECK_THROWS_WITH_AS(t.dim(3), "dim: axis 3 out of range for [2,3,4]", Error);
  CHECK_THROWS_WITH_AS(Tensor::of<float>({2, 2}, {1, 2, 3}), "tensor: 3 values for [2,2]", Error);
}

TEST_CASE("copies of a handle are one value and detach makes another on the same storage") {
  const Tensor t = kTwoByThree, copy = t, detached = t.detach();
  CHECK(copy.id() == t.id());
  CHECK(detached.id() != t.id());
  CHECK(detached.storage() == t.storage());
  CHECK(detached.shape() == t.shape());
  CHECK_THROWS_WITH_AS(Tensor().detach(), "detach: undefined tensor", Error);
}

TEST_CASE("clone copies into storage of its own") {
  const Tensor t = Tensor::of<float>({2}, {1, 2}), c = t.clone();
  CHECK(c.id() != t.id());
  CHECK(c.storage() != t.storage());
  c.data<float>()[0] = 9;
  CHECK(t.to_vector<float>() == std::vector<float>{1, 2});
  const Tensor turned = transpose(kTwoByThree).clone();
  CHECK(turned.contiguous());
  CHECK(turned.to_vector<float>() == std::vector<float>{1, 4, 2, 5, 3, 6});
}

TEST_CASE("to converts a copy") {
  const Tensor t = Tensor::of<double>({3}, {1.75, -2.5, 3});
  CHECK(t.to(DType::f32).to_vector<float>() == std::vector<float>{1.75f, -2.5f, 3});
  CHECK(t.to(DType::i64).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, -2, 3});
  CHECK(t.to(DType::f64).storage() != t.storage());
  CHECK(transpose(kTwoByThree).to(DType::f64).to_vector<double>() ==
        std::vector<double>{1, 4, 2, 5, 3, 6});
}

TEST_CASE("item reads the one element") {
  CHECK(Tensor::full({}, 3).item<float>() == 3);
  CHECK(Tensor::full({1, 1}, -2, DType::i64).item<std::int64_t>() == -2);
  CHECK_THROWS_WITH_AS(kTwoByThree.item<float>(), "item: expected one element, got f32[2,3]",
                       Error);
  CHECK_THROWS_AS(Tensor::zeros({0}).item<float>(), Error);
}

TEST_CASE("contents are only read as what they are") {
  CHECK_THROWS_WITH_AS(kTwoByThree.data<double>(), "tensor: f32[2,3] read as f64", Error);
  CHECK_THROWS_WITH_AS(kTwoByThree.data<std::int64_t>(), "tensor: f32[2,3] read as i64", Error);
  CHECK_THROWS_WITH_AS(kTwoByThree.to_vector<double>(), "tensor: f32[2,3] read as f64", Error);
  CHECK_THROWS_AS(Tensor::full({}, 1).item<double>(), Error);
}

TEST_CASE("undefined and hollow tensors have no contents") {
  const Tensor hollow = kTwoByThree.hollow();
  CHECK(hollow.id() == kTwoByThree.id());
  CHECK(hollow.shape() == kTwoByThree.shape());
  CHECK(to_string(Tensor()) == "undefined");
  CHECK_FALSE(Tensor().defined());
  CHECK_THROWS_WITH_AS(hollow.data<float>(), "tensor: f32[2,3] has no contents", Error);
  CHECK_THROWS_WITH_AS(hollow.clone(), "tensor: f32[2,3] has no contents", Error);
  CHECK_THROWS_WITH_AS(Tensor().data<float>(), "tensor: undefined has no contents", Error);
  CHECK_THROWS_AS(Tensor().clone(), Error);
  CHECK_THROWS_AS(Tensor().to(DType::f64), Error);
  CHECK_THROWS_AS(Tensor().item<float>(), Error);
}

TEST_CASE("absurd extents are refused before any memory is asked for") {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const std::uint64_t before = allocator::stats().bytes_in_use;
  CHECK_THROWS_WITH_AS(Tensor::empty({2, -1}), "tensor: negative extent in [2,-1]", Error);
  CHECK_THROWS_WITH_AS(Tensor::zeros({0, -1}), "tensor: negative extent in [0,-1]", Error);
  CHECK_THROWS_WITH_AS(Tensor::empty({1l << 32, 1l << 32}),
                       "tensor: [4294967296,4294967296] is too large", Error);
  CHECK_THROWS_AS(Tensor::empty({kMax}), Error);
  CHECK_THROWS_AS(Tensor::empty({kMax, kMax, kMax, 0}), Error);
  CHECK_THROWS_AS(Tensor::full({kMax / 4}, 1), Error);
  CHECK_THROWS_AS(Tensor::zeros({1l << 60}, DType::f64), Error);
  CHECK_THROWS_WITH_AS(Tensor::empty({1l << 44}),
                       "allocator: 70368744177664 bytes is beyond any machine", Error);
  CHECK(allocator::stats().bytes_in_use == before);
}

TEST_CASE("a device that is not there is refused with the reason") {
  const std::string reason = cuda::unavailable();
  if (reason.empty()) return;  // it is there
  CHECK_THROWS_WITH_AS(Tensor::empty({2}, DType::f32, Device::cuda), ("cuda: " + reason).c_str(),
                       Error);
}
