// Hooks around run(): who watches ops (profiler) and who records them (tape), and the labels each
// call carries: Phase and Scope. Labels and recorder belong to the thread, observers to the
// process.
#pragma once

#include <string>
#include <string_view>

#include "tensor/op.h"

namespace hg {

enum class Phase : std::uint8_t { forward, backward, optimizer, data, eval };
std::string_view to_string(Phase phase);
Phase current_phase();

// While alive, ops of this thread belong to `phase`. Tape::backward() does that by itself.
class PhaseScope : NoCopy {
 public:
  explicit PhaseScope(Phase phase);
  ~PhaseScope();

 private:
  Phase previous_;
};

// A place in the model. Paths are interned: the same path is the same pointer, forever.
struct ScopePath {
  std::string path;  // "blocks.3.attn.qkv"; "" at the root
  // How a profile labels what runs here: an ordinary scope is a layer, and each op goes by its own
  // name; a leaf (a linear, a norm) is one entry of its parent: layer "blocks.3.attn", op "qkv".
  std::string layer, op;
};
const ScopePath* current_scope();

// While alive, ops of this thread belong to <current path>.<name>, or to `path` when reopened.
class Scope : NoCopy {
 public:
  enum Leaf { kLeaf };
  explicit Scope(std::string_view name);
  Scope(std::string_view name, Leaf);
  explicit Scope(const ScopePath* path);
  ~Scope();

 private:
  const ScopePath* previous_;
};

struct OpCall {
  const Op& op;
  In in, out;
  Phase phase;
  const ScopePath* scope;
};

// Called on the thread that runs the op, from several threads at once. If the kernel throws,
// op_end() is not called.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void op_begin(const OpCall&) {}
  virtual void op_end(const OpCall&) {}
};

// Installs an observer while alive. Observers are added and removed in nested order, by one thread.
// Other threads (a loader's) may run ops meanwhile: an observer may see the end of a call whose
// begin it missed, and no call once its guard is gone.
class ObserverGuard : NoCopy {
 public:
  explicit ObserverGuard(Observer& observer);
  ~ObserverGuard();

 private:
  friend void notify_begin(const OpCall&);
  friend void notify_end(const OpCall&);
  Observer& observer_;
  ObserverGuard* outer_;
};
void notify_begin(const OpCall& call);
void notify_end(const OpCall& call);

// What run() knows of a tape. One per thread at a time.
class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual bool tracks(In in) const = 0;
  virtual void before(const Op& op, In in) = 0;  // may refuse by throwing
  virtual void after(const Op& op, In in, In out) = 0;
};
Recorder* current_recorder();
Recorder* exchange_recorder(Recorder* recorder);  // returns the previous one

// True if a gradient through an op on these inputs will be asked for; an op with optional outputs
// that only its gradient reads needs to know.
bool recording(In in);
inline bool recording(std::initializer_list<Tensor> in) {
  return recording(In(in.begin(), in.size()));
}

}  // namespace hg
