// Ranks over MPI: the module that is loaded under mpirun or srun. Nothing else knows MPI.
#include <mpi.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "train/ranks/transport.h"

namespace hg {
namespace {

constexpr int kMessage = 1, kCry = 2;                     // tags
constexpr std::size_t kMostBytes = std::size_t{1} << 22;  // of a part: its arrival shows progress

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw std::runtime_error(std::string("MPI: ") + what + ": " + std::string(text, length));
}

class MpiTransport final : public Transport {
 public:
  MpiTransport() {
    int given = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given), "cannot start");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void send(int to, const void* data, std::size_t bytes) override {
    in_parts(bytes, [&](std::size_t begin, int part) {
      check(MPI_Isend(static_cast<const char*>(data) + begin, part, MPI_BYTE, to, kMessage,
                      MPI_COMM_WORLD, &begin_request(to)),
            "cannot send");
    });
  }
  void receive(int from, void* data, std::size_t bytes) override {
    in_parts(bytes, [&](std::size_t begin, int part) {
      check(MPI_Irecv(static_cast<char*>(data) + begin, part, MPI_BYTE, from, kMessage,
                      MPI_COMM_WORLD, &begin_request(from)),
            "cannot receive");
    });
  }

  std::size_t open() override {
    if (requests_.empty()) return 0;
    done_.resize(requests_.size());
    int count = 0;
    check(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, done_.data(),
                       MPI_STATUSES_IGNORE),
          "a message failed");
    if (count > 0) {
      std::size_t kept = 0;
      for (std::size_t i = 0; i < requests_.size(); ++i)
        if (requests_[i] != MPI_REQUEST_NULL) {
          requests_[kept] = requests_[i];
          peers_[kept++] = peers_[i];
        }
      requests_.resize(kept);
      peers_.resize(kept);
    }
    return requests_.size();
  }
  int awaited() const override { return peers_.empty() ? rank_ : peers_[0]; }

  void cry(const std::string& text) override {
    cry_ = text;
    for (int to = 0; to < size_; ++to) {
      MPI_Request request;
      if (to != rank_)
        MPI_Isend(cry_.data(), static_cast<int>(cry_.size()), MPI_CHAR, to, kCry, MPI_COMM_WORLD,
                  &request);
    }
  }
  bool heard(int& from, std::string& text) override {
    int there = 0;
    MPI_Status status;
    check(MPI_Iprobe(MPI_ANY_SOURCE, kCry, MPI_COMM_WORLD, &there, &status), "cannot look");
    if (!there) return false;
    int length = 0;
    MPI_Get_count(&status, MPI_CHAR, &length);
    text.resize(static_cast<std::size_t>(length));
    from = status.MPI_SOURCE;
    check(MPI_Recv(text.data(), length, MPI_CHAR, from, kCry, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
          "cannot receive");
    return true;
  }

  void finish() override { MPI_Finalize(); }

 private:
  template <class Part>
  static void in_parts(std::size_t bytes, const Part& part) {
    for (std::size_t begin = 0; begin < bytes; begin += kMostBytes)
      part(begin, static_cast<int>(std::min(kMostBytes, bytes - begin)));
  }
  MPI_Request& begin_request(int peer) {
    peers_.push_back(peer);
    return requests_.emplace_back(MPI_REQUEST_NULL);
  }

  int rank_ = 0, size_ = 1;
  std::vector<MPI_Request> requests_;
  std::vector<int> peers_;  // [request]
  std::vector<int> done_;
  std::string cry_;
};

}  // namespace
}  // namespace hg

extern "C" hg::Transport* hg_make_transport() { return new hg::MpiTransport; }
