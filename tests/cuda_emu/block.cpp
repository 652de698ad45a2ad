#include "tests/cuda_emu/block.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

#include "tests/cuda_emu/memory.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace hg::emu {
namespace {

constexpr int kWarp = 32;
constexpr std::size_t kMaxSharedBytes = 48 * 1024;

enum class State { ready, at_barrier, in_warp_call, done };

struct Thread {
  Fiber fiber;
  uint3 index{};
  int id = 0;
  State state = State::done;
  Place place;  // of the barrier it waits at
  WarpCall call{};
  std::uint64_t result = 0;
  std::uint32_t warp_syncs = 0;
  int lane() const { return id % kWarp; }
};

// The kernel that runs. Host code is single-threaded here: one device, one stream of work.
struct Running {
  const Launch* launch = nullptr;
  const std::function<void()>* body = nullptr;
  std::vector<std::unique_ptr<Thread>> threads;  // the first `count` belong to the block
  int count = 0;
  Thread* current = nullptr;
  std::uint32_t launch_id = 0, block_id = 0, barriers = 0;
  std::map<const void*, SharedBlock> shared;
  std::string fault;
  std::mt19937_64 order{1};
};
Running& running() {
  static Running& instance = *new Running;
  return instance;
}

std::string show(const uint3& i) { return fmt::format("({},{},{})", i.x, i.y, i.z); }

Thread* lane_of(int warp, int lane) {
  const int id = warp * kWarp + lane;
  return id < running().count ? running().threads[static_cast<std::size_t>(id)].get() : nullptr;
}

// The lane whose value a shuffle's caller gets.
int source_lane(const Thread& t) {
  const WarpCall& c = t.call;
  const int first = t.lane() / c.width * c.width;
  switch (c.op) {
    case WarpOp::shfl:
      return first + (c.argument & (c.width - 1));
    case WarpOp::shfl_up:
      return t.lane() - c.argument < first ? t.lane() : t.lane() - c.argument;
    case WarpOp::shfl_down:
      return t.lane() + c.argument >= first + c.width ? t.lane() : t.lane() + c.argument;
    default: {  // shfl_xor: beyond the own segment only into earlier ones
      const int source = t.lane() ^ c.argument;
      return source >= first + c.width ? t.lane() : source;
    }
  }
}

const char* name_of(WarpOp op) {
  constexpr const char* kNames[] = {"__syncwarp",       "__shfl_sync",     "__shfl_up_sync",
                                    "__shfl_down_sync", "__shfl_xor_sync", "__ballot_sync",
                                    "__any_sync",       "__all_sync"};
  return kNames[static_cast<int>(op)];
}

std::string show(const WarpCall& c) {
  return fmt::format("{} at {} with mask {:#010x}", name_of(c.op), to_string(c.place), c.mask);
}

void check_same_call(const Thread& mine, const Thread& other) {
  const WarpCall &a = mine.call, &b = other.call;
  if (a.op != b.op || a.mask != b.mask || a.width != b.width || !(a.place == b.place))
    fault(fmt::format("lanes of a warp call different things: lane {} {}, lane {} {}", mine.lane(),
                      show(a), other.lane(), show(b)));
}

// All live lanes of the caller's mask, if every one of them has arrived; else none.
std::vector<Thread*> arrived_lanes(const Thread& caller) {
  std::vector<Thread*> lanes;
  for (int lane = 0; lane < kWarp; ++lane) {
    if ((caller.call.mask >> lane & 1) == 0) continue;
    Thread* const t = lane_of(caller.id / kWarp, lane);
    if (!t || t->state == State::done) continue;
    if (t->state != State::in_warp_call) return {};
    lanes.push_back(t);
  }
  return lanes;
}

std::uint64_t shuffled(const Thread& t, const std::vector<Thread*>& lanes) {
  const int source = source_lane(t);
  for (const Thread* other : lanes)
    if (other->lane() == source) return other->call.value;
  fault(fmt::format("{}: lane {} reads lane {}, which does not take part", show(t.call), t.lane(),
                    source));
}

std::uint64_t voted(WarpOp op, const std::vector<Thread*>& lanes) {
  std::uint64_t ballot = 0, mask = 0;
  for (const Thread* t : lanes) {
    mask |= std::uint64_t{1} << t->lane();
    if (t->call.value) ballot |= std::uint64_t{1} << t->lane();
  }
  if (op == WarpOp::any) return ballot != 0;
  return op == WarpOp::all ? ballot == mask : ballot;
}

// Lets the lanes of a complete warp call go on.
void complete(const Thread& caller) {
  const std::vector<Thread*> lanes = arrived_lanes(caller);
  if (lanes.empty()) return;
  for (const Thread* t : lanes) check_same_call(*lanes[0], *t);
  const WarpOp op = lanes[0]->call.op;
  for (Thread* t : lanes)
    t->result = op == WarpOp::sync    ? 0
                : op < WarpOp::ballot ? shuffled(*t, lanes)
                                      : voted(op, lanes);
  for (Thread* t : lanes) {
    t->state = State::ready;
    if (op == WarpOp::sync) ++t->warp_syncs;
  }
}

void thread_body() {
  Thread& self = *running().current;
  (*running().body)();
  self.state = State::done;
  // What waited for this lane may now be complete without it.
  for (int lane = 0; lane < kWarp; ++lane)
    if (Thread* t = lane_of(self.id / kWarp, lane); t && t->state == State::in_warp_call)
      complete(*t);
}

void resume(Thread& t) {
  running().current = &t;
  threadIdx = t.index;
  t.fiber.resume();
}

// Everyone waits: at the same barrier, or this is a fault.
void release_barrier() {
  Running& r = running();
  const Thread* first = nullptr;
  int waiting = 0, done = 0;
  for (int i = 0; i < r.count; ++i) {
    const Thread& t = *r.threads[static_cast<std::size_t>(i)];
    if (t.state == State::done) {
      ++done;
    } else if (t.state == State::in_warp_call) {
      r.fault = fmt::format("deadlock: thread {} waits in {}", show(t.index), show(t.call));
      return;
    } else {
      ++waiting;
      if (!first) first = &t;
      if (!(t.place == first->place)) {
        r.fault =
            fmt::format("divergent barrier: thread {} at {}, thread {} at {}", show(first->index),
                        to_string(first->place), show(t.index), to_string(t.place));
        return;
      }
    }
  }
  if (done > 0) {
    r.fault = fmt::format("divergent barrier at {}: {} threads wait, {} have left the kernel",
                          to_string(first->place), waiting, done);
    return;
  }
  ++r.barriers;
  for (int i = 0; i < r.count; ++i) r.threads[static_cast<std::size_t>(i)]->state = State::ready;
}

void start_threads() {
  Running& r = running();
  r.count = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
  while (static_cast<int>(r.threads.size()) < r.count)
    r.threads.push_back(std::make_unique<Thread>());
  for (int i = 0; i < r.count; ++i) {
    Thread& t = *r.threads[static_cast<std::size_t>(i)];
    const auto id = static_cast<unsigned>(i);
    t.id = i;
    t.index = {id % blockDim.x, id / blockDim.x % blockDim.y, id / (blockDim.x * blockDim.y)};
    t.state = State::ready;
    t.warp_syncs = 0;
    t.fiber.start(thread_body);
  }
}

void poison_shared() {
  for (auto& [key, block] : running().shared) {
    std::memset(block.data(), kUnwritten, block.bytes);
    std::fill(block.cells.begin(), block.cells.end(), Cell{});
  }
}

void check_shared_guards() {
  for (const auto& [key, block] : running().shared)
    if (running().fault.empty() &&
        (!unwritten(block.region.get(), block.data()) ||
         !unwritten(block.data() + block.bytes, block.data() + block.bytes + block.guard)))
      running().fault = fmt::format("write past {} bytes of shared memory", block.bytes);
}

// The threads that can run, in the seed's order, until all have ended or one is at fault.
void run_block() {
  Running& r = running();
  poison_shared();
  start_threads();
  std::vector<Thread*> ready;
  while (r.fault.empty()) {
    ready.clear();
    bool alive = false;
    for (int i = 0; i < r.count; ++i) {
      Thread& t = *r.threads[static_cast<std::size_t>(i)];
      if (t.state == State::ready) ready.push_back(&t);
      alive |= t.state != State::done;
    }
    if (!alive) return;
    if (ready.empty()) release_barrier();
    std::shuffle(ready.begin(), ready.end(), r.order);
    for (Thread* t : ready)
      if (r.fault.empty()) resume(*t);
  }
}

void on_kernel_page_fault(const void* address, const void* code) {
  fault(
      fmt::format("access to {} at {}", describe(address, allocation_at(address)), line_at(code)));
}

void run_blocks(const Launch& launch) {
  Running& r = running();
  for (blockIdx.z = 0; blockIdx.z < launch.grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < launch.grid.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < launch.grid.x; ++blockIdx.x) {
        r.block_id = (blockIdx.z * launch.grid.y + blockIdx.y) * launch.grid.x + blockIdx.x;
        r.barriers = 0;
        run_block();
        check_shared_guards();
        if (!r.fault.empty()) return;
      }
}

// Of exact size under the address sanitizer, which guards what lies around it.
SharedBlock make_shared_block(std::size_t bytes) {
  const std::size_t guard = kAddressSanitizer ? 0 : 16 * 1024;
  auto* const region = static_cast<std::byte*>(std::malloc(guard + bytes + guard));
  std::memset(region, kUnwritten, guard + bytes + guard);
  SharedBlock block{{region, std::free}, guard, bytes, {}};
  if (kRaceDetector) block.cells.resize(bytes / 4 + 1);
  return block;
}

}  // namespace

