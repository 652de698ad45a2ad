// Tape: an explicit scope that records the ops of one thread and walks them back once.
//
//   Tape tape;
//   tape.watch(w);
//   Tensor loss = ...;                      // every op on w, or on what came of it, is recorded
//   Gradients grads = tape.backward(loss);  // consumes the tape, freeing as it goes
//   grads[w];
#pragma once

#include <functional>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "tensor/observer.h"

namespace hg {

template <class Value>
using IdMap = std::unordered_map<std::uint64_t, Value, std::hash<std::uint64_t>, std::equal_to<>,
                                 CachedAllocator<std::pair<const std::uint64_t, Value>>>;
using IdSet = std::unordered_set<std::uint64_t, std::hash<std::uint64_t>, std::equal_to<>,
                                 CachedAllocator<std::uint64_t>>;

// Gradients of the watched tensors. They may share storage with one another and with the seeds
// (a + b hands the same gradient to both): read them, don't write into them.
class Gradients {
 public:
  bool has(const Tensor& leaf) const { return grads_.count(leaf.id()) != 0; }
  // Throws for a tensor that was not watched or that the loss does not depend on.
  const Tensor& operator[](const Tensor& leaf) const;
  // Frees the other's one by one, so that no third set comes to be.
  void add(Gradients&& other);
  void add_one(Gradients& other, std::uint64_t leaf);  // and that one alone

 private:
  friend class Tape;
  // The leaf's gradient if nothing else has its storage, so that it may be changed; else undefined.
  Tensor own(std::uint64_t leaf) const;
  void add(std::uint64_t leaf, const Tensor& grad);
  IdMap<Tensor> grads_;
};

// Told of each watched tensor, by its id, when its gradient is whole in the sums or will not come.
using OnWhole = std::function<void(std::uint64_t leaf)>;

class Tape final : private Recorder, NoCopy {
 public:
  Tape();  // from here on it records; a thread has one tape at a time
  ~Tape() override;

  void watch(const Tensor& leaf);  // asks for its gradient; before the ops that use it
  // Gradients of a loss of one element; a tape gives them once.
  Gradients backward(const Tensor& loss);
  // The same of several outputs, with the gradient of each to begin with.
  Gradients backward(In outputs, In seeds);
  // The same, adding to the sums of earlier tapes as it goes: no second set of gradients exists.
  // Products may add to a sum block by block, so the bits need not be those of adding sets.
  void backward_into(Gradients& sums, const Tensor& loss, const OnWhole& on_whole = {});
  void backward_into(Gradients& sums, In outputs, In seeds, const OnWhole& on_whole = {});
  void release();  // frees what was recorded without walking it
  std::size_t size() const { return nodes_.size(); }

 private:
  struct Node {
    std::shared_ptr<const Op> op;
    Tensors in, out;  // hollow where the gradient does not need the contents
    CachedVector<std::uint32_t> versions;
    const ScopePath* scope;
  };
  using Arrived = IdMap<Tensor>;  // gradients on their way back
  enum class State { recording, consumed, released };

  bool tracks(In in) const override;
  void before(const Op& op, In in) override;
  void after(const Op& op, In in, In out) override;

  void require_recording(std::string_view what) const;
  void stop_recording();
  IdMap<std::size_t> first_nodes() const;
  bool first_here(const IdMap<std::size_t>& first, const Tensor& t) const;
  void step_back(const Node& node, Arrived& arrived, const Gradients& sums,
                 const IdMap<std::size_t>& first) const;
  Tensors take_output_grads(const Node& node, Arrived& arrived) const;
  static void arrive(Arrived& arrived, std::uint64_t id, const Tensor& grad);

  CachedVector<Node> nodes_;
  IdSet watched_, tracked_;
  State state_ = State::recording;
  std::thread::id owner_ = std::this_thread::get_id();
};

// While alive, this thread records nothing: evaluation and frozen layers inside a tape's scope.
class NoRecording : NoCopy {
 public:
  NoRecording() : previous_(exchange_recorder(nullptr)) {}
  ~NoRecording() { exchange_recorder(previous_); }

 private:
  Recorder* previous_;
};

}  // namespace hg
