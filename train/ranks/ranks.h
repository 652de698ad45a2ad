// The processes of a run. Started by mpirun or srun, a run has several, its ranks, which work on
// one batch together; else there is one, which is alone. Operations are for all ranks: each calls
// the same ones in the same order.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tensor/base/error.h"
#include "tensor/base/no_copy.h"
#include "train/ranks/device_link.h"
#include "train/ranks/transport.h"

namespace hg {

// Where a rank runs.
struct RankPlace {
  std::string host;          // its name
  std::string machine;       // the same for all that share a kernel, containers included
  std::string process_room;  // of process numbers
  int process = 0;
  std::string cpus;  // that it may run on

  bool same_host(const RankPlace& other) const {
    return host == other.host && machine == other.machine;
  }
};
RankPlace this_place();

// Another rank has failed, which tells why itself.
class OtherRankFailed : public Error {
 public:
  OtherRankFailed(const std::string& what, int code) : Error(what), code(code) {}
  const int code;  // its exit code
};

class Ranks : NoCopy {
 public:
  Ranks();  // alone
  // With the transport's others, `place` being where this one runs.
  Ranks(std::unique_ptr<Transport> transport, RankPlace place);
  // Its group of so many consecutive ranks of all, which are cut into such groups. Where a group is
  // at work, all its ranks are, and `all` is not used.
  Ranks(Ranks& all, int group_size);
  ~Ranks();

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool first() const { return rank_ == 0; }
  bool alone() const { return size_ == 1; }

  const RankPlace& place(int rank) const { return places_[static_cast<std::size_t>(rank)]; }
  std::string name_of(int rank) const;  // "rank 2 (host b)"
  int hosts() const;
  int here() const;           // ranks on this machine, those of other groups, too
  int place_here() const;     // among them
  bool reads_meters() const;  // the first of this machine does, for all of them
  // Worker threads of each rank where none are asked for: the CPUs that the machine's ranks may
  // run on, shared.
  int threads() const;

  // How long another rank may be silent while this one waits for it.
  void set_timeout(double seconds) { timeout_s_ = seconds; }
  // Told when an operation begins, and what it took. `bytes` are those that this rank sent.
  enum class Work { wait, exchange };
  struct OnWork {
    std::function<void()> begins;
    std::function<void(Work, std::int64_t start_ns, std::int64_t end_ns, std::uint64_t bytes)> ends;
  };
  void on_work(OnWork on_work) { on_work_ = std::move(on_work); }

  // Of every rank, in their order.
  std::vector<std::string> gather(std::string_view own);
  template <class T>
  requires(!std::is_convertible_v<T, std::string_view>) std::vector<T> gather(
      const T& own);  // of a fixed size
  template <class T>
  T sum(T own) {
    T sum{};
    for (const T& each : gather(own)) sum += each;
    return sum;
  }
  bool any(bool own) { return sum<int>(own) > 0; }
  // As gather(), but for rank 0 alone; the others get nothing.
  std::vector<std::string> collect(std::string_view own);
  std::string broadcast(std::string text);  // that of rank 0

  // Sends and receives all of these.
  struct Sent {
    int to;
    const void* data;
    std::size_t bytes;
  };
  struct Received {
    int from;
    void* data;
    std::size_t bytes;
  };
  void swap(std::span<const Sent> sent, std::span<const Received> received, Work work);

  // Between the ranks' GPUs; null: they have none.
  void link_devices(std::unique_ptr<DeviceLink> link) { link_ = std::move(link); }
  DeviceLink* devices() const { return link_.get(); }
  // Calls body(), which has to do with all ranks' devices. Where it fails because another rank has,
  // that rank knows better why: throws what it tells.
  void with_devices(const std::function<void()>& body);
  // Until open() is 0, which is asked again and again: how much of what these devices do with each
  // other is still under way. A change is progress.
  void await_devices(const std::function<std::size_t()>& open);
  // The same, as an exchange in which this rank has sent so many bytes.
  void await_exchange(const std::function<std::size_t()>& open, std::uint64_t bytes);

  // Tells the others that this rank has failed, unless it failed because one of them did. Whether
  // this rank is the one to tell the user.
  bool fail(int code);
  void finish();  // all ranks are done

 private:
  void await(const std::function<std::size_t()>& open,
             const std::function<void(std::int64_t silent_since_ns)>& watch);
  void watch_process(int other);
  void watch_all();
  void check_silence(std::int64_t silent_since_ns, const std::string& who) const;
  void listen();

  const Ranks* const all_ = nullptr;  // that this is a group of
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<DeviceLink> link_;
  const int rank_ = 0, size_ = 1;
  std::vector<RankPlace> places_;
  double timeout_s_ = 60;
  OnWork on_work_;
};

template <class T>
requires(!std::is_convertible_v<T, std::string_view>) std::vector<T> Ranks::gather(const T& own) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<std::size_t>(size_), own);
  std::vector<Sent> sent;
  std::vector<Received> received;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    sent.push_back({r, &own, sizeof own});
    received.push_back({r, &all[static_cast<std::size_t>(r)], sizeof own});
  }
  swap(sent, received, Work::wait);
  return all;
}

// Those of this process: alone, unless a RanksScope says otherwise.
Ranks& ranks();
class RanksScope : NoCopy {
 public:
  explicit RanksScope(Ranks& ranks);
  ~RanksScope();

 private:
  Ranks* const before_;
};

// [first, end) of n things for each of so many to take, in order.
struct Share {
  std::int64_t first = 0, end = 0;
};
inline Share share_of(std::int64_t n, int rank, int size) {
  return {n * rank / size, n * (rank + 1) / size};
}

}  // namespace hg
