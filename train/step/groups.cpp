#include "train/step/groups.h"

#include <algorithm>
#include <cmath>

#include "autograd/tape.h"
#include "tensor/backend.h"
#include "tensor/cpu/parallel.h"
#include "tensor/ops/view.h"
#include "train/step/device_sums.h"
#include "train/step/lane_sums.h"
#include "train/step/rank_records.h"
#include "train/step/rank_sums.h"

namespace hg {
namespace {

// Every group of every step has draws of its own.
RandomStream dropout_stream(const Batch& batch, std::int64_t group) {
  RandomStream stream(batch.seed, "dropout");
  stream.seek((static_cast<std::uint64_t>(batch.step) << 44) |
              (static_cast<std::uint64_t>(group) << 32));
  return stream;
}

void watch(Tape& tape, const GroupStep& step) {
  for (const nn::Parameter& p : step.trained) tape.watch(p.value);
}

Tensor run_pass(const GroupStep& step, const GroupPass& pass, std::int64_t g,
                nn::PassRecord& record) {
  RandomStream stream = dropout_stream(step.batch, g);
  record = step.record;
  return pass(step.plan.part_of(step.batch, g), {&stream, &record});
}

std::span<const char> frozen_blocks(const GroupStep& step) {
  return step.frozen ? std::span<const char>(step.frozen->blocks) : std::span<const char>();
}

// One gradient per parameter, undefined where none arrived.
Tensors in_order_of_parameters(const GroupStep& step, const Gradients& sums) {
  Tensors all;
  for (const nn::Parameter& p : step.trained)
    all.push_back(sums.has(p.value) ? sums[p.value] : Tensor());
  return all;
}

// What layers learn from the pass of group 0 goes from the rank that took it to all.
void share_first(const GroupPlan& plan, const nn::Vit& model, nn::PassRecord& record) {
  if (!plan.ranks) return;
  Packer packed;
  if (!record.statistics.empty()) pack_statistics(model, record, packed);
  for (const std::string& theirs : plan.ranks->gather(packed.all())) {
    Unpacker from(theirs);
    if (!theirs.empty()) unpack_statistics(model, from, record);
  }
}

// Layers draw what they need. Gates that have not seen anything yet look at the first group, so
// that all groups of the step have the same heads at work.
void begin_step(const GroupStep& step, const GroupPass& pass) {
  if (counted_only(step.batch)) return;
  step.model.begin_step(step.batch.step, frozen_blocks(step));
  if (step.model.settled() || step.plan.groups == 0) return;
  nn::PassRecord record;
  if (step.plan.own_groups().first == 0 && step.plan.own_groups().end > 0)
    run_pass(step, pass, 0, record);
  share_first(step.plan, step.model, record);
  step.model.end_step({&record, 1});
}

// body(first, end) for each worker thread's share of this rank's lanes, which are consecutive.
void for_each_share(const GroupPlan& plan,
                    const std::function<void(std::int64_t first, std::int64_t end)>& body) {
  const Share own = plan.own_lanes();
  const std::int64_t lanes = own.end - own.first;
  if (plan.groups == 0 || lanes == 0) return;
  const int threads = cpu::threads();
  const bool in_turn = plan.device != Device::cpu;  // a device has one stream of work
  const int workers = in_turn ? 1 : static_cast<int>(std::min<std::int64_t>(lanes, threads));
  if (workers == 1) return body(own.first, own.end);  // ops have all threads
  const Phase phase = current_phase();
  const ScopePath* const scope = current_scope();
  const auto share = [&](std::int64_t worker) {
    const PhaseScope same_phase(phase);
    const Scope same_scope(scope);
    body(own.first + worker * lanes / workers, own.first + (worker + 1) * lanes / workers);
  };
  cpu::in_team(workers, share, threads / workers);
}

// The sum over groups of of_group(g): lanes are added in their order, and so are groups in a lane.
template <class OfGroup>
Figure sum_by_lanes(const GroupPlan& plan, const OfGroup& of_group) {
  Figure sum;
  for (std::int64_t lane = 0; lane < plan.lanes; ++lane) {
    Figure own;
    for (std::int64_t g = plan.first_group(lane); g < plan.first_group(lane + 1); ++g)
      own += of_group(g);
    sum += own;
  }
  return sum;
}

// The sparsity term of a pass: a mean over layers.
Figure sparsity_of(const nn::PassRecord& record) {
  if (record.sparsity.empty()) return 0;
  Figure mean = Figure::sum(record.sparsity);
  mean *= 1 / static_cast<double>(record.sparsity.size());
  return mean;
}

// The recorded passes of a step, group by group, and what they leave.
class RecordedPasses {
 public:
  explicit RecordedPasses(const GroupStep& step)
      : step_(step),
        records_(static_cast<std::size_t>(step.plan.groups)),
        sparsity_(static_cast<std::size_t>(step.plan.groups)),
        shares_(static_cast<std::size_t>(step.plan.lanes), LaneSums(step.plan.lanes)) {
    if (step.plan.ranks && step.plan.device != Device::cpu)
      device_sums_.emplace(step.plan, step.trained);
  }

