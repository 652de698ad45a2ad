#include "tensor/run.h"

#include <mutex>
#include <utility>

#include "tensor/cuda_device.h"
#include "tensor/observer.h"

namespace hg {
namespace {

thread_local bool dry = false;

void check_inputs(const Op& op, In in) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    require(in[i].defined(), op.name(), "input {} is undefined", i);
    require(dry || in[i].storage() != nullptr, op.name(), "input {} {} has no contents", i, in[i]);
    require(in[i].device() == in[0].device(), op.name(), "input 0 is on {}, input {} on {}",
            in[0].device(), i, in[i].device());
    require(in[i].contiguous() || op.strided_inputs().has(i), op.name(),
            "input {} {} is a strided view; pass contiguous(x)", i, in[i]);
  }
}

Tensor make_output(In in, const TensorSpec& spec) {
  if (spec.alias_of >= 0) return in[spec.alias_of].view(spec);
  return dry ? Tensor::hollow_of(spec) : Tensor::empty(spec.shape, spec.dtype, spec.device);
}

Tensors make_outputs(In in, const TensorSpecs& specs) {
  Tensors out;
  out.reserve(specs.size());
  for (const TensorSpec& spec : specs) out.push_back(make_output(in, spec));
  return out;
}

void launch(const Op& op, In in, Out out) {
  if (dry) return;
  const Device device = in.empty() ? out[0].device() : in[0].device();
  if (device == Device::cpu) return op.cpu(in, out);
  // Ops share the stream, handles of cuBLAS and plans of products.
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  op.cuda(in, out, cuda::stream());
}

void mark_written(const TensorSpecs& specs, In out) {
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (specs[i].in_place && !dry) out[i].storage()->bump_version();
}

}  // namespace

Tensors run(const Op& op, In in) {
  check_inputs(op, in);
  const TensorSpecs specs = op.infer(in);
  Recorder* const recorder = recording(in) ? current_recorder() : nullptr;
  if (recorder) recorder->before(op, in);
  Tensors out = make_outputs(in, specs);
  const OpCall call{op, in, out, current_phase(), current_scope()};
  notify_begin(call);
  launch(op, in, out);
  notify_end(call);
  mark_written(specs, out);
  if (recorder) recorder->after(op, in, out);
  return out;
}

DryRun::DryRun() : previous_(std::exchange(dry, true)) {}
DryRun::~DryRun() { dry = previous_; }

}  // namespace hg
