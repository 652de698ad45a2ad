// Ranks that are threads of this process, and messages that are strings.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "train/ranks/ranks.h"

namespace hg::testing {

struct Mail {
  std::mutex mutex;
  std::map<std::pair<int, int>, std::deque<std::string>> messages;  // (from, to)
  std::map<int, std::deque<std::pair<int, std::string>>> cries;     // to -> (from, text)
};

class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<Mail> mail, int rank, int size)
      : mail_(std::move(mail)), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void send(int to, const void* data, std::size_t bytes) override {
    const std::lock_guard lock(mail_->mutex);
    mail_->messages[{rank_, to}].emplace_back(static_cast<const char*>(data), bytes);
  }
  void receive(int from, void* data, std::size_t bytes) override {
    waiting_.push_back({from, data, bytes});
  }
  std::size_t open() override {
    const std::lock_guard lock(mail_->mutex);
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      auto& queue = mail_->messages[{at->from, rank_}];
      if (queue.empty()) {
        ++at;
        continue;
      }
      if (queue.front().size() != at->bytes) throw std::runtime_error("another length");
      std::copy(queue.front().begin(), queue.front().end(), static_cast<char*>(at->data));
      queue.pop_front();
      at = waiting_.erase(at);
    }
    return waiting_.size();
  }
  int awaited() const override { return waiting_.empty() ? rank_ : waiting_[0].from; }
  void cry(const std::string& text) override {
    const std::lock_guard lock(mail_->mutex);
    for (int to = 0; to < size_; ++to)
      if (to != rank_) mail_->cries[to].emplace_back(rank_, text);
  }
  bool heard(int& from, std::string& text) override {
    const std::lock_guard lock(mail_->mutex);
    auto& queue = mail_->cries[rank_];
    if (queue.empty()) return false;
    std::tie(from, text) = queue.front();
    queue.pop_front();
    return true;
  }
  void finish() override {}

 private:
  struct Waiting {
    int from;
    void* data;
    std::size_t bytes;
  };
  const std::shared_ptr<Mail> mail_;
  const int rank_, size_;
  std::vector<Waiting> waiting_;
};

// A machine for each letter, and no process that could have ended.
inline RankPlace place_of(char machine) {
  RankPlace place;
  place.host = place.machine = std::string(1, machine);
  return place;
}

// body(ranks) on each of them; one on each of these machines.
template <class Body>
void on_local_ranks(const std::string& machines, const Body& body) {
  const auto mail = std::make_shared<Mail>();
  const int size = static_cast<int>(machines.size());
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      Ranks ranks(std::make_unique<LocalTransport>(mail, r, size),
                  place_of(machines[static_cast<std::size_t>(r)]));
      body(ranks);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace hg::testing
