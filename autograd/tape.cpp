#include "autograd/tape.h"

#include "tensor/ops/binary.h"
#include "tensor/ops/permute.h"
#include "tensor/transfer.h"

namespace hg {
namespace {

std::uint32_t version_of(const Tensor& t) { return t.storage() ? t.storage()->version() : 0; }

// The saved tensors, without the contents that the gradient does not ask for.
Tensors keep(In tensors, Indices wanted) {
  Tensors kept;
  kept.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    kept.push_back(wanted.has(i) ? tensors[i] : tensors[i].hollow());
  return kept;
}

void check_gradient(const Op& op, std::size_t i, const Tensor& grad, const Tensor& input) {
  require(grad.shape() == input.shape() && grad.dtype() == input.dtype(), op.name(),
          "gradient {} is {}, expected {}", i, grad, input);
}

}  // namespace

const Tensor& Gradients::operator[](const Tensor& leaf) const {
  const auto found = grads_.find(leaf.id());
  require(found != grads_.end(), "gradients", "none for {}: not watched, or not used by the loss",
          leaf);
  return found->second;
}

void Gradients::add(std::uint64_t leaf, const Tensor& grad) {
  const auto [slot, fresh] = grads_.try_emplace(leaf, grad);
  if (fresh) return;
  const PhaseScope phase(Phase::backward);
  const Scope scope("gradients");
  slot->second = hg::add(slot->second, grad);
}

void Gradients::add(Gradients&& other) {
  for (auto& [leaf, grad] : other.grads_) add(leaf, std::exchange(grad, Tensor()));
  other.grads_.clear();
}

void Gradients::add_one(Gradients& other, std::uint64_t leaf) {
  const auto found = other.grads_.find(leaf);
  if (found == other.grads_.end()) return;
  const Tensor grad = std::move(found->second);
  other.grads_.erase(found);
  add(leaf, grad);
}

Tensor Gradients::own(std::uint64_t leaf) const {
  const auto found = grads_.find(leaf);
  const bool alone = found != grads_.end() && found->second.storage().use_count() == 1;
  return alone ? found->second : Tensor();
}

Tape::Tape() {
  require(current_recorder() == nullptr, "tape", "this thread already records on another tape");
  exchange_recorder(this);
}

Tape::~Tape() { stop_recording(); }

void Tape::require_recording(std::string_view what) const {
  require(state_ != State::consumed, "tape", "{} after backward: the tape is consumed", what);
  require(state_ != State::released, "tape", "{} after release: the tape is freed", what);
  require(owner_ == std::this_thread::get_id(), "tape", "{} from a thread that does not own it",
          what);
}

void Tape::stop_recording() {
  if (current_recorder() == this) exchange_recorder(nullptr);
}

void Tape::watch(const Tensor& leaf) {
  require_recording("watch");
  require(leaf.defined() && is_float(leaf.dtype()), "tape", "cannot watch {}", leaf);
  watched_.insert(leaf.id());
  tracked_.insert(leaf.id());
}

void Tape::release() {
  require_recording("release");
  state_ = State::released;
  stop_recording();
  nodes_.clear();
}

// A NoRecording that outlived backward() or release() may have put a finished tape back in place.
bool Tape::tracks(In in) const {
  if (state_ != State::recording) return false;
  for (const Tensor& t : in)
    if (tracked_.count(t.id())) return true;
  return false;
}

void Tape::before(const Op& op, In in) {
  require(in.size() <= Indices::kMost, op.name(), "cannot be recorded: {} inputs, at most {}",
          in.size(), Indices::kMost);
  const std::string_view reason = op.not_differentiable();
  require(reason.empty(), op.name(), "cannot be recorded: {}", reason);
}

void Tape::after(const Op& op, In in, In out) {
  const Saved saved = op.saved();
  Node node{op.clone(), keep(in, saved.in), keep(out, saved.out), {}, current_scope()};
  node.versions.reserve(in.size() + out.size());
  for (const Tensor& t : node.in) node.versions.push_back(version_of(t));
  for (const Tensor& t : node.out) node.versions.push_back(version_of(t));
  for (std::size_t i = 0; i < out.size(); ++i)
    if (is_float(out[i].dtype()) && !op.auxiliary_outputs().has(i)) tracked_.insert(out[i].id());
  nodes_.push_back(std::move(node));
}

Gradients Tape::backward(const Tensor& loss) {
  Gradients result;
  backward_into(result, loss);
  return result;
}

void Tape::backward_into(Gradients& sums, const Tensor& loss, const OnWhole& on_whole) {
  require(loss.defined() && loss.numel() == 1, "backward", "the loss must have one element, got {}",
          loss);
  const Tensor seed = to_device(Tensor::full(loss.shape(), 1, loss.dtype()), loss.device());
  backward_into(sums, In(&loss, 1), In(&seed, 1), on_whole);
}

Gradients Tape::backward(In outputs, In seeds) {
  Gradients result;
  backward_into(result, outputs, seeds);
  return result;
}

void Tape::backward_into(Gradients& sums, In outputs, In seeds, const OnWhole& on_whole) {
  require_recording("backward");
  require(outputs.size() == seeds.size(), "backward", "{} outputs but {} seeds", outputs.size(),
          seeds.size());
  const PhaseScope phase(Phase::backward);
  Arrived arrived;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    require(tracked_.count(outputs[i].id()) != 0, "backward",
            "output {} {} does not depend on a watched tensor", i, outputs[i]);
    require(seeds[i].shape() == outputs[i].shape() && seeds[i].dtype() == outputs[i].dtype(),
            "backward", "seed {} is {}, its output {}", i, seeds[i], outputs[i]);
    arrive(arrived, outputs[i].id(), seeds[i]);
  }
  state_ = State::consumed;
  stop_recording();
  const IdMap<std::size_t> first = first_nodes();
  const auto whole = [&](std::uint64_t leaf) {
    if (on_whole) on_whole(leaf);
  };
  const auto hand_over = [&](const Tensor& t) {
    const auto found = arrived.find(t.id());
    if (found != arrived.end()) {
      sums.add(t.id(), found->second);
      arrived.erase(found);
    }
    whole(t.id());
  };
  if (on_whole)
    for (const std::uint64_t leaf : watched_)
      if (!first.count(leaf) && !arrived.count(leaf)) on_whole(leaf);
  while (!nodes_.empty()) {
    const Node node = std::move(nodes_.back());
    nodes_.pop_back();
    step_back(node, arrived, sums, first);
    for (const Tensors* side : {&node.in, &node.out})
      for (const Tensor& t : *side)
        if (first_here(first, t)) hand_over(t);
  }
  for (const Tensor& t : outputs)  // watched, and not used by any node
    if (arrived.count(t.id())) hand_over(t);
}

