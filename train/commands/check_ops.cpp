#include "train/commands/check_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "tensor/backend.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cuda_device.h"
#include "tensor/observer.h"
#include "tensor/ops/registry.h"
#include "tensor/run.h"
#include "tensor/transfer.h"
#include "train/phases/measured_step.h"

namespace hg {
namespace {

// Devices sum in another order than the CPU, and their exp and rsqrt are a bit coarser. TF32 keeps
// 10 bits of a factor's mantissa.
constexpr double kGpuLimit = 1e-4, kTf32Limit = 5e-3;
// The CPU adds more numbers in a model's shapes than in samples.
constexpr double kCpuLimit = 2e-5;
constexpr std::int64_t kMostEmulated = 1 << 17;  // elements
constexpr double kWorst = 1e300;

// Elements from the first to the last that a view reaches, as they lie in memory.
Tensor dense(const Tensor& view) {
  std::int64_t span = view.numel() > 0 ? 1 : 0;
  for (int axis = 0; axis < view.rank() && span > 0; ++axis)
    span += (view.dim(axis) - 1) * view.strides()[axis];
  TensorSpec spec = view.spec({span});
  spec.strides = {1};
  return view.view(spec);
}

// A copy of its own, with the same strides.
Tensor copied(const Tensor& t, Device device) {
  const Tensor whole = t.contiguous() ? t : dense(t);
  Tensor copy = to_device(whole, device);
  if (whole.device() == device) copy = copy.clone();
  if (t.contiguous()) return copy;
  TensorSpec spec = t.spec();
  spec.device = device;
  spec.strides = t.strides();
  return copy.view(spec);
}

Tensors copied(In tensors, Device device) {
  Tensors copies;
  for (const Tensor& t : tensors) copies.push_back(copied(t, device));
  return copies;
}

const OpInfo& info_of(const Op& op) {
  for (const OpInfo& info : registry())
    if (info.is(op)) return info;
  fail("check", "op {} is not in tensor/ops/op_list.inc", op.name());
}

double tolerance_of(const Op& op) {
  double largest = 0;
  for (const Sample& sample : info_of(op).samples()) largest = std::max(largest, sample.tolerance);
  return largest;
}

std::string shape_of(In in) {
  std::string text;
  for (const Tensor& t : in)
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", t, t.contiguous() ? "" : "^T");
  return text;
}

// Keeps the first call of each op and shapes. Ops may change their inputs: what they were before.
class Calls final : public Observer {
 public:
  void op_begin(const OpCall& call) override {
    if (views_alone(call)) return;
    const std::string key = fmt::format("{} {}", call.op.name(), shape_of(call.in));
    const std::lock_guard lock(mutex_);
    if (!seen_.insert(key).second) return;
    cases.push_back({call.op.clone(), copied(call.in, Device::cpu), tolerance_of(call.op)});
  }
  std::vector<OpCase> cases;

 private:
  static bool views_alone(const OpCall& call) {
    const TensorSpecs specs = call.op.infer(call.in);
    return std::ranges::all_of(specs, [](auto& s) { return s.alias_of >= 0 && !s.in_place; });
  }
  std::mutex mutex_;
  std::set<std::string> seen_;
};

std::vector<double> values_of(const Tensor& t) {
  const Tensor here = on_host(t);
  if (is_float(here.dtype())) return here.to(DType::f64).to_vector<double>();
  std::vector<double> values;
  for (const std::int64_t v : here.to(DType::i64).to_vector<std::int64_t>())
    values.push_back(static_cast<double>(v));
  return values;
}

using Values = std::vector<std::vector<double>>;  // of each output

Values values_of(In tensors) {
  Values values;
  for (const Tensor& t : tensors) values.push_back(values_of(t));
  return values;
}

Values reference_of(const OpCase& call) {
  std::vector<RefTensor<double>> in, out;
  for (const Tensor& t : call.in) in.emplace_back(t);
  for (const TensorSpec& spec : call.op->infer(call.in)) out.emplace_back(spec);
  info_of(*call.op).reference(*call.op, in, out);
  Values values;
  for (const RefTensor<double>& t : out) {
    values.push_back(t.values());
    if (t.holds_integers()) values.back().assign(t.integers().begin(), t.integers().end());
  }
  return values;
}

Values expected_of(const OpCase& call, Device device) {
  if (device == Device::cpu) return reference_of(call);
  return values_of(run(*call.op, copied(call.in, Device::cpu)));
}

Tensors outputs(const OpCase& call, Device device) {
  Tensors out;
  for (const Tensor& t : run(*call.op, copied(call.in, device))) out.push_back(on_host(t).clone());
  return out;
}

bool same_bits(In a, In b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(a[i].raw(), b[i].raw(), a[i].bytes()) != 0) return false;
  return true;
}

// Of a call, with as many behind one another as hide what a measurement costs.
double microseconds_of(const OpCase& call, Device device) {
  constexpr int kRounds = 5;
  constexpr double kRoundNs = 4e6;
  const Tensors in = copied(call.in, device);
  const auto round = [&](int calls) {
    const std::int64_t start = backend(device).timestamp_ns();
    for (int i = 0; i < calls; ++i) run(*call.op, in);
    return static_cast<double>(backend(device).timestamp_ns() - start) / calls;
  };
  round(1);
  const int calls = static_cast<int>(std::clamp(kRoundNs / std::max(1.0, round(1)), 1.0, 1000.0));
  double least = round(calls);
  for (int i = 1; i < kRounds; ++i) least = std::min(least, round(calls));
  return least * 1e-3;
}

double limit_of(const OpCase& call, Device device, bool tf32) {
  if (device == Device::cpu) return std::max(kCpuLimit, call.tolerance);
  return std::max(tf32 ? kTf32Limit : kGpuLimit, call.tolerance);
}

// Tensor cores are off again in the end.
struct Tf32Scope : NoCopy {
  Tf32Scope(Device device, bool on) : on_(on && device == Device::cuda) {
    if (on_) cuda::use_tf32(true);
  }
  ~Tf32Scope() {
    if (on_) cuda::use_tf32(false);
  }
  const bool on_;
};

}  // namespace

