#include "train/ranks/ranks.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <set>
#include <thread>

#include "tensor/base/clock.h"
#include "tensor/base/files.h"
#include "train/ranks/packed.h"

namespace hg {
namespace {

constexpr std::int64_t kAwakeNs = 100'000;         // before a wait begins to sleep
constexpr std::int64_t kLongestNapNs = 1'000'000;  // a message may come at any moment
constexpr std::int64_t kWatchNs = 50'000'000;      // how often failures are looked for
constexpr std::int64_t kListenNs = 5'000'000;      // the same, by one that has failed
constexpr double kTellS = 0.5;                     // for another rank to tell of its own failure

std::string target_of_link(const char* path) {
  char text[256];
  const ssize_t length = ::readlink(path, text, sizeof text);
  return length > 0 ? std::string(text, static_cast<std::size_t>(length)) : "";
}

std::string pack(const RankPlace& place) {
  Packer p;
  p.bytes(place.host);
  p.bytes(place.machine);
  p.bytes(place.process_room);
  p.value(place.process);
  p.bytes(place.cpus);
  return p.all();
}

RankPlace unpack_place(const std::string& text) {
  Unpacker u(text);
  RankPlace place;
  place.host = u.bytes();
  place.machine = u.bytes();
  place.process_room = u.bytes();
  place.process = u.value<int>();
  place.cpus = u.bytes();
  return place;
}

int count_of(const std::string& cpus) {
  cpu_set_t set;
  if (cpus.size() != sizeof set) return 1;
  std::copy_n(cpus.data(), sizeof set, reinterpret_cast<char*>(&set));
  return std::max(1, CPU_COUNT(&set));
}

// To ranks of another transport that follow one another.
class GroupTransport final : public Transport {
 public:
  GroupTransport(Transport& all, int first, int size) : all_(all), first_(first), size_(size) {}

  int rank() const override { return all_.rank() - first_; }
  int size() const override { return size_; }
  void send(int to, const void* data, std::size_t bytes) override {
    all_.send(first_ + to, data, bytes);
  }
  void receive(int from, void* data, std::size_t bytes) override {
    all_.receive(first_ + from, data, bytes);
  }
  std::size_t open() override { return all_.open(); }
  int awaited() const override { return all_.awaited() - first_; }
  // Failures are those of all, in and out of the group.
  void cry(const std::string& text) override { all_.cry(text); }
  bool heard(int& from, std::string& text) override {
    if (!all_.heard(from, text)) return false;
    from -= first_;
    return true;
  }
  void finish() override {}

