// NCCL between processes with emulated devices: floats go through sockets when the stream's turn
// comes. Calls take effect only as someone asks for it again. What is wrong on either side is
// reported in a line: calls outside of a group or before the last one has taken effect, memory that
// is not the device's, other counts on both sides, messages that nobody receives. HG_EMU_NCCL_LOG
// names a file that gets a line for each group, with how much ops had been given to do until then,
// and one for the end; a group takes HG_EMU_NCCL_MS.
#include <fcntl.h>
#include <fmt/format.h>
#include <nccl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tests/cuda_emu/memory.h"
#include "tests/cuda_emu/queue.h"

namespace {

using hg::emu::DeviceAccess;
using hg::emu::Fault;

constexpr std::size_t kHeader = sizeof(std::uint64_t);  // of a message: its count of floats

// A message on its way, through a socket that does not wait. At most so many bytes at a time.
struct Message {
  int peer;
  char* data;
  std::uint64_t count, theirs = 0;
  std::size_t done = 0;
  std::size_t bytes() const { return kHeader + count * sizeof(float); }
};

}  // namespace

struct ncclComm {
  int rank, size, listener = -1;
  std::string name;
  std::vector<int> peers;  // sockets; -1: not connected yet
  ncclResult_t state = ncclSuccess;
  std::function<bool()> effect;  // of the call in progress; false: not yet
  int asked = 0;                 // for it
  bool given_up = false;

  ~ncclComm() {
    for (const int peer : peers)
      if (peer >= 0) ::close(peer);
    if (listener >= 0) ::close(listener);
  }
};

namespace {

using Clock = std::chrono::steady_clock;

struct Group {
  std::deque<Message> sent, received;
  std::shared_ptr<ncclComm> comm;
  cudaStream_t stream = nullptr;
  std::optional<Clock::time_point> start;  // of its turn
};
struct State {
  bool open = false;
  Group group;
  std::shared_ptr<ncclComm> comm;  // a process has one
};
State& state() {
  static State& all = *new State;
  return all;
}

sockaddr_un address_of(const std::string& name, int rank, socklen_t& length) {
  const std::string path = fmt::format("{}.{}", name, rank);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path + 1, sizeof address.sun_path - 1);  // of no file
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + path.size());
  return address;
}