  // walk_back(tape, sum, output, group, on_whole) adds the group's gradients.
  template <class WalkBack>
  void run(const GroupPass& pass, const WalkBack& walk_back) {
    for_each_share(step_.plan, [&](std::int64_t first, std::int64_t end) {
      LaneSums& own = shares_[static_cast<std::size_t>(first)];
      for (std::int64_t lane = first; lane < end; ++lane) {
        const std::int64_t begin = step_.plan.first_group(lane);
        const std::int64_t end_of_lane = step_.plan.first_group(lane + 1);
        own.add(lane, [&](Gradients& sum) {
          for (std::int64_t g = begin; g < end_of_lane; ++g) {
            Tape tape;
            watch(tape, step_);
            const Tensor out = run_pass(step_, pass, g, records_[static_cast<std::size_t>(g)]);
            const bool last = lane == end - 1 && g == end_of_lane - 1;
            walk_back(tape, sum, out, g, device_sums_ && last ? exchange_of(own) : OnWhole());
          }
        });
      }
    });
  }

  // Losses of groups, and what passes have recorded, become those of all ranks.
  void share(CachedVector<Figure>& losses);

  Figure sparsity() const {  // mean over the batch
    return sum_by_lanes(step_.plan, [&](std::int64_t g) {
      Figure part = sparsity_[static_cast<std::size_t>(g)];
      part *= static_cast<double>(step_.plan.end(g) - step_.plan.begin(g)) /
              static_cast<double>(step_.plan.batch);
      return part;
    });
  }

  std::vector<Tensors> finish() {
    if (!counted_only(step_.batch)) step_.model.end_step(records_, frozen_blocks(step_));
    if (device_sums_) return {device_sums_->sums(held_)};
    if (Ranks* const ranks = step_.plan.ranks)
      return {sum_over_ranks(*ranks, *sums_, held_, step_.plan.lanes, step_.trained)};
    std::vector<Tensors> gradients;
    for (const LaneSum& half : sums_->nodes())
      gradients.push_back(in_order_of_parameters(step_, half.gradients));
    return gradients;
  }

 private:
  void add_shares() {
    sums_.emplace(step_.plan.lanes);
    for (LaneSums& share : shares_) sums_->add(std::move(share));
  }

  // Gradients leave as the last lane's become whole.
  OnWhole exchange_of(LaneSums& own) {
    return [&](std::uint64_t leaf) {
      own.join(leaf);
      device_sums_->whole(leaf, {own.nodes().data(), own.left()});
    };
  }