void fault(const std::string& what) {
  Running& r = running();
  const std::string kernel = function_at(r.launch->kernel);
  r.fault = fmt::format("kernel {}, block {}, thread {}: {}", kernel, show(blockIdx),
                        show(threadIdx), what);
  r.current->fiber.yield(true);
  __builtin_unreachable();
}

std::uint64_t warp_call(const WarpCall& call) {
  Thread& self = *running().current;
  self.call = call;
  if ((call.mask >> self.lane() & 1) == 0)
    fault(fmt::format("{}: lane {} is not in the mask", show(call), self.lane()));
  self.state = State::in_warp_call;
  complete(self);
  while (self.state == State::in_warp_call) self.fiber.yield();
  return self.result;
}

void barrier(const Place& place) {
  Thread& self = *running().current;
  self.place = place;
  self.state = State::at_barrier;
  while (self.state == State::at_barrier) self.fiber.yield();
}

void* shared_memory(const void* declaration, std::size_t bytes) {
  Running& r = running();
  auto found = r.shared.find(declaration);
  if (found == r.shared.end()) {
    found = r.shared.emplace(declaration, make_shared_block(bytes)).first;
    std::size_t total = 0;
    for (const auto& [key, block] : r.shared) total += block.bytes;
    if (total > kMaxSharedBytes)
      fault(fmt::format("{} bytes of shared memory, at most {}", total, kMaxSharedBytes));
  }
  return found->second.data();
}