int new_socket() { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

// Ranks call those before them, and say who they are.
void connect_more(ncclComm& comm) {
  for (int r = 0; r < comm.rank; ++r) {
    if (comm.peers[static_cast<std::size_t>(r)] >= 0) continue;
    socklen_t length = 0;
    const sockaddr_un address = address_of(comm.name, r, length);
    const int to = new_socket();
    if (::connect(to, reinterpret_cast<const sockaddr*>(&address), length) != 0) {
      ::close(to);
      return;
    }
    if (::send(to, &comm.rank, sizeof comm.rank, MSG_NOSIGNAL) != sizeof comm.rank)
      throw Fault("ncclCommInitRank: a peer hung up");
    comm.peers[static_cast<std::size_t>(r)] = to;
  }
  for (int from; (from = ::accept4(comm.listener, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
    int rank = -1;
    if (::recv(from, &rank, sizeof rank, MSG_WAITALL) != sizeof rank || rank <= comm.rank ||
        rank >= comm.size || comm.peers[static_cast<std::size_t>(rank)] >= 0)
      throw Fault("ncclCommInitRank: two ranks have the same number");
    ::fcntl(from, F_SETFL, O_NONBLOCK);
    comm.peers[static_cast<std::size_t>(rank)] = from;
  }
}

bool connected(const ncclComm& comm) {
  for (int r = 0; r < comm.size; ++r)
    if (r != comm.rank && comm.peers[static_cast<std::size_t>(r)] < 0) return false;
  return true;
}

// Moves what can be moved; false: the other side has gone.
bool move(ncclComm& comm, Message& m, bool sends) {
  const int peer = comm.peers[static_cast<std::size_t>(m.peer)];
  const char* const who = sends ? "ncclSend" : "ncclRecv";
  hg::emu::expect_device_range(who, m.data, m.bytes() - kHeader);
  if (sends && m.done == 0) hg::emu::host_reads(who, m.data, m.bytes() - kHeader);
  while (m.done < m.bytes()) {
    const bool header = m.done < kHeader;
    char* const at = header ? reinterpret_cast<char*>(sends ? &m.count : &m.theirs) + m.done
                            : m.data + (m.done - kHeader);
    const std::size_t rest = (header ? kHeader : m.bytes()) - m.done;
    const ssize_t n = sends ? ::send(peer, at, rest, MSG_NOSIGNAL) : ::recv(peer, at, rest, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (n < 0) return true;
    m.done += static_cast<std::size_t>(n);
    if (!sends && m.done == kHeader && m.theirs != m.count)
      throw Fault(fmt::format("ncclRecv: rank {} sends {} floats, rank {} expects {}", m.peer,
                              m.theirs, comm.rank, m.count));
  }
  if (!sends) hg::emu::host_wrote(m.data, m.bytes() - kHeader);
  return true;
}

// Of two messages with a peer, the first goes first.
void move_all(ncclComm& comm, std::deque<Message>& messages, bool sends) {
  std::vector<bool> busy(static_cast<std::size_t>(comm.size));
  for (Message& m : messages) {
    if (busy[static_cast<std::size_t>(m.peer)]) continue;
    if (!move(comm, m, sends)) comm.state = ncclRemoteError;
    busy[static_cast<std::size_t>(m.peer)] = m.done < m.bytes();
  }
  std::erase_if(messages, [](const Message& m) { return m.done == m.bytes(); });
}

bool is_fault(ncclResult_t state) { return state != ncclSuccess && state != ncclInProgress; }

std::chrono::milliseconds least_time() {
  const char* const ms = std::getenv("HG_EMU_NCCL_MS");
  return std::chrono::milliseconds(ms ? std::atoi(ms) : 0);
}

// Whether the group's turn on the stream is over.
bool advance(Group& group) {
  ncclComm& comm = *group.comm;
  if (comm.given_up) return true;
  if (is_fault(comm.state)) return false;
  if (!group.start) group.start = Clock::now();
  if (Clock::now() - *group.start < least_time()) return false;
  const DeviceAccess open;
  move_all(comm, group.sent, true);
  move_all(comm, group.received, false);
  return group.sent.empty() && group.received.empty();
}

void expect_message(const char* who, const void* p, std::size_t count, ncclDataType_t type,
                    int peer, ncclComm_t comm, cudaStream_t stream) {
  const State& s = state();
  if (!s.open) throw Fault(fmt::format("{}: outside of a group", who));
  if (type != ncclFloat32) throw Fault(fmt::format("{}: of another type than floats", who));
  if (comm == nullptr || comm != s.comm.get())
    throw Fault(fmt::format("{}: the ranks are not connected", who));
  if (peer < 0 || peer >= comm->size || peer == comm->rank)
    throw Fault(fmt::format("{}: rank {} of {} has no peer {}", who, comm->rank, comm->size, peer));
  if (s.group.stream && s.group.stream != stream)
    throw Fault(fmt::format("{}: on another stream than the group's", who));
  hg::emu::expect_device_range(who, p, count * sizeof(float));
}

void log(const ncclComm& comm, const std::string& line) {
  const char* const path = std::getenv("HG_EMU_NCCL_LOG");
  if (!path || comm.rank != 0) return;
  if (std::FILE* const file = std::fopen(path, "a")) {
    fmt::print(file, "{}\n", line);
    std::fclose(file);
  }
}

ncclResult_t begin(ncclComm& comm, const char* who, std::function<bool()> effect) {
  if (is_fault(comm.state)) return comm.state;
  if (comm.state == ncclInProgress)
    throw Fault(fmt::format("{}: before the last call has taken effect", who));
  comm.effect = std::move(effect);
  comm.asked = 0;
  return comm.state = ncclInProgress;
}

void expect_all_received(const ncclComm& comm) {
  for (int r = 0; r < comm.size; ++r) {
    char byte;
    const int peer = comm.peers[static_cast<std::size_t>(r)];
    if (peer >= 0 && ::recv(peer, &byte, 1, MSG_PEEK) > 0)
      throw Fault(fmt::format("ncclCommFinalize: rank {} has not received a message of rank {}",
                              comm.rank, r));
  }
}

ncclResult_t end(ncclComm_t comm, const char* how) {
  if (comm == nullptr || comm != state().comm.get()) return ncclInvalidArgument;
  log(*comm, how);
  state().comm.reset();
  return ncclSuccess;
}

}  // namespace

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited or there was a network error"
                                   : "unhandled error";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = {};
  fmt::format_to_n(id->internal, sizeof id->internal - 1, "hg-emu-nccl-{}", ::getpid());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->magic != 0xcafebeef || rank < 0 || rank >= size) return ncclInvalidArgument;
  if (config->blocking != 0) throw Fault("ncclCommInitRank: blocks, and nobody looks after peers");
  if (state().comm) throw Fault("ncclCommInitRank: again");
  auto made = std::make_shared<ncclComm>();
  made->rank = rank;
  made->size = size;
  made->name = id.internal;
  made->peers.assign(static_cast<std::size_t>(size), -1);
  made->listener = new_socket();
  socklen_t length = 0;
  const sockaddr_un address = address_of(made->name, rank, length);
  if (::bind(made->listener, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(made->listener, size) != 0)
    return ncclSystemError;
  *comm = made.get();
  state().comm = std::move(made);
  return begin(**comm, "ncclCommInitRank", [&all = **comm] {
    connect_more(all);
    return connected(all);
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  if (comm == nullptr || comm != state().comm.get()) return ncclInvalidArgument;
  if (comm->state == ncclInProgress && ++comm->asked > 1 && comm->effect()) {
    comm->state = ncclSuccess;
    comm->effect = nullptr;
  }
  *result = comm->state;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return begin(*comm, "ncclCommFinalize", [comm] {
    expect_all_received(*comm);
    return true;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm->state == ncclInProgress)
    throw Fault("ncclCommDestroy: before the last call has taken effect");
  return end(comm, "destroyed");
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->given_up = true;
  return end(comm, "aborted");
}

ncclResult_t ncclGroupStart() {
  if (std::exchange(state().open, true)) throw Fault("ncclGroupStart: in a group");
  state().group = {};
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (!std::exchange(state().open, false)) throw Fault("ncclGroupEnd: there is no group");
  Group& group = state().group;
  if (!group.stream) return ncclSuccess;
  group.comm = state().comm;
  log(*group.comm, fmt::format("group {}", hg::emu::launches()));
  const auto shared = std::make_shared<Group>(std::move(group));
  if (!hg::emu::is_late(shared->stream)) throw Fault("ncclGroupEnd: on the stream of the ops");
  return begin(*shared->comm, "ncclGroupEnd", [shared] {
    hg::emu::put_off(shared->stream, [shared] { return advance(*shared); });
    return true;
  });
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  expect_message("ncclSend", from, count, type, peer, comm, stream);
  if (is_fault(comm->state)) return comm->state;
  state().group.stream = stream;
  state().group.sent.push_back(
      {peer, const_cast<char*>(static_cast<const char*>(from)), count, 0, 0});
  return ncclSuccess;
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  expect_message("ncclRecv", to, count, type, peer, comm, stream);
  if (is_fault(comm->state)) return comm->state;
  state().group.stream = stream;
  state().group.received.push_back({peer, static_cast<char*>(to), count, 0, 0});
  return ncclSuccess;
}
