#include "tools/hgprof/kernels.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "tensor/base/clock.h"
#include "tensor/cpu/parallel.h"
#include "tensor/observer.h"
#include "tensor/ops/attention.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/layer_norm.h"
#include "tensor/ops/linear.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/softmax.h"
#include "tensor/ops/unary.h"
#include "tools/hgprof/bench_device.h"

namespace hg::prof {
namespace {

using energy::Window;

constexpr int kTrialsPerPoint = 5;
constexpr const char *kProduct = "product", *kCached = "add, cached", *kSoftmax = "softmax";

// Makes the work that one thread repeats, on tensors of its own.
struct Kernel {
  std::string name;
  std::function<std::function<void()>()> make;
};

// Where kernels run, and how many rows they have for each that suits a thread.
struct BenchSite {
  Device device = Device::cpu;
  std::int64_t enlarge = 1;
};

// A kernel on tensors of these shapes.
Kernel on(Device device, std::string name, const std::vector<Shape>& shapes,
          void (*call)(const Tensors&)) {
  return {std::move(name), [=] {
            Tensors inputs;
            for (const Shape& shape : shapes)
              inputs.push_back(Tensor::full(shape, 0.25, DType::f32, device));
            return [=] { call(inputs); };
          }};
}

std::vector<Kernel> kernels(const BenchSite& at) {
  const Device d = at.device;
  const std::int64_t n = at.enlarge;
  const auto product = [&](std::string name, std::int64_t m, std::int64_t k, std::int64_t width) {
    return on(d, std::move(name), {{n * m, k}, {k, width}},
              [](const Tensors& t) { matmul(t[0], t[1]); });
  };
  const auto addition = [&](std::string name, std::int64_t bytes) {
    return on(d, std::move(name), {{n * bytes / 12}, {n * bytes / 12}},
              [](const Tensors& t) { add(t[0], t[1]); });
  };
  return {product("small product", 64, 64, 64),
          product(kProduct, 600, 64, 192),
          product("wide product", 256, 256, 256),
          addition("add, small", 12 << 10),
          addition(kCached, 192 << 10),
          addition("add, in memory", d == Device::cpu ? 96 << 20 : 1 << 20),
          on(d, "gelu", {{n * 600, 256}}, [](const Tensors& t) { gelu(t[0]); }),
          on(d, kSoftmax, {{n * 2400, 50}}, [](const Tensors& t) { softmax(t[0]); }),
          on(d, "layer norm", {{n * 600, 64}, {64}, {64}},
             [](const Tensors& t) { layer_norm(t[0], t[1], t[2]); }),
          on(d, "attention", {{n * 12, 50, 192}}, [](const Tensors& t) { attention(t[0], 4); }),
          on(d, "linear and gelu", {{n * 600, 64}, {256, 64}, {256}},
             [](const Tensors& t) { linear_gelu(t[0], t[1], t[2]); })};
}

void spin() {
  volatile std::uint64_t x = 1;
  for (int i = 0; i < 20000; ++i) x = x * 6364136223846793005u + 1442695040888963407u;
}

// Every thread repeats a kernel of its own, as workers do in training.
void repeat(const std::vector<std::function<void()>>& threads, std::uint64_t calls) {
  cpu::in_team(static_cast<int>(threads.size()), [&](int number) {
    const auto& mine = threads[static_cast<std::size_t>(number)];
    for (std::uint64_t i = 0; i < calls; ++i) mine();
  });
}

class CostCounter final : public Observer {
 public:
  void op_end(const OpCall& call) override { cost += call.op.cost(call.in, call.out).total(); }
  Cost cost;
};

Cost cost_of(const std::function<void()>& call) {
  CostCounter counter;
  const ObserverGuard guard(counter);
  const cpu::ThreadLimit single(1);
  call();
  return counter.cost;
}

void add_window(Window& sum, const Window& w) {
  sum.calls += w.calls;
  sum.seconds += w.seconds;
  sum.cpu_seconds += w.cpu_seconds;
  for (std::size_t d = 0; d < energy::kDomains; ++d) sum.uj[d] += w.uj[d];
}

void run_trials(Measured& m, energy::Meter& meter, double seconds,
                const std::function<void(std::uint64_t)>& body) {
  for (int trial = 0; trial < kTrialsPerPoint; ++trial)
    add_window(m.sum, measure(meter, seconds, body));
  fmt::print(stderr, "{}: {:.2f} W\n", m.name, m.sum.total_uj() * 1e-6 / m.sum.seconds);
}

Measured measure_idle(energy::Meter& meter, double seconds) {
  Measured m{"idle", 0, {}, {}};
  run_trials(m, meter, seconds, [](std::uint64_t calls) {
    std::this_thread::sleep_for(std::chrono::milliseconds(calls));
  });
  return m;
}

Measured measure_kernel(const Kernel& kernel, int threads, Device device, energy::Meter& meter,
                        double seconds) {
  const std::string where =
      device == Device::cpu ? fmt::format("{} threads", threads) : std::string("the GPU");
  Measured m{fmt::format("{} on {}", kernel.name, where), threads, {}, {}};
  std::vector<std::function<void()>> calls(static_cast<std::size_t>(threads));
  for (auto& call : calls) call = kernel.make();
  m.cost = cost_of(calls[0]);
  const auto body = [&](std::uint64_t n) {
    repeat(calls, n);
    finish(device);
  };
  const std::int64_t begin = now_ns();
  while (seconds_since(begin) < seconds / 10) body(1);  // warms up
  run_trials(m, meter, seconds, body);
  return m;
}

// On the CPU by one thread, which comes first, or on the GPU.
const Measured& of(const std::vector<Measured>& all, const std::string& kernel) {
  for (const Measured& m : all)
    if (m.name.starts_with(kernel + " on ")) return m;
  fail("calibrate", "no kernel {}", kernel);
}

}  // namespace

energy::BenchPoint Measured::point(std::size_t domain) const {
  const bool gpu = static_cast<energy::Domain>(domain) == energy::Domain::gpu;
  const double calls = static_cast<double>(sum.calls) * threads;
  const double busy_s = gpu ? (threads > 0 ? sum.seconds : 0) : sum.cpu_seconds;
  const energy::Features x{sum.seconds * 1e6, calls * static_cast<double>(cost.flops()) * 1e-6,
                           calls * static_cast<double>(cost.bytes()) * 1e-6, busy_s * 1e6};
  return {name, x, sum.uj[domain]};
}

std::vector<Measured> measure_cpu(energy::Meter& meter, double seconds) {
  std::vector<Measured> all{measure_idle(meter, seconds)};
  std::vector<Kernel> list = kernels({});
  list.insert(list.begin(), {"spin", [] { return spin; }});
  for (const Kernel& kernel : list) {
    all.push_back(measure_kernel(kernel, 1, Device::cpu, meter, seconds));
    if (cpu::threads() > 1)
      all.push_back(measure_kernel(kernel, cpu::threads(), Device::cpu, meter, seconds));
  }
  return all;
}

std::vector<Measured> measure_gpu(energy::Meter& meter, double seconds, std::int64_t enlarge) {
  constexpr std::int64_t kSuits = 64;  // a large GPU
  std::vector<Measured> all{measure_idle(meter, seconds)};
  for (const Kernel& kernel : kernels({Device::cuda, enlarge > 0 ? enlarge : kSuits}))
    all.push_back(measure_kernel(kernel, 1, Device::cuda, meter, seconds));
  return all;
}

energy::PartTimes part_times(const std::vector<Measured>& all) {
  const Measured &mm = of(all, kProduct), &bytes = of(all, kCached), &ew = of(all, kSoftmax);
  energy::PartTimes t;
  t.ps_per_flop_mm = mm.seconds_per_call() * 1e12 / static_cast<double>(mm.cost.flops());
  t.ps_per_byte = bytes.seconds_per_call() * 1e12 / static_cast<double>(bytes.cost.bytes());
  const double rest =
      ew.seconds_per_call() * 1e12 - t.ps_per_byte * static_cast<double>(ew.cost.bytes());
  t.ps_per_flop_ew = std::max(t.ps_per_flop_mm, rest / static_cast<double>(ew.cost.flops()));
  return t;
}

}  // namespace hg::prof
