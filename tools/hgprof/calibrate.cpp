// hgprof calibrate: fits this machine's energy profile from its meter by kernels that load
// arithmetic, caches or memory, or do nothing, on one thread and on all.
#include <chrono>
#include <thread>

#include "energy/books/fit.h"
#include "energy/meters/choice.h"
#include "energy/meters/cpu_info.h"
#include "energy/meters/window.h"
#include "tensor/base/files.h"
#include "tensor/base/usage_error.h"
#include "tensor/cpu/parallel.h"
#include "tensor/observer.h"
#include "tensor/ops/attention.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/layer_norm.h"
#include "tensor/ops/linear.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/softmax.h"
#include "tensor/ops/unary.h"
#include "tools/hgprof/commands.h"

namespace hg::prof {
namespace {

using energy::BenchPoint;
using energy::Features;
using energy::Window;

constexpr int kTrialsPerPoint = 5;

// Makes the work that one thread repeats, on tensors of its own.
struct Kernel {
  std::string name;
  std::function<std::function<void()>()> make;
};

Tensor filled(const Shape& shape) { return Tensor::full(shape, 0.25); }

// A kernel on tensors of these shapes.
Kernel on(std::string name, const std::vector<Shape>& shapes, void (*call)(const Tensors&)) {
  return {std::move(name), [=] {
            Tensors inputs;
            for (const Shape& shape : shapes) inputs.push_back(filled(shape));
            return [=] { call(inputs); };
          }};
}

Kernel product(std::int64_t m, std::int64_t k, std::int64_t n) {
  return on(fmt::format("product {}x{}x{}", m, k, n), {{m, k}, {k, n}},
            [](const Tensors& t) { matmul(t[0], t[1]); });
}

Kernel addition(std::int64_t bytes) {
  return on(fmt::format("add {} kB", bytes / 1024), {{bytes / 12}, {bytes / 12}},
            [](const Tensors& t) { add(t[0], t[1]); });
}

void spin() {
  volatile std::uint64_t x = 1;
  for (int i = 0; i < 20000; ++i) x = x * 6364136223846793005u + 1442695040888963407u;
}

std::vector<Kernel> kernels() {
  return {{"spin", [] { return spin; }},
          product(64, 64, 64),
          product(600, 64, 192),
          product(256, 256, 256),
          addition(12 << 10),
          addition(192 << 10),
          addition(96 << 20),
          on("gelu", {{600, 256}}, [](const Tensors& t) { gelu(t[0]); }),
          on("softmax", {{2400, 50}}, [](const Tensors& t) { softmax(t[0]); }),
          on("layer norm", {{600, 64}, {64}, {64}},
             [](const Tensors& t) { layer_norm(t[0], t[1], t[2]); }),
          on("attention", {{12, 50, 192}}, [](const Tensors& t) { attention(t[0], 4); }),
          on("linear and gelu", {{600, 64}, {256, 64}, {256}},
             [](const Tensors& t) { linear_gelu(t[0], t[1], t[2]); })};
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

// Totals of one kernel over all its trials.
struct Measured {
  std::string name;
  int threads = 0;
  Cost cost;  // of one call
  Window sum;

  double seconds_per_call() const { return sum.seconds / static_cast<double>(sum.calls); }
  BenchPoint point(std::size_t domain) const {
    const double calls = static_cast<double>(sum.calls) * threads;
    const Features x{sum.seconds * 1e6, calls * static_cast<double>(cost.flops()) * 1e-6,
                     calls * static_cast<double>(cost.bytes()) * 1e-6, sum.cpu_seconds * 1e6};
    return {name, x, sum.uj[domain]};
  }
};

void add(Window& sum, const Window& w) {
  sum.calls += w.calls;
  sum.seconds += w.seconds;
  sum.cpu_seconds += w.cpu_seconds;
  for (std::size_t d = 0; d < energy::kDomains; ++d) sum.uj[d] += w.uj[d];
}

Measured measure_idle(energy::Meter& meter, double seconds) {
  Measured m{"idle", 1, {}, {}};
  for (int trial = 0; trial < kTrialsPerPoint; ++trial)
    add(m.sum, measure(meter, seconds, [](std::uint64_t calls) {
          std::this_thread::sleep_for(std::chrono::milliseconds(calls));
        }));
  return m;
}

Measured measure_kernel(const Kernel& kernel, int threads, energy::Meter& meter, double seconds) {
  Measured m{fmt::format("{} on {} threads", kernel.name, threads), threads, {}, {}};
  std::vector<std::function<void()>> calls(static_cast<std::size_t>(threads));
  for (auto& call : calls) call = kernel.make();
  m.cost = cost_of(calls[0]);
  const auto body = [&](std::uint64_t n) { repeat(calls, n); };
  measure(meter, seconds / 10, body);  // warms up
  for (int trial = 0; trial < kTrialsPerPoint; ++trial) add(m.sum, measure(meter, seconds, body));
  return m;
}

std::vector<Measured> measure_all(energy::Meter& meter, double seconds) {
  std::vector<Measured> all{measure_idle(meter, seconds)};
  for (const Kernel& kernel : kernels()) {
    all.push_back(measure_kernel(kernel, 1, meter, seconds));
    if (cpu::threads() > 1) all.push_back(measure_kernel(kernel, cpu::threads(), meter, seconds));
    fmt::print(stderr, "{}: {:.2f} W\n", all.back().name,
               all.back().sum.total_uj() * 1e-6 / all.back().sum.seconds);
  }
  return all;
}

const Measured& named(const std::vector<Measured>& all, const std::string& name) {
  for (const Measured& m : all)
    if (m.name == name) return m;
  fail("calibrate", "no kernel {}", name);
}

// Speeds of one thread: product, elementwise work, bytes out of cache.
energy::PartTimes part_times(const std::vector<Measured>& all) {
  const Measured& mm = named(all, "product 600x64x192 on 1 threads");
  const Measured& bytes = named(all, "add 192 kB on 1 threads");
  const Measured& ew = named(all, "softmax on 1 threads");
  energy::PartTimes t;
  t.ps_per_flop_mm = mm.seconds_per_call() * 1e12 / static_cast<double>(mm.cost.flops());
  t.ps_per_byte = bytes.seconds_per_call() * 1e12 / static_cast<double>(bytes.cost.bytes());
  const double rest =
      ew.seconds_per_call() * 1e12 - t.ps_per_byte * static_cast<double>(ew.cost.bytes());
  t.ps_per_flop_ew = std::max(t.ps_per_flop_mm, rest / static_cast<double>(ew.cost.flops()));
  return t;
}

// Throws, with the reason in one line, where there is nothing to fit.
void require_measuring(const energy::MeterChoice& choice) {
  if (choice.meter->kind_of(energy::Domain::package) == energy::Kind::measured) return;
  std::string reasons;
  for (const energy::Candidate& c : choice.candidates)
    if (c.verdict != energy::Verdict::used)
      reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", c.name, c.reason);
  fail("calibrate",
       "no meter measures this CPU ({}); make the profile on a machine like it "
       "and give it to hgprof with --profile",
       reasons);
}

// A domain that does not follow the model is left out.
void fit_domains(energy::Calibration& calibration, const energy::Meter& meter,
                 const std::vector<Measured>& all) {
  for (std::size_t d = 0; d < energy::kDomains; ++d) {
    const auto domain = static_cast<energy::Domain>(d);
    if (domain == energy::Domain::gpu || meter.kind_of(domain) != energy::Kind::measured) continue;
    std::vector<BenchPoint> points;
    double seen = 0;
    for (const Measured& m : all) {
      points.push_back(m.point(d));
      seen += m.sum.uj[d];
    }
    if (seen == 0) continue;  // the meter has no such domain
    try {
      calibration.domains[d] = energy::fit(points, std::string(energy::to_string(domain)));
    } catch (const Error& e) {
      if (domain == energy::Domain::package) throw;
      fmt::print(stderr, "{}; it is left out and will be shared by time\n", e.what());
    }
  }
}

}  // namespace

int calibrate_command(const CalibrateOptions& options) {
  cpu::set_threads(static_cast<int>(options.threads));
  AtomicFile file(options.out);  // found out now if it cannot be written
  const energy::MeterChoice choice = energy::open_meter();
  require_measuring(choice);
  const energy::CpuInfo cpu = energy::read_cpu_info("/sys");
  energy::Calibration calibration;
  calibration.machine =
      fmt::format("{}, {} threads", cpu.brand.empty() ? "unknown CPU" : cpu.brand, cpu::threads());
  calibration.name = options.name.empty() ? calibration.machine : options.name;
  calibration.meter = choice.meter->source();
  const std::vector<Measured> all = measure_all(*choice.meter, options.seconds);
  fit_domains(calibration, *choice.meter, all);
  calibration.times = part_times(all);
  file.write(to_json(calibration));
  file.commit();
  const energy::DomainModel package = calibration.domain(0);
  fmt::print(
      "{}: static {:.2f} W, {:.1f} pJ/FLOP, {:.1f} pJ/byte, {:.2f} W a busy thread; single "
      "kernels deviate by {:.1f} %\n",
      options.out, package.coefficients[0], package.coefficients[1], package.coefficients[2],
      package.coefficients[3], 100 * package.misfit);
  return 0;
}

}  // namespace hg::prof
