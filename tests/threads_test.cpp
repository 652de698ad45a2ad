// Several threads, each with its own tape, labels and random stream, on shared parameters. Runs
// under the thread sanitizer as well.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "autograd/tape.h"
#include "tensor/cpu/parallel.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/concat.h"
#include "tensor/ops/permute.h"
#include "tensor/ops/softmax.h"
#include "tensor/ops/unary.h"
#include "tensor/ops/view.h"
#include "tensor/random.h"

using namespace hg;

namespace {

constexpr int kThreads = 4, kSteps = 30;
const Shape kShape{17, 33};

struct Parameters {
  Tensor weight = Tensor::empty(kShape), bias = Tensor::empty(kShape);
  Parameters() {
    RandomStream stream(1, "parameters");
    fill_uniform(weight, stream, -1, 1);
    fill_uniform(bias, stream, -1, 1);
  }
};

struct Step {
  Tensor out, weight_grad, bias_grad;
};

Step train_step(const Parameters& p, RandomStream& stream) {
  const Tensor x = Tensor::empty(kShape);
  fill_normal(x, stream, 0, 1);
  Tape tape;
  tape.watch(p.weight);
  tape.watch(p.bias);
  const Tensor h = tanh(add(mul(p.weight, x), p.bias));
  const Tensor turned = contiguous(transpose(softmax(h, 0)));  // [33,17]
  const Tensors parts = split(reshape(turned, kShape), {10, 7}, 0);
  const Tensor y = mul(concat({parts[1], parts[0]}, 0), gelu(h));
  const Gradients grads = tape.backward(In(&y, 1), In(&x, 1));
  return {y, grads[p.weight], grads[p.bias]};
}

std::string worker_name(int worker) { return "worker" + std::to_string(worker); }

// The bits of all results of one worker, one vector per step.
using Results = std::vector<std::vector<float>>;

std::vector<float> bits_of(const Step& step) {
  std::vector<float> all;
  for (const Tensor& t : {step.out, step.weight_grad, step.bias_grad})
    for (const float v : t.to_vector<float>()) all.push_back(v);
  return all;
}

template <class AfterStep>
Results work(const Parameters& p, int worker, int steps, AfterStep after_step) {
  const cpu::ThreadLimit limit(1);
  const Scope scope(worker_name(worker));
  const PhaseScope phase(worker % 2 == 0 ? Phase::forward : Phase::eval);
  RandomStream stream(7, worker_name(worker));
  Results results;
  for (int i = 0; i < steps; ++i) {
    Step step = train_step(p, stream);
    results.push_back(bits_of(step));
    after_step(std::move(step));
  }
  return results;
}

template <class Work>
void in_parallel(Work body) {
  std::vector<std::thread> threads;
  for (int worker = 0; worker < kThreads; ++worker) threads.emplace_back([=] { body(worker); });
  for (std::thread& t : threads) t.join();
}

// Counts calls, and those that carry labels of another thread.
class Counter final : public Observer {
 public:
  void op_begin(const OpCall& call) override {
    begins.fetch_add(1, std::memory_order_relaxed);
    if (call.scope != current_scope() || call.phase != current_phase()) ++strange;
    const std::lock_guard lock(mutex);
    ++calls_by_path[call.scope->path];
  }
  void op_end(const OpCall&) override { ends.fetch_add(1, std::memory_order_relaxed); }

  std::atomic<int> begins{0}, ends{0}, strange{0};
  std::mutex mutex;
  std::map<std::string, int> calls_by_path;
};

// Where threads leave tensors for others to free.
class Exchange {
 public:
  Tensor swap(std::size_t slot, Tensor t) {
    const std::lock_guard lock(mutex_);
    std::swap(slots_[slot % slots_.size()], t);
    return t;
  }

 private:
  std::mutex mutex_;
  std::array<Tensor, 7> slots_;
};

}  // namespace