void* dynamic_shared_memory() { return running().shared.at(nullptr).data(); }

bool in_kernel() { return running().current != nullptr; }
bool on_own_stack(const void* p) { return running().current->fiber.holds(p); }

Access current_access() {
  const Running& r = running();
  return {r.launch_id,
          r.block_id,
          r.barriers,
          r.current->warp_syncs,
          static_cast<std::uint16_t>(r.current->id),
          0,
          false,
          nullptr};
}

SharedBlock* shared_block_at(const void* p) {
  for (auto& [key, block] : running().shared)
    if (p >= block.region.get() && p < block.data() + block.bytes + block.guard) return &block;
  return nullptr;
}

void run_kernel(const Launch& launch, const std::function<void()>& body) {
  Running& r = running();
  const DeviceAccess open;
  set_kernel_fault_handler(on_kernel_page_fault);
  r.launch = &launch;
  r.body = &body;
  r.fault.clear();
  r.shared.clear();
  ++r.launch_id;
  gridDim = launch.grid;
  blockDim = launch.block;
  r.shared.emplace(nullptr, make_shared_block(launch.dynamic_shared_bytes));
  run_blocks(launch);
  r.current = nullptr;
  if (r.fault.empty())
    if (const std::string guard = damaged_guard(); !guard.empty())
      r.fault = fmt::format("kernel {}: write to {}", function_at(launch.kernel), guard);
  if (!r.fault.empty())
    throw Fault(r.fault.starts_with("kernel")
                    ? r.fault
                    : fmt::format("kernel {}, block {}: {}", function_at(launch.kernel),
                                  show(blockIdx), r.fault));
}

void set_seed(std::uint64_t seed) { running().order.seed(seed); }

}  // namespace hg::emu