 private:
  Transport& all_;
  const int first_, size_;
};

}  // namespace

RankPlace this_place() {
  RankPlace place;
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  place.host = host;
  place.machine = read_small_file("/proc/sys/kernel/random/boot_id").value_or("");
  if (place.machine.empty()) place.machine = place.host;
  place.process_room = target_of_link("/proc/self/ns/pid");
  place.process = ::getpid();
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (::sched_getaffinity(0, sizeof cpus, &cpus) == 0)
    place.cpus.assign(reinterpret_cast<const char*>(&cpus), sizeof cpus);
  return place;
}

Ranks::Ranks() : places_{this_place()} {}

Ranks::Ranks(std::unique_ptr<Transport> transport, RankPlace place)
    : transport_(std::move(transport)), rank_(transport_->rank()), size_(transport_->size()) {
  places_.resize(static_cast<std::size_t>(size_));
  std::vector<RankPlace> all;
  for (const std::string& text : gather(pack(place))) all.push_back(unpack_place(text));
  places_ = std::move(all);
}

Ranks::Ranks(Ranks& all, int group_size)
    : all_(&all), rank_(all.rank_ % group_size), size_(group_size) {
  const int first = all.rank_ - rank_;
  if (size_ > 1) transport_ = std::make_unique<GroupTransport>(*all.transport_, first, size_);
  places_.assign(all.places_.begin() + first, all.places_.begin() + first + size_);
}

Ranks::~Ranks() = default;

// A group's by its number among all, as the user knows it.
std::string Ranks::name_of(int rank) const {
  if (all_) return all_->name_of(all_->rank_ - rank_ + rank);
  return fmt::format("rank {} (host {})", rank, place(rank).host);
}

int Ranks::hosts() const {
  std::set<std::pair<std::string, std::string>> names;
  for (const RankPlace& p : places_) names.emplace(p.machine, p.host);
  return static_cast<int>(names.size());
}

int Ranks::here() const {
  if (all_) return all_->here();
  int count = 0;
  for (const RankPlace& p : places_) count += p.machine == place(rank_).machine;
  return count;
}

int Ranks::place_here() const {
  if (all_) return all_->place_here();
  int before = 0;
  for (int r = 0; r < rank_; ++r) before += place(r).machine == place(rank_).machine;
  return before;
}

bool Ranks::reads_meters() const {
  for (int r = 0; r < rank_; ++r)
    if (place(r).machine == place(rank_).machine) return false;
  return true;
}

int Ranks::threads() const {
  if (all_) return all_->threads();
  const RankPlace& own = place(rank_);
  int sharing = 0;
  for (const RankPlace& p : places_) sharing += p.machine == own.machine && p.cpus == own.cpus;
  return std::max(1, count_of(own.cpus) / std::max(1, sharing));
}

std::vector<std::string> Ranks::gather(std::string_view own) {
  const std::vector<std::size_t> sizes = gather(own.size());
  std::vector<std::string> all(static_cast<std::size_t>(size_));
  std::vector<Sent> sent;
  std::vector<Received> received;
  for (int r = 0; r < size_; ++r) {
    std::string& text = all[static_cast<std::size_t>(r)];
    if (r == rank_) {
      text = own;
      continue;
    }
    text.resize(sizes[static_cast<std::size_t>(r)]);
    sent.push_back({r, own.data(), own.size()});
    received.push_back({r, text.data(), text.size()});
  }
  swap(sent, received, Work::wait);
  return all;
}

std::vector<std::string> Ranks::collect(std::string_view own) {
  const std::size_t size = own.size();
  if (!first()) {
    const Sent announced{0, &size, sizeof size}, sent{0, own.data(), own.size()};
    swap({&announced, 1}, {}, Work::wait);
    swap({&sent, 1}, {}, Work::wait);
    return {};
  }
  std::vector<std::size_t> sizes(static_cast<std::size_t>(size_), size);
  std::vector<Received> received;
  for (int r = 1; r < size_; ++r)
    received.push_back({r, &sizes[static_cast<std::size_t>(r)], sizeof size});
  swap({}, received, Work::wait);
  std::vector<std::string> all{std::string(own)};
  received.clear();
  for (int r = 1; r < size_; ++r) all.emplace_back(sizes[static_cast<std::size_t>(r)], '\0');
  for (int r = 1; r < size_; ++r) {
    std::string& text = all[static_cast<std::size_t>(r)];
    received.push_back({r, text.data(), text.size()});
  }
  swap({}, received, Work::wait);
  return all;
}

// Each rank gets a share from rank 0 and passes it on, so that nobody sends much more than the
// text.
std::string Ranks::broadcast(std::string text) {
  const auto bytes = static_cast<std::int64_t>(gather(text.size())[0]);
  text.resize(static_cast<std::size_t>(bytes));
  const auto at = [&](int r) { return text.data() + share_of(bytes, r, size_).first; };
  const auto count = [&](int r) {
    const Share share = share_of(bytes, r, size_);
    return static_cast<std::size_t>(share.end - share.first);
  };
  std::vector<Sent> sent;
  std::vector<Received> received;
  for (int r = 1; first() && r < size_; ++r) sent.push_back({r, at(r), count(r)});
  if (!first()) received.push_back({0, at(rank_), count(rank_)});
  swap(sent, received, Work::wait);
  sent.clear();
  received.clear();
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    if (r != 0) sent.push_back({r, at(rank_), count(rank_)});
    if (!first()) received.push_back({r, at(r), count(r)});
  }
  swap(sent, received, Work::wait);
  return text;
}

void Ranks::swap(std::span<const Sent> sent, std::span<const Received> received, Work work) {
  if (alone()) return;
  if (on_work_.begins) on_work_.begins();
  const std::int64_t start = now_ns();
  std::uint64_t bytes = 0;
  for (const Received& r : received) transport_->receive(r.from, r.data, r.bytes);
  for (const Sent& s : sent) {
    transport_->send(s.to, s.data, s.bytes);
    bytes += s.bytes;
  }
  await([this] { return transport_->open(); },
        [this](std::int64_t since_ns) {
          const int other = transport_->awaited();
          watch_process(other);
          check_silence(since_ns, name_of(other));
        });
  if (on_work_.ends) on_work_.ends(work, start, now_ns(), bytes);
}

