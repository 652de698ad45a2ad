#include "train/groups.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <exception>

#include "autograd/tape.h"
#include "tensor/backend.h"
#include "tensor/cpu/parallel.h"
#include "tensor/ops/view.h"
#include "train/loss.h"
#include "train/non_finite.h"

namespace hg {
namespace {

constexpr std::int64_t kTokensInCache = 600;
constexpr std::int64_t kParametersPerToken = 14000;  // fewer tokens: adding up gradients would show

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// How many groups of up to `wanted` images: groups of one size use the allocator's blocks again, so
// a somewhat smaller size that divides the share is preferred.
std::int64_t groups_of_share(std::int64_t share, std::int64_t wanted) {
  for (std::int64_t size = wanted; size > wanted / 2; --size)
    if (share % size == 0) return share / size;
  return ceil_div(share, wanted);
}

// Every group of every step has draws of its own.
RandomStream dropout_stream(const StepInput& input, std::int64_t group) {
  RandomStream stream(input.seed, "dropout");
  stream.seek((static_cast<std::uint64_t>(input.step) << 44) |
              (static_cast<std::uint64_t>(group) << 32));
  return stream;
}

Tensor part_of(const Tensor& whole, const GroupPlan& plan, std::int64_t g) {
  return whole.defined() ? slice(whole, plan.begin(g), plan.end(g)) : Tensor();
}

GroupPlan plan_of(const nn::Vit& model, const StepInput& input) {
  return plan_groups(model, input.labels.dim(0), tokens_of(model, input.keep));
}

Tensor group_loss(const nn::Vit& model, const StepInput& input, const GroupPlan& plan,
                  std::int64_t g, nn::PassRecord& record) {
  RandomStream stream = dropout_stream(input, g);
  record = record_for(input.loss);
  const Tensor logits = model.logits(part_of(input.images, plan, g), {&stream, &record},
                                     part_of(input.keep, plan, g));
  return training_loss(logits, part_of(input.labels, plan, g), record, input.loss, plan.batch);
}

// One gradient per parameter, undefined where none arrived; empty for a worker without a group.
Tensors in_order_of_parameters(const nn::Vit& model, const Gradients& sums) {
  Tensors all;
  if (sums.empty()) return all;
  for (const nn::Parameter& p : model.parameters().all())
    all.push_back(sums.has(p.value) ? sums[p.value] : Tensor());
  return all;
}

}  // namespace

std::int64_t tokens_of(const nn::Vit& model, const Tensor& keep) {
  return (keep.defined() ? keep.dim(1) : model.options().patches()) + 1;
}

GroupPlan plan_groups(const nn::Vit& model, std::int64_t batch, std::int64_t tokens) {
  GroupPlan plan;
  plan.batch = batch;
  plan.workers = static_cast<int>(std::clamp<std::int64_t>(batch, 1, cpu::threads()));
  const std::int64_t wanted = std::max<std::int64_t>(
      {1, kTokensInCache / tokens, model.parameters().count() / (kParametersPerToken * tokens)});
  const std::int64_t share = std::max<std::int64_t>(1, ceil_div(batch, plan.workers));
  plan.groups = std::min(batch, plan.workers * groups_of_share(share, wanted));
  return plan;
}

void for_each_group(const GroupPlan& plan,
                    const std::function<void(int worker, std::int64_t group)>& body) {
  const Phase phase = current_phase();
  const ScopePath* const scope = current_scope();
  std::exception_ptr failure;
#pragma omp parallel num_threads(plan.workers)
  {
    const cpu::ThreadLimit single(1);
    const PhaseScope same_phase(phase);
    const Scope same_scope(scope);
    const int worker = omp_get_thread_num();
    try {
      for (std::int64_t g = worker; g < plan.groups; g += plan.workers) body(worker, g);
    } catch (...) {
#pragma omp critical(hg_group_failure)
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

Batchwise forward_backward(const nn::Vit& model, const StepInput& input) {
  const GroupPlan plan = plan_of(model, input);
  const auto workers = static_cast<std::size_t>(plan.workers);
  std::vector<double> losses(workers, 0.0);
  model.begin_step(input.step);
  CachedVector<nn::PassRecord> records(static_cast<std::size_t>(plan.groups));
  std::vector<Gradients> sums(workers);
  for_each_group(plan, [&](int worker, std::int64_t g) {
    Tape tape;
    for (const nn::Parameter& p : model.parameters().all()) tape.watch(p.value);
    const Tensor loss = group_loss(model, input, plan, g, records[static_cast<std::size_t>(g)]);
    losses[static_cast<std::size_t>(worker)] += loss.item<float>();
    tape.backward_into(sums[static_cast<std::size_t>(worker)], loss);
  });
  Batchwise result;
  for (const double loss : losses) result.loss += loss;
  if (!std::isfinite(result.loss)) explain_non_finite_step(model, input);
  model.end_step(records);
  for (const Gradients& worker : sums)
    if (!worker.empty()) result.gradients.push_back(in_order_of_parameters(model, worker));
  return result;
}

void explain_non_finite_step(const nn::Vit& model, const StepInput& input) {
  const GroupPlan plan = plan_of(model, input);
  explain_non_finite(model, [&] {
    for (std::int64_t g = 0; g < plan.groups; ++g) {
      Tape tape;
      for (const nn::Parameter& p : model.parameters().all()) tape.watch(p.value);
      nn::PassRecord record;
      tape.backward(group_loss(model, input, plan, g, record));
    }
  });
}

Tensor evaluate_logits(const nn::Vit& model, const Tensor& images, const Tensor& keep) {
  const PhaseScope phase(Phase::eval);
  const std::int64_t classes = model.options().classes;
  const Tensor logits = Tensor::empty({images.dim(0), classes});
  const GroupPlan plan = plan_groups(model, images.dim(0), tokens_of(model, keep));
  for_each_group(plan, [&](int, std::int64_t g) {
    const Tensor part = model.logits(part_of(images, plan, g), {}, part_of(keep, plan, g));
    backend(Device::cpu)
        .copy(logits.data<float>() + plan.begin(g) * classes, part.raw(), part.bytes());
  });
  return logits;
}

}  // namespace hg
