// hgprof ops: each registered op alone, on inputs of a layer's size.
#include <nlohmann/json.hpp>

#include "energy/meters/window.h"
#include "tensor/base/columns.h"
#include "tensor/base/usage_error.h"
#include "tensor/cpu/parallel.h"
#include "tensor/op.h"
#include "tensor/ops/registry.h"
#include "tensor/run.h"
#include "tensor/transfer.h"
#include "tools/hgprof/bench_device.h"
#include "tools/hgprof/commands.h"
#include "tools/hgprof/enlarge.h"
#include "train/statistics/sample.h"

namespace hg::prof {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kTrialsPerOp = 5;
constexpr double kTrialSeconds = 0.1, kWarmUpSeconds = 0.02;
constexpr double kWidestSpread = 0.2;  // beyond it the figures mean nothing

struct OpFigures {
  std::string class_name, op, inputs;
  Cost cost;
  std::uint64_t calls = 0;
  double seconds = 0, joules = 0;  // of a call, median of the trials
  double spread = 0;               // of the joules
  bool valid() const { return spread <= kWidestSpread; }
};

std::string shapes_of(In inputs) {
  std::string text;
  for (const Tensor& t : inputs) text += fmt::format("{}{}", text.empty() ? "" : " ", t.shape());
  return text;
}

OpFigures profile_op(const OpInfo& info, Device device, std::uint64_t bytes, energy::Meter& meter) {
  const Sample sample = enlarged(info.samples(), bytes);
  Tensors in = make_inputs(sample, DType::f32);
  for (Tensor& t : in) t = to_device_as_view(t, device);
  OpFigures f{
      std::string(info.class_name), std::string(sample.op->name()), shapes_of(in), {}, 0, 0, 0, 0};
  f.cost = sample.op->cost(in, run(*sample.op, in)).total();
  const auto repeat = [&](std::uint64_t calls) {
    for (std::uint64_t i = 0; i < calls; ++i) run(*sample.op, in);
    finish(device);
  };
  energy::measure(meter, kWarmUpSeconds, repeat);
  std::vector<double> seconds, joules;
  for (int trial = 0; trial < kTrialsPerOp; ++trial) {
    const energy::Window w = energy::measure(meter, kTrialSeconds, repeat);
    const auto calls = static_cast<double>(w.calls);
    f.calls += w.calls;
    seconds.push_back(w.seconds / calls);
    joules.push_back(w.total_uj() * 1e-6 / calls);
  }
  f.seconds = statistics::median(seconds);
  f.joules = statistics::median(joules);
  f.spread = statistics::relative_range(joules);
  return f;
}

// Null where there is nothing to divide by.
Json per(double a, double b, double scale) { return b > 0 ? Json(a / b * scale) : Json(nullptr); }

Json to_json(const OpFigures& f) {
  const auto flops = static_cast<double>(f.cost.flops()),
             bytes = static_cast<double>(f.cost.bytes());
  return {{"op", f.op},
          {"class", f.class_name},
          {"inputs", f.inputs},
          {"calls", f.calls},
          {"seconds_per_call", f.seconds},
          {"flops", f.cost.flops()},
          {"bytes", f.cost.bytes()},
          {"j_per_call", f.joules},
          {"pj_per_flop", per(f.joules, flops, 1e12)},
          {"pj_per_byte", per(f.joules, bytes, 1e12)},
          {"gflops_per_s", per(flops, f.seconds, 1e-9)},
          {"gb_per_s", per(bytes, f.seconds, 1e-9)},
          {"spread", f.spread},
          {"valid", f.valid()}};
}

void print_header() {
  const std::string line =
      fmt::format("{:<22} {:<20} {:>11} {:>11} {:>9} {:>9} {:>8} {:>8} {:>7}  {}\n", "class", "op",
                  "us/call", "uJ/call", "pJ/FLOP", "pJ/byte", "GF/s", "GB/s", "spread", "inputs");
  print_folded(stdout, line);
}

void print_row(const OpFigures& f) {
  const auto flops = static_cast<double>(f.cost.flops()),
             bytes = static_cast<double>(f.cost.bytes());
  const auto text = [](double a, double b, double scale) {
    return b > 0 && a > 0 ? fmt::format("{:.1f}", a / b * scale) : std::string("-");
  };
  const std::string line = fmt::format(
      "{:<22} {:<20} {:>11.3f} {:>11.3f} {:>9} {:>9} {:>8} {:>8} {:>6.1f}%  {}{}\n", f.class_name,
      f.op, f.seconds * 1e6, f.joules * 1e6, text(f.joules, flops, 1e12),
      text(f.joules, bytes, 1e12), text(flops, f.seconds, 1e-9), text(bytes, f.seconds, 1e-9),
      100 * f.spread, f.inputs, f.valid() ? "" : "  INVALID: trials differ too much");
  print_folded(stdout, line);
}

}  // namespace

int ops_command(const OpsOptions& options) {
  cpu::set_threads(static_cast<int>(options.threads));
  std::vector<OpInfo> chosen;
  for (const OpInfo& info : registry())
    if (std::string(info.class_name).find(options.filter) != std::string::npos ||
        std::string(info.stem).find(options.filter) != std::string::npos)
      chosen.push_back(info);
  usage_require(!chosen.empty(), "--filter", "no op's name holds \"{}\"", options.filter);
  const Device device = bench_device(options.device);
  const energy::MeterChoice choice = open_meter_for(device);
  energy::Meter& meter = *choice.meter;
  Json ops = Json::array();
  if (!options.json) print_header();
  for (const OpInfo& info : chosen) {
    const OpFigures f = profile_op(info, device, options.bytes, meter);
    if (options.json)
      ops.push_back(to_json(f));
    else
      print_row(f);
  }
  if (options.json)
    fmt::print("{}\n", Json{{"meter",
                             {{"source", meter.source()},
                              {"kind", energy::to_string(meter.kind())},
                              {"name", meter.name()}}},
                            {"device", to_string(device)},
                            {"threads", cpu::threads()},
                            {"trials", kTrialsPerOp},
                            {"ops", ops}}
                           .dump());
  else
    print_folded(
        stdout,
        fmt::format(
            "{}, {} trials; energy: {} by {} ({})\n",
            device == Device::cpu ? fmt::format("{} threads", cpu::threads()) : std::string("GPU"),
            kTrialsPerOp, energy::to_string(meter.kind()), meter.name(), meter.source()));
  return 0;
}

}  // namespace hg::prof
