#include "tensor/observer.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace hg {
namespace {

// Every path in use, found by its parent and last name without building the string.
class ScopeTable {
 public:
  // `names` is one name or several with dots between them: either way the path is the same pointer.
  const ScopePath* descend(const ScopePath* path, std::string_view names) {
    const std::lock_guard lock(mutex_);
    while (!names.empty()) {
      const std::string_view name = names.substr(0, names.find('.'));
      if (!name.empty()) path = child(path, name);
      names.remove_prefix(std::min(name.size() + 1, names.size()));
    }
    return path;
  }

  const ScopePath* leaf(const ScopePath* parent, std::string_view name) {
    const std::lock_guard lock(mutex_);
    return enter(leaves_[parent], parent, name, true);
  }

 private:
  using Children = std::map<std::string, ScopePath, std::less<>>;

  const ScopePath* child(const ScopePath* parent, std::string_view name) {
    return enter(children_[parent], parent, name, false);
  }

  static const ScopePath* enter(Children& children, const ScopePath* parent, std::string_view name,
                                bool leaf) {
    if (const auto found = children.find(name); found != children.end()) return &found->second;
    const std::string last(name);
    const std::string path = parent->path.empty() ? last : parent->path + "." + last;
    ScopePath made{path, leaf ? parent->path : path, leaf ? last : ""};
    return &children.emplace(last, std::move(made)).first->second;
  }

  std::mutex mutex_;
  std::map<const ScopePath*, Children> children_, leaves_;
};

ScopeTable& scope_table() {
  static ScopeTable& table = *new ScopeTable;  // never destroyed: paths are for ever
  return table;
}

const ScopePath kRoot{};
std::atomic<ObserverGuard*> innermost{nullptr};
std::atomic<int> visitors{0};  // calls of observers under way

struct Visit {
  Visit() { visitors.fetch_add(1); }
  ~Visit() { visitors.fetch_sub(1); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
};

thread_local Phase phase = Phase::forward;
thread_local const ScopePath* scope = &kRoot;
thread_local Recorder* recorder = nullptr;

}  // namespace

std::string_view to_string(Phase p) {
  switch (p) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::optimizer:
      return "optimizer";
    case Phase::data:
      return "data";
    case Phase::eval:
      return "eval";
  }
  return "?";
}

Phase current_phase() { return phase; }
PhaseScope::PhaseScope(Phase p) : previous_(phase) { phase = p; }
PhaseScope::~PhaseScope() { phase = previous_; }

const ScopePath* current_scope() { return scope; }
Scope::Scope(std::string_view name) : previous_(scope) {
  scope = scope_table().descend(scope, name);
}
Scope::Scope(std::string_view name, Leaf) : previous_(scope) {
  scope = scope_table().leaf(scope, name);
}
Scope::Scope(const ScopePath* path) : previous_(scope) { scope = path; }
Scope::~Scope() { scope = previous_; }

ObserverGuard::ObserverGuard(Observer& observer) : observer_(observer), outer_(innermost.load()) {
  innermost.store(this);
}
// Who has come in before the store may still be with the observer; who comes later finds the outer.
ObserverGuard::~ObserverGuard() {
  innermost.store(outer_);
  while (visitors.load() != 0) std::this_thread::yield();
}

void notify_begin(const OpCall& call) {
  if (!innermost.load(std::memory_order_relaxed)) return;
  const Visit visit;
  for (auto* g = innermost.load(); g; g = g->outer_) g->observer_.op_begin(call);
}
void notify_end(const OpCall& call) {
  if (!innermost.load(std::memory_order_relaxed)) return;
  const Visit visit;
  for (auto* g = innermost.load(); g; g = g->outer_) g->observer_.op_end(call);
}

Recorder* current_recorder() { return recorder; }
Recorder* exchange_recorder(Recorder* r) { return std::exchange(recorder, r); }
bool recording(In in) { return recorder && recorder->tracks(in); }

}  // namespace hg
