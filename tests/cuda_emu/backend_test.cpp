// Memory, copies and clock of the CUDA device, real or emulated, and how ops get there.
#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "tensor/backend.h"
#include "tensor/cuda_device.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/linear.h"
#include "tensor/ops/view.h"
#include "tensor/transfer.h"

namespace hg {
namespace {

TEST_CASE("tensors go to the device and back") {
  REQUIRE(cuda::unavailable() == "");
  const Tensor x = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor y = to_device(x, Device::cuda);
  CHECK(y.device() == Device::cuda);
  CHECK(y.clone().device() == Device::cuda);
  CHECK(to_device(y.clone(), Device::cpu).to_vector<float>() == x.to_vector<float>());
  CHECK(to_device(transpose(x), Device::cuda).shape() == Shape{3, 2});
  CHECK(to_device(to_device(transpose(x), Device::cuda), Device::cpu).to_vector<float>() ==
        std::vector<float>{1, 4, 2, 5, 3, 6});
  CHECK(to_device(Tensor::zeros({3}, DType::f32, Device::cuda), Device::cpu).to_vector<float>() ==
        std::vector<float>{0, 0, 0});
  CHECK(to_device(Tensor::zeros({0, 3}, DType::f32, Device::cuda), Device::cpu).numel() == 0);
  CHECK_THROWS_AS(y.to_vector<float>(), Error);
}

TEST_CASE("ops run on the device of their inputs, on parts of tensors too") {
  const Tensor x = Tensor::of<float>({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const Tensor y = to_device(x, Device::cuda);
  const Tensor sum = add(slice(y, 1, 3), slice(y, 0, 2));  // rows not aligned to 16 bytes
  CHECK(to_device(sum, Device::cpu).to_vector<float>() == std::vector<float>{5, 7, 9, 11, 13, 15});
  CHECK_THROWS_WITH_AS(add(x, y), "add: input 0 is on cpu, input 1 on cuda", Error);
  const Tensor wide = Tensor::zeros({2}, DType::f64, Device::cuda);
  CHECK_THROWS_AS(add(wide, wide), Error);
}

TEST_CASE("the device tells what it is") {
  const cuda::DeviceFacts facts = cuda::device_facts();
  CHECK(facts.name != "");
  CHECK(10 * facts.capability[0] + facts.capability[1] >= 75);
  CHECK(facts.driver.find('.') != std::string::npos);
  CHECK(facts.runtime.find('.') != std::string::npos);
  CHECK(facts.memory_bytes >= facts.free_bytes);
  CHECK(facts.free_bytes > 0);
  CHECK((facts.flops_per_s > 0) == (facts.bytes_per_s > 0));
  CHECK(facts.tf32_flops_per_s >= facts.flops_per_s);
}

TEST_CASE("several threads of the host run ops on the device") {
  constexpr int kThreads = 4, kCalls = 20;
  std::vector<std::vector<float>> results(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      Tensor x = to_device(Tensor::full({9, 5}, t + 1), Device::cuda);
      const Tensor w = to_device(Tensor::full({5, 5}, 0.2), Device::cuda);
      for (int i = 0; i < kCalls; ++i) x = linear(x, w);
      results[static_cast<std::size_t>(t)] = to_device(x, Device::cpu).to_vector<float>();
    });
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kThreads; ++t)
    for (const float v : results[static_cast<std::size_t>(t)])
      CHECK(v == doctest::Approx(t + 1).epsilon(1e-4));
}

TEST_CASE("the device's clock goes forward") {
  Backend& device = backend(Device::cuda);
  const std::int64_t start = device.timestamp_ns();
  for (int i = 0; i < 100; ++i) Tensor::zeros({1000}, DType::f32, Device::cuda);
  device.synchronize();
  CHECK(device.timestamp_ns() > start);
}

}  // namespace
}  // namespace hg