  const GroupStep& step_;
  CachedVector<nn::PassRecord> records_;
  CachedVector<Figure> sparsity_;          // [group]
  std::vector<LaneSums> shares_;           // [a worker's first lane]
  std::optional<LaneSums> sums_;           // of this rank's lanes
  std::vector<HeldNodes> held_;            // by each rank
  std::optional<DeviceSums> device_sums_;  // where ranks work on GPUs
};

void RecordedPasses::share(CachedVector<Figure>& losses) {
  const GroupPlan& plan = step_.plan;
  const Share own = plan.own_groups();
  for (std::int64_t g = own.first; g < own.end; ++g)
    sparsity_[static_cast<std::size_t>(g)] = sparsity_of(records_[static_cast<std::size_t>(g)]);
  add_shares();
  if (!plan.ranks) return;
  if (device_sums_) device_sums_->all_whole(sums_->nodes());
  Packer packed;
  pack(nodes_held(*sums_, step_.trained), packed);
  for (std::int64_t g = own.first; g < own.end; ++g) {
    const auto i = static_cast<std::size_t>(g);
    packed.value<double>(losses[i]);
    packed.value<double>(sparsity_[i]);
    pack_statistics(step_.model, records_[i], packed);
  }
  int rank = 0;
  for (const std::string& theirs : plan.ranks->gather(packed.all())) {
    Unpacker from(theirs);
    held_.push_back(unpack_nodes(from));
    const Share groups = plan.groups_of(rank++);
    for (std::int64_t g = groups.first; g < groups.end; ++g) {
      const auto i = static_cast<std::size_t>(g);
      losses[i] = from.value<double>();
      sparsity_[i] = from.value<double>();
      unpack_statistics(step_.model, from, records_[i]);
    }
  }
  if (device_sums_) device_sums_->await();
}

using Output = Tensor (nn::Vit::*)(const Tensor& images, const nn::Context& context,
                                   const Tensor& keep) const;

Tensor evaluate_as(Output output, const nn::Vit& model, const Batch& batch) {
  const PhaseScope phase(Phase::eval);
  return joined_outputs(plan_evaluation(model, batch), batch, [&](const Batch& part) {
    return (model.*output)(part.images, {}, part.keep);
  });
}

}  // namespace

void for_each_group(const GroupPlan& plan, const std::function<void(std::int64_t group)>& body) {
  for_each_share(plan, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t g = plan.first_group(first); g < plan.first_group(end); ++g) body(g);
  });
}

void share_groups(const GroupPlan& plan,
                  const std::function<void(Packer& to, std::int64_t group)>& pack,
                  const std::function<void(Unpacker& from, std::int64_t group)>& unpack) {
  if (!plan.ranks) return;
  Packer packed;
  const Share own = plan.own_groups();
  for (std::int64_t g = own.first; g < own.end; ++g) pack(packed, g);
  int rank = 0;
  for (const std::string& theirs : plan.ranks->gather(packed.all())) {
    Unpacker from(theirs);
    const Share groups = plan.groups_of(rank);
    for (std::int64_t g = groups.first; rank != plan.rank() && g < groups.end; ++g) unpack(from, g);
    ++rank;
  }
}

namespace {

// What body(group) gives for the images of each group, put together.
Tensor joined(const GroupPlan& plan, const std::function<Tensor(std::int64_t group)>& body) {
  CachedVector<Tensor> parts(static_cast<std::size_t>(plan.groups));
  const auto part = [&](std::int64_t g) -> Tensor& { return parts[static_cast<std::size_t>(g)]; };
  for_each_group(plan, [&](std::int64_t g) { part(g) = body(g); });
  share_groups(
      plan, [&](Packer& to, std::int64_t g) { pack(part(g), to); },
      [&](Unpacker& from, std::int64_t g) { part(g) = unpack_tensor(from); });
  if (plan.groups == 1) return parts[0];
  TensorSpec spec = parts.at(0).spec();
  spec.shape[0] = plan.batch;
  const Tensor all = Tensor::empty(spec.shape, spec.dtype, plan.device);
  auto* to = static_cast<std::byte*>(all.raw());
  for (std::int64_t g = 0; g < plan.groups; ++g) {
    require(part(g).dim(0) == plan.end(g) - plan.begin(g), "groups", "{} for {} images", part(g),
            plan.end(g) - plan.begin(g));
    backend(plan.device).copy(to, part(g).raw(), part(g).bytes());
    to += part(g).bytes();
  }
  return all;
}

}  // namespace

