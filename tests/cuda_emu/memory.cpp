#include "tests/cuda_emu/memory.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "tests/cuda_emu/fault.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

namespace hg::emu {
namespace {

constexpr std::size_t kPage = 4096, kArenaBytes = std::size_t{1} << 36;

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

int open_count = 0;
void (*kernel_fault_handler)(const void*, const void*) = nullptr;
const void *fault_address = nullptr, *fault_code = nullptr;

// Runs on the stack that faulted, as if called from there.
[[noreturn]] void after_page_fault() {
  if (open_count > 0 && kernel_fault_handler) kernel_fault_handler(fault_address, fault_code);
  const std::string text =
      fmt::format("host access to device memory at {}: {}\n", line_at(fault_code),
                  describe(fault_address, allocation_at(fault_address)));
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
  _exit(86);
}

// Leaves the signal at once: the return goes to after_page_fault() instead of the faulting code.
void on_page_fault(int signal, siginfo_t* info, void* context) {
  if (!in_arena(info->si_addr)) {
    ::signal(signal, SIG_DFL);
    return;
  }
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  fault_address = info->si_addr;
  fault_code = reinterpret_cast<const void*>(registers[REG_RIP]);
  registers[REG_RSP] = ((registers[REG_RSP] - 256) & ~greg_t{15}) - 8;
  registers[REG_RIP] = reinterpret_cast<greg_t>(&after_page_fault);
}

// Addresses are never used twice, so that an access after free is always one to closed pages.
class Arena {
 public:
  Arena() {
    void* const p =
        mmap(nullptr, kArenaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw Fault("no address space for the emulated device's memory");
    begin_ = next_ = static_cast<std::byte*>(p);
    if (!kAddressSanitizer) catch_page_faults();
  }

  bool holds(const void* p) const { return p >= begin_ && p < begin_ + kArenaBytes; }

  Allocation* allocate(std::size_t bytes) {
    const std::size_t guard = std::max(kPage, whole_pages(bytes));
    const std::size_t region_bytes = guard + whole_pages(bytes) + guard;
    if (region_bytes > static_cast<std::size_t>(begin_ + kArenaBytes - next_)) return nullptr;
    auto a = std::make_unique<Allocation>();
    *a = {next_, region_bytes, next_ + guard, bytes, true, {}};
    if (kRaceDetector) a->cells.resize(bytes / 4 + 1);
    next_ += region_bytes;
    mprotect(a->region, region_bytes, PROT_READ | PROT_WRITE);
    std::memset(a->region, kUnwritten, region_bytes);
    Allocation* const made = a.get();
    all_.emplace(made->region, std::move(a));
    live_.push_back(made);
    if (open_count == 0) close(*made);
    return made;
  }

  void release(Allocation& a) {
    a.live = false;
    a.cells = {};
    live_.erase(std::find(live_.begin(), live_.end(), &a));
    mmap(a.region, a.region_bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    ASAN_POISON_MEMORY_REGION(a.region, a.region_bytes);
  }

  Allocation* find(const void* p) const {
    auto after = all_.upper_bound(static_cast<const std::byte*>(p));
    if (after == all_.begin()) return nullptr;
    Allocation* const a = std::prev(after)->second.get();
    return p < a->region + a->region_bytes ? a : nullptr;
  }

  void open_all() {
    for (Allocation* a : live_) open(*a);
  }
  void close_all() {
    for (Allocation* a : live_) close(*a);
  }
  const std::vector<Allocation*>& live() const { return live_; }

 private:
  static void open(Allocation& a) {
    if (kAddressSanitizer)
      ASAN_UNPOISON_MEMORY_REGION(a.data, a.bytes);
    else
      mprotect(a.region, a.region_bytes, PROT_READ | PROT_WRITE);
  }
  static void close(Allocation& a) {
    if (kAddressSanitizer)
      ASAN_POISON_MEMORY_REGION(a.region, a.region_bytes);
    else
      mprotect(a.region, a.region_bytes, PROT_NONE);
  }
  static void catch_page_faults() {
    static std::byte stack[64 * 1024];
    stack_t alternate{};
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof stack;
    sigaltstack(&alternate, nullptr);
    struct sigaction action {};
    action.sa_sigaction = on_page_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, nullptr);
  }

  std::byte *begin_, *next_;
  std::map<const std::byte*, std::unique_ptr<Allocation>> all_;
  std::vector<Allocation*> live_;
};

Arena& arena() {
  static Arena& instance = *new Arena;  // tensors may outlive main
  return instance;
}

}  // namespace

bool unwritten(const std::byte* begin, const std::byte* end) {
  return begin == end ||
         (*begin == std::byte{kUnwritten} &&
          std::memcmp(begin, begin + 1, static_cast<std::size_t>(end - begin) - 1) == 0);
}

std::recursive_mutex& device_mutex() {
  static std::recursive_mutex& mutex = *new std::recursive_mutex;
  return mutex;
}

void* device_alloc(std::size_t bytes) {
  const std::lock_guard lock(device_mutex());
  Allocation* const a = arena().allocate(bytes);
  return a ? a->data : nullptr;
}

void device_free(void* p) {
  if (!p) return;
  const std::lock_guard lock(device_mutex());
  Allocation* const a = allocation_at(p);
  if (!a || a->data != p) throw Fault(fmt::format("cudaFree of {}", describe(p, a)));
  if (!a->live) throw Fault(fmt::format("cudaFree twice: {}", describe(p, a)));
  arena().release(*a);
}

bool in_arena(const void* p) { return arena().holds(p); }
Allocation* allocation_at(const void* p) { return arena().find(p); }

std::string describe(const void* p, const Allocation* a) {
  if (!a) return "memory that was never allocated on the device";
  const std::ptrdiff_t offset = static_cast<const std::byte*>(p) - a->data;
  const auto bytes = static_cast<std::ptrdiff_t>(a->bytes);
  const std::string_view state = a->live ? "" : "freed ";
  if (offset < 0) return fmt::format("{} bytes before {}{} bytes", -offset, state, bytes);
  if (offset >= bytes)
    return fmt::format("{} bytes past the end of {}{} bytes", offset - bytes, state, bytes);
  return fmt::format("byte {} of {}{} bytes", offset, state, bytes);
}

Allocation& expect_device_range(const char* who, const void* p, std::size_t bytes) {
  Allocation* const a = allocation_at(p);
  const auto* begin = static_cast<const std::byte*>(p);
  if (!a || !a->live || begin < a->data || begin + bytes > a->data + a->bytes)
    throw Fault(
        fmt::format("{}: {} bytes at {} are not all device memory", who, bytes, describe(p, a)));
  return *a;
}

DeviceAccess::DeviceAccess() : lock_(device_mutex()) {
  if (open_count++ == 0) arena().open_all();
}
DeviceAccess::~DeviceAccess() {
  if (--open_count == 0) arena().close_all();
}

std::string damaged_guard() {
  if (kAddressSanitizer) return {};
  for (const Allocation* a : arena().live()) {
    if (!unwritten(a->region, a->data)) return describe(a->data - 1, a);
    if (!unwritten(a->data + a->bytes, a->region + a->region_bytes))
      return describe(a->data + a->bytes, a);
  }
  return {};
}

void set_kernel_fault_handler(void (*handler)(const void*, const void*)) {
  kernel_fault_handler = handler;
}

}  // namespace hg::emu
