#include "tensor/observer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "tensor/base/enum_names.h"

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

// What this thread has looked up, so that threads meet on the table's lock only for new paths.
class ScopeCache {
 public:
  const ScopePath* find_or(const ScopePath* parent, std::string_view name, bool leaf, auto&& find) {
    Entry& entry = entries_[slot_of(parent, name, leaf)];
    if (entry.parent != parent || entry.name != name || entry.leaf != leaf)
      entry = {parent, find(), std::string(name), leaf};
    return entry.path;
  }

 private:
  struct Entry {
    const ScopePath* parent = nullptr;
    const ScopePath* path = nullptr;
    std::string name;
    bool leaf = false;
  };
  static constexpr std::size_t kEntries = 1024;

  static std::size_t slot_of(const ScopePath* parent, std::string_view name, bool leaf) {
    std::size_t h = reinterpret_cast<std::uintptr_t>(parent) + leaf;
    for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
    return (h ^ h >> 20) % kEntries;
  }

  std::vector<Entry> entries_{kEntries};
};

ScopeCache& scope_cache() {
  thread_local ScopeCache cache;
  return cache;
}

const ScopePath kRoot{};
std::atomic<ObserverGuard*> innermost{nullptr};

// Calls of observers under way, in slots that threads share as little as possible: an op's thread
// should not wait for the cache line of another's.
struct alignas(64) VisitorSlot {
  std::atomic<int> visitors{0};
};
std::array<VisitorSlot, 64> visitor_slots;

std::atomic<int>& my_visitors() {
  static std::atomic<std::size_t> threads{0};
  thread_local VisitorSlot& mine = visitor_slots[threads.fetch_add(1) % visitor_slots.size()];
  return mine.visitors;
}

struct Visit : NoCopy {
  Visit() { mine_.fetch_add(1); }
  ~Visit() { mine_.fetch_sub(1, std::memory_order_release); }

 private:
  std::atomic<int>& mine_ = my_visitors();
};

thread_local Phase phase = Phase::forward;
thread_local const ScopePath* scope = &kRoot;
thread_local Recorder* recorder = nullptr;

}  // namespace

std::string_view to_string(Phase p) { return enum_name(p); }

Phase current_phase() { return phase; }
PhaseScope::PhaseScope(Phase p) : previous_(phase) { phase = p; }
PhaseScope::~PhaseScope() { phase = previous_; }

const ScopePath* current_scope() { return scope; }
Scope::Scope(std::string_view name) : previous_(scope) {
  scope =
      scope_cache().find_or(scope, name, false, [&] { return scope_table().descend(scope, name); });
}
Scope::Scope(std::string_view name, Leaf) : previous_(scope) {
  scope = scope_cache().find_or(scope, name, true, [&] { return scope_table().leaf(scope, name); });
}
Scope::Scope(const ScopePath* path) : previous_(scope) { scope = path; }
Scope::~Scope() { scope = previous_; }

ObserverGuard::ObserverGuard(Observer& observer) : observer_(observer), outer_(innermost.load()) {
  innermost.store(this);
}
// Who has come in before the store may still be with the observer; who comes later finds the outer.
ObserverGuard::~ObserverGuard() {
  innermost.store(outer_);
  for (const VisitorSlot& slot : visitor_slots)
    while (slot.visitors.load() != 0) std::this_thread::yield();
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