Tensor joined_outputs(const GroupPlan& plan, const Batch& batch, const PartPass& pass) {
  return joined(plan, [&](std::int64_t g) { return pass(plan.part_of(batch, g)); });
}

double summed_losses(const GroupPlan& plan, const Batch& batch, const PartPass& pass) {
  CachedVector<Figure> losses(static_cast<std::size_t>(plan.groups));
  for_each_group(plan, [&](std::int64_t g) {
    losses[static_cast<std::size_t>(g)] = Figure::of(pass(plan.part_of(batch, g)));
  });
  share_groups(
      plan,
      [&](Packer& to, std::int64_t g) { to.value<double>(losses[static_cast<std::size_t>(g)]); },
      [&](Unpacker& from, std::int64_t g) {
        losses[static_cast<std::size_t>(g)] = from.value<double>();
      });
  return sum_by_lanes(plan, [&](std::int64_t g) { return losses[static_cast<std::size_t>(g)]; });
}

Batchwise forward_backward(const GroupStep& step, const GroupPass& pass) {
  CachedVector<Figure> losses(static_cast<std::size_t>(step.plan.groups));
  begin_step(step, pass);
  Batchwise result;
  result.ranges = step.model.update_ranges(step.trained, step.record.reaches_all_gates());
  RecordedPasses passes(step);
  passes.run(pass, [&](Tape& tape, Gradients& sum, const Tensor& loss, std::int64_t g,
                       const OnWhole& on_whole) {
    losses[static_cast<std::size_t>(g)] = Figure::of(loss);
    tape.backward_into(sum, loss, on_whole);
  });
  passes.share(losses);
  result.loss =
      sum_by_lanes(step.plan, [&](std::int64_t g) { return losses[static_cast<std::size_t>(g)]; });
  if (result.loss.here() && !std::isfinite(result.loss)) return result;  // nothing to learn from
  result.sparsity = passes.sparsity();
  result.gradients = passes.finish();
  return result;
}

Batchwise forward_backward(const GroupStep& step, const GroupPass& output,
                           const std::function<Tensor(const Tensor& outputs)>& loss_of) {
  begin_step(step, output);
  const Tensor outputs = joined(step.plan, [&](std::int64_t g) {
    nn::PassRecord record;
    return run_pass(step, output, g, record);
  });
  Tape tape;
  tape.watch(outputs);
  const Tensor loss = loss_of(outputs);
  const Tensor gradients = tape.backward(loss)[outputs];
  Batchwise result;
  result.loss = Figure::of(loss);
  result.ranges = step.model.update_ranges(step.trained, step.record.reaches_all_gates());
  RecordedPasses passes(step);
  passes.run(output, [&](Tape& own, Gradients& sum, const Tensor& out, std::int64_t g,
                         const OnWhole& on_whole) {
    const Tensor seed = step.plan.part_of(gradients, g);
    own.backward_into(sum, {&out, 1}, {&seed, 1}, on_whole);
  });
  CachedVector<Figure> no_losses(static_cast<std::size_t>(step.plan.groups));
  passes.share(no_losses);
  result.gradients = passes.finish();
  return result;
}

Tensor evaluate_logits(const nn::Vit& model, const Batch& batch) {
  return evaluate_as(&nn::Vit::logits, model, batch);
}

Tensor evaluate_features(const nn::Vit& model, const Batch& batch) {
  return evaluate_as(&nn::Vit::features, model, batch);
}

}  // namespace hg