void Ranks::with_devices(const std::function<void()>& body) {
  try {
    body();
  } catch (...) {
    for (const std::int64_t start = now_ns(); seconds_since(start) < kTellS;) {
      listen();
      watch_all();
      std::this_thread::sleep_for(std::chrono::nanoseconds(kListenNs));
    }
    throw;
  }
}

void Ranks::await_devices(const std::function<std::size_t()>& open) {
  const auto open_parts = [&] {
    std::size_t parts = 0;
    with_devices([&] { parts = open(); });
    return parts;
  };
  await(open_parts, [&](std::int64_t since_ns) {
    watch_all();
    check_silence(since_ns, "the GPUs of other ranks");
  });
}

void Ranks::await_exchange(const std::function<std::size_t()>& open, std::uint64_t bytes) {
  if (on_work_.begins) on_work_.begins();
  const std::int64_t start = now_ns();
  await_devices(open);
  if (on_work_.ends) on_work_.ends(Work::exchange, start, now_ns(), bytes);
}

// Until nothing is open. Awake at first, then asleep for an eighth of the time that nothing has
// come: a long wait leaves the core to others.
void Ranks::await(const std::function<std::size_t()>& open_parts,
                  const std::function<void(std::int64_t silent_since_ns)>& watch) {
  std::size_t before = SIZE_MAX;
  std::int64_t silent_since = now_ns(), watched = silent_since;
  while (const std::size_t open = open_parts()) {
    const std::int64_t now = now_ns(), silent = now - silent_since;
    if (open != before) {
      before = open;
      silent_since = now;
    } else if (silent < kAwakeNs) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(
          std::chrono::nanoseconds(std::clamp<std::int64_t>(silent / 8, 1, kLongestNapNs)));
    }
    if (now - watched < kWatchNs) continue;
    watched = now;
    listen();
    watch(silent_since);
  }
}

void Ranks::watch_process(int other) {
  const RankPlace &there = place(other), &own = place(rank_);
  const bool near = there.machine == own.machine && there.process_room == own.process_room;
  if (near && there.process > 0 && ::kill(there.process, 0) != 0 && errno == ESRCH) {
    listen();  // what it had to say
    hg::fail(name_of(other), "its process {} has ended", there.process);
  }
}

void Ranks::watch_all() {
  for (int r = 0; r < size_; ++r)
    if (r != rank_) watch_process(r);
}

void Ranks::check_silence(std::int64_t silent_since_ns, const std::string& who) const {
  const double silent = seconds_since(silent_since_ns);
  if (silent > timeout_s_)
    hg::fail("ranks", "no answer for {:.0f} s from {}; run.rank_timeout allows that long", silent,
             who);
}

// Throws if another rank has told of a failure.
void Ranks::listen() {
  int from = 0;
  std::string text;
  if (!transport_->heard(from, text)) return;
  throw OtherRankFailed(fmt::format("{} failed", name_of(from)), Unpacker(text).value<int>());
}

// Where several fail at once, the lowest rank tells the user.
bool Ranks::fail(int code) {
  if (alone()) return true;
  Packer p;
  p.value(code);
  transport_->cry(p.all());
  if (link_) link_->give_up();
  const std::int64_t start = now_ns();
  bool mine = true;
  while (seconds_since(start) < (first() ? kTellS / 5 : kTellS)) {
    transport_->open();
    int from = 0;
    std::string text;
    if (transport_->heard(from, text)) mine = mine && from > rank_;
    std::this_thread::sleep_for(std::chrono::nanoseconds(kListenNs));
  }
  return mine;
}

void Ranks::finish() {
  if (link_) {
    link_->finish();
    await_devices([this] { return link_->settled() ? 0 : 1; });
  }
  if (transport_) transport_->finish();
}

namespace {
Ranks& nobody_else() {
  static Ranks alone;
  return alone;
}
Ranks* current = nullptr;
}  // namespace

Ranks& ranks() { return current ? *current : nobody_else(); }

RanksScope::RanksScope(Ranks& ranks) : before_(current) { current = &ranks; }
RanksScope::~RanksScope() { current = before_; }

}  // namespace hg