// Where each watched tensor is made, or else used first: behind that node its gradient is whole.
IdMap<std::size_t> Tape::first_nodes() const {
  IdMap<std::size_t> first;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    for (const Tensors* side : {&nodes_[i].in, &nodes_[i].out})
      for (const Tensor& t : *side)
        if (watched_.count(t.id())) first.try_emplace(t.id(), i);
  return first;
}

// Whether that is the node just taken off the tape.
bool Tape::first_here(const IdMap<std::size_t>& first, const Tensor& t) const {
  const auto at = first.find(t.id());
  return at != first.end() && at->second == nodes_.size();
}

void Tape::arrive(Arrived& arrived, std::uint64_t id, const Tensor& grad) {
  const auto [slot, fresh] = arrived.try_emplace(id, grad);
  if (!fresh) slot->second = add(slot->second, grad);
}

void Tape::step_back(const Node& node, Arrived& arrived, const Gradients& sums,
                     const IdMap<std::size_t>& first) const {
  const Tensors grad_out = take_output_grads(node, arrived);
  if (grad_out.empty()) return;
  for (std::size_t i = 0; i < node.versions.size(); ++i) {
    const Tensor& t = i < node.in.size() ? node.in[i] : node.out[i - node.in.size()];
    require(version_of(t) == node.versions[i], "tape", "{} was changed in place after {} used it",
            t, node.op->name());
  }
  Tensors own_sums(node.in.size());
  GradArgs args{node.in, node.out, grad_out, {}, own_sums};
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    const Tensor& t = node.in[i];
    if (tracked_.count(t.id())) args.need.bits |= std::uint64_t{1} << i;
    if (first_here(first, t) && !arrived.count(t.id())) own_sums[i] = sums.own(t.id());
  }
  const Scope scope(node.scope);
  const Tensors grads = node.op->grad(args);
  require(grads.size() == node.in.size(), node.op->name(), "{} gradients for {} inputs",
          grads.size(), node.in.size());
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (!args.need.has(i) || !grads[i].defined()) continue;
    check_gradient(*node.op, i, grads[i], node.in[i]);
    if (own_sums[i].defined() && grads[i].storage() == own_sums[i].storage()) continue;  // added
    arrive(arrived, node.in[i].id(), contiguous(grads[i]));
  }
}

// The gradients that arrived at the node's outputs; empty if none did. Nothing else can arrive
// there, so they leave, unless they are to be handed over.
Tensors Tape::take_output_grads(const Node& node, Arrived& arrived) const {
  Tensors grads(node.out.size());
  bool any = false;
  for (std::size_t i = 0; i < node.out.size(); ++i) {
    const std::uint64_t id = node.out[i].id();
    const auto found = arrived.find(id);
    if (found == arrived.end()) continue;
    any = true;
    grads[i] = found->second;
    if (!watched_.count(id)) arrived.erase(found);
  }
  if (!any) grads.clear();
  return grads;
}

}  // namespace hg