std::string OpCase::shape() const { return shape_of(in); }

bool is_timed(Device device) {
  return device == Device::cpu || cuda::device_facts().flops_per_s > 0;
}

double difference(const std::vector<double>& values, const std::vector<double>& expected) {
  constexpr double kLeastScale = 1e-3;
  double scale = kLeastScale, worst = 0;
  for (const double v : expected)
    if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == expected[i]) continue;
    const double error = std::abs(values[i] - expected[i]) / scale;
    worst = std::isfinite(error) ? std::max(worst, error) : kWorst;
  }
  return worst;
}

std::vector<OpCase> calls_of_step(const Config& config) {
  MeasuredStep step(config);
  step();  // the optimizer's state is no longer zero
  Calls calls;
  {
    const cpu::ThreadLimit one(1);  // the first call of a kind is the same each time
    const ObserverGuard guard(calls);
    step();
  }
  return std::move(calls.cases);
}

std::vector<std::vector<OpCase>> samples_of_ops(Device device) {
  const bool timed = is_timed(device);
  std::map<std::string_view, std::vector<OpCase>> by_name;
  for (const OpInfo& info : registry())
    for (const Sample& sample : info.samples()) {
      Tensors in = make_inputs(sample, DType::f32);
      std::int64_t elements = 0;
      for (const Tensor& t : in) elements += t.numel();
      if (timed || elements <= kMostEmulated)
        by_name[sample.op->name()].push_back({sample.op, std::move(in), sample.tolerance});
    }
  std::vector<std::vector<OpCase>> ops;
  for (auto& [name, cases] : by_name) ops.push_back(std::move(cases));
  return ops;
}

Checked check_call(const OpCase& call, Device device, bool tf32) {
  Checked checked;
  checked.op = call.op->name();
  checked.shape = call.shape();
  checked.tf32 = tf32;
  checked.limit = limit_of(call, device, tf32);
  const Values expected = expected_of(call, device);
  const Tf32Scope tensor_cores(device, tf32);
  const Tensors out = outputs(call, device), again = outputs(call, device);
  checked.same_bits = same_bits(out, again);
  const Values values = values_of(out);
  for (std::size_t i = 0; i < values.size(); ++i)
    checked.error = std::max(checked.error, difference(values[i], expected[i]));
  checked.cost = call.op->cost(call.in, out).total();
  return checked;
}

std::vector<Checked> check_calls(const std::vector<OpCase>& calls, Device device, bool tf32) {
  std::vector<Checked> all;
  for (const OpCase& call : calls) all.push_back(check_call(call, device, tf32));
  const auto nearest =
      std::ranges::max_element(all, {}, [](const Checked& c) { return c.error / c.limit; });
  const bool fine = std::ranges::all_of(all, &Checked::ok);
  std::vector<Checked> told;
  for (auto c = all.begin(); c != all.end(); ++c) {
    if (fine ? c != nearest : c->ok()) continue;
    if (is_timed(device)) {
      const Tf32Scope tensor_cores(device, tf32);
      c->microseconds = microseconds_of(calls[static_cast<std::size_t>(c - all.begin())], device);
    }
    told.push_back(std::move(*c));
  }
  return told;
}

}  // namespace hg