TEST_CASE("threads with tapes of their own get the bits of one thread alone") {
  const Parameters parameters;
  const auto nothing = [](Step) {};
  std::array<Results, kThreads> alone, together;
  Counter one, many;
  {
    const ObserverGuard guard(one);
    for (int w = 0; w < kThreads; ++w)
      alone[static_cast<std::size_t>(w)] = work(parameters, w, kSteps, nothing);
  }
  {
    const ObserverGuard guard(many);
    in_parallel([&](int w) {
      together[static_cast<std::size_t>(w)] = work(parameters, w, kSteps, nothing);
    });
  }
  CHECK(alone[0] != alone[1]);
  for (std::size_t w = 0; w < kThreads; ++w) {
    INFO("worker " << w);
    CHECK(together[w] == alone[w]);
  }
  CHECK(many.begins > 0);
  CHECK(many.begins == one.begins);
  CHECK(many.ends == one.begins);
  CHECK(many.strange == 0);
  CHECK(many.calls_by_path == one.calls_by_path);
  CHECK(many.calls_by_path.size() == kThreads);
}

TEST_CASE("tensors made by one thread are freed by others") {
  const Parameters parameters;
  const std::uint64_t before = allocator::stats().bytes_in_use;
  {
    Exchange exchange;
    std::atomic<int> foreign{0};
    in_parallel([&](int w) {
      std::size_t slot = static_cast<std::size_t>(w);
      const auto give_away = [&](Step step) {
        for (Tensor t : {step.out, step.weight_grad, step.bias_grad})
          if (exchange.swap(slot++, std::move(t)).defined()) ++foreign;
        step = {};
      };
      work(parameters, w, kSteps, give_away);
    });
    CHECK(foreign == kThreads * kSteps * 3 - 7);
  }
  CHECK(allocator::stats().bytes_in_use == before);
}

TEST_CASE("tensors of different threads never share an id") {
  std::mutex mutex;
  std::set<std::uint64_t> ids;
  in_parallel([&](int) {
    std::vector<std::uint64_t> mine;
    for (int i = 0; i < 3000; ++i) mine.push_back(Tensor::empty({}).id());
    const std::lock_guard lock(mutex);
    ids.insert(mine.begin(), mine.end());
  });
  CHECK(ids.size() == 3000 * kThreads);
}

TEST_CASE("new threads take over the arenas of those that ended") {
  const Parameters parameters;
  std::barrier all_alive(kThreads);  // so that each has an arena of its own
  const auto generation = [&](int w) {
    const Tensor first = Tensor::empty({1});
    all_alive.arrive_and_wait();
    work(parameters, w, 3, [](Step) {});
    all_alive.arrive_and_wait();
  };
  in_parallel(generation);
  const std::uint64_t calls = allocator::stats().system_calls;
  for (int again = 0; again < 5; ++again) in_parallel(generation);
  CHECK(allocator::stats().system_calls == calls);
}

TEST_CASE("the cache can be released while other threads allocate") {
  const Parameters parameters;
  std::array<Results, kThreads> together;
  in_parallel([&](int w) {
    together[static_cast<std::size_t>(w)] = work(parameters, w, 10, [w](Step) {
      if (w == 0) allocator::release_cached();
    });
  });
  for (int w = 0; w < kThreads; ++w)
    CHECK(together[static_cast<std::size_t>(w)] == work(parameters, w, 10, [](Step) {}));
}

TEST_CASE("threads intern the same path to one pointer") {
  std::array<const ScopePath*, kThreads> paths{};
  in_parallel([&](int w) {
    for (int i = 0; i < 50; ++i) {
      const Scope scope("interned." + std::to_string(i));
      const Scope inner("mlp");
      if (i == 49) paths[static_cast<std::size_t>(w)] = current_scope();
    }
  });
  CHECK(paths[0]->path == "interned.49.mlp");
  for (const ScopePath* path : paths) CHECK(path == paths[0]);
}
