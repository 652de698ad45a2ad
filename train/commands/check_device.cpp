// hgtrain check-device: whether a device computes what it should, and how fast.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "energy/meters/choice.h"
#include "energy/meters/cpu_info.h"
#include "tensor/base/process.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cuda_device.h"
#include "tensor/transfer.h"
#include "train/commands/check_ops.h"
#include "train/commands/commands.h"
#include "train/config/model_options.h"
#include "train/phases/measured_step.h"

namespace hg {
namespace {

constexpr int kSteps = 5;
constexpr double kGpuCurve = 1e-3, kTf32Curve = 1e-2;  // largest differences of losses

double gib(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

std::string describe_device(Device device) {
  if (device == Device::cpu) {
    const energy::CpuInfo cpu = energy::read_cpu_info("/sys");
    return fmt::format("{}, {} threads, {:.1f} GiB",
                       cpu.brand.empty() ? "CPU of unknown name" : cpu.brand, cpu::threads(),
                       gib(machine_memory().total_bytes));
  }
  const cuda::DeviceFacts facts = cuda::device_facts();
  return fmt::format(
      "{}, compute capability {}.{}, {:.1f} GiB ({:.1f} free), driver of CUDA {}, build of CUDA {}",
      facts.name, facts.capability[0], facts.capability[1], gib(facts.memory_bytes),
      gib(facts.free_bytes), facts.driver, facts.runtime);
}

std::string describe_meter(Device device) {
  const energy::MeterChoice choice =
      energy::open_meter(energy::MeterSetup::from_environment(device));
  return fmt::format("{}, {}", choice.meter->name(), energy::to_string(choice.meter->kind()));
}

// What some training steps on one batch give.
struct Course {
  std::vector<double> losses;
  std::vector<std::vector<float>> weights;
  double ms_per_step = 0;  // the least
  bool operator==(const Course& other) const {
    return losses == other.losses && weights == other.weights;
  }
};

Course course_of(const Config& config) {
  MeasuredStep step(config);
  Course course;
  for (int i = 0; i < kSteps; ++i) {
    const double ms = step.timed_ms();
    course.ms_per_step = i == 0 ? ms : std::min(course.ms_per_step, ms);
    course.losses.push_back(step.loss());
  }
  for (const nn::Parameter& p : step.model().parameters().all())
    course.weights.push_back(on_host(p.value).to_vector<float>());
  return course;
}

Config on_cpu(Config config) {
  config.run.device = RunConfig::DeviceChoice::cpu;
  return config;
}

// Steps against those on the CPU; on the CPU against those on one thread more, which must not show.
Checked check_steps(const Config& config, Device device, bool tf32) {
  const int threads = cpu::threads();
  const Course course = course_of(config), again = course_of(config);
  if (device == Device::cpu) cpu::set_threads(threads + 1);
  const Course expected = course_of(on_cpu(config));
  cpu::set_threads(static_cast<int>(config.run.threads));
  Checked checked;
  checked.op = "training step";
  checked.shape = fmt::format("{} steps, batch {}", kSteps, config.train.batch_size);
  checked.tf32 = tf32;
  checked.same_bits = course == again;
  checked.error = device == Device::cpu && !(course == expected)
                      ? std::max(1e-9, difference(course.losses, expected.losses))
                      : difference(course.losses, expected.losses);
  checked.limit = device == Device::cpu ? 0 : tf32 ? kTf32Curve : kGpuCurve;
  if (is_timed(device))
    checked.microseconds = 1e3 * std::min(course.ms_per_step, again.ms_per_step);
  return checked;
}

// Of the fastest that the device could be, at such FLOPs and bytes; empty where that is not known.
std::string share_of_peak(const Checked& c, Device device) {
  if (device == Device::cpu || !c.microseconds || c.cost.bytes() == 0) return "-";
  const cuda::DeviceFacts facts = cuda::device_facts();
  const double flops = static_cast<double>(c.cost.flops()) /
                       (c.tf32 ? facts.tf32_flops_per_s : facts.flops_per_s),
               bytes = static_cast<double>(c.cost.bytes()) / facts.bytes_per_s;
  return fmt::format("{:.0f} %", 1e8 * std::max(flops, bytes) / *c.microseconds);
}

std::string rate(std::uint64_t count, const Checked& c, double scale) {
  if (!c.microseconds || count == 0) return "-";
  return fmt::format("{:.3f}", static_cast<double>(count) / *c.microseconds * 1e6 * scale);
}

std::string name_of(const Checked& c) { return c.tf32 ? c.op + " (tf32)" : c.op; }

constexpr const char* kRow = "{:<26} {:>9} {:>9} {:>4} {:>11} {:>9} {:>9} {:>6}  {}{}\n";

void print_row(const Checked& c, Device device) {
  fmt::print(kRow, name_of(c), fmt::format("{:.1e}", c.error), fmt::format("{:.1e}", c.limit),
             c.same_bits ? "yes" : "NO",
             c.microseconds ? fmt::format("{:.1f}", *c.microseconds) : "-",
             rate(c.cost.bytes(), c, 1e-9), rate(c.cost.flops(), c, 1e-12),
             share_of_peak(c, device), c.shape, c.ok() ? "" : "  FAILED");
  std::fflush(stdout);
}

nlohmann::ordered_json to_json(const Checked& c) {
  nlohmann::ordered_json json{
      {"op", name_of(c)},         {"shape", c.shape},        {"error", c.error}, {"limit", c.limit},
      {"same_bits", c.same_bits}, {"microseconds", nullptr}, {"ok", c.ok()}};
  if (c.microseconds) json["microseconds"] = *c.microseconds;
  return json;
}

// Calls `done` after each.
std::vector<Checked> check_all(const Config& config, Device device,
                               const std::function<void(const Checked&)>& done) {
  std::vector<Checked> all;
  const auto add = [&](Checked checked) {
    done(checked);
    all.push_back(std::move(checked));
  };
  const bool has_tf32 = device == Device::cuda;
  const auto check = [&](const std::vector<OpCase>& calls) {
    for (Checked& checked : check_calls(calls, device, false)) add(std::move(checked));
    if (!has_tf32 || all.empty() || all.back().cost.flops_mm == 0) return;
    for (Checked& checked : check_calls(calls, device, true)) add(std::move(checked));
  };
  for (const OpCase& call : calls_of_step(config)) check({call});
  for (const std::vector<OpCase>& samples : samples_of_ops(device)) check(samples);
  add(check_steps(config, device, false));
  if (has_tf32) {
    cuda::use_tf32(true);
    add(check_steps(config, device, true));
    cuda::use_tf32(config.device.tf32);
  }
  return all;
}

}  // namespace

int check_device_command(const CheckDeviceOptions& options) {
  const Config config = options.load();
  const Device device = device_of(config.run);
  options.tell_device(config);
  if (device == Device::cuda) cuda::use_tf32(false);
  const std::string name = describe_device(device);
  if (!options.json) {
    fmt::print("device: {}\nmeter: {}\n", name, describe_meter(device));
    fmt::print(kRow, "op", "error", "limit", "same", "us", "GB/s", "TFLOP/s", "peak", "inputs", "");
  }
  const std::vector<Checked> all = check_all(config, device, [&](const Checked& c) {
    if (!options.json) print_row(c, device);
  });
  const auto failed = std::ranges::count_if(all, [](const Checked& c) { return !c.ok(); });
  if (options.json) {
    nlohmann::ordered_json ops = nlohmann::ordered_json::array();
    for (const Checked& c : all) ops.push_back(to_json(c));
    fmt::print("{}\n",
               nlohmann::ordered_json{{"device", name}, {"ops", ops}, {"ok", failed == 0}}.dump(
                   -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    fmt::print("{} of {} checks passed\n", all.size() - static_cast<std::size_t>(failed),
               all.size());
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace hg
