// Labels and hooks around run(): phases, scopes, observers.
#include "tensor/observer.h"

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include "autograd/tape.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/softmax.h"
#include "tensor/ops/unary.h"
#include "tensor/run.h"

using namespace hg;

namespace {

// Writes "begin add forward blocks.0" and so on into a log.
class Logger final : public Observer {
 public:
  explicit Logger(std::vector<std::string>& log, std::string prefix = "")
      : log_(log), prefix_(std::move(prefix)) {}
  void op_begin(const OpCall& call) override { write("begin", call); }
  void op_end(const OpCall& call) override { write("end", call); }

 private:
  void write(const char* what, const OpCall& call) {
    log_.push_back(fmt::format("{}{} {} {} {}", prefix_, what, call.op.name(),
                               to_string(call.phase), call.scope->path));
  }
  std::vector<std::string>& log_;
  std::string prefix_;
};

class Failing final : public NonDifferentiable<Failing> {
 public:
  static constexpr std::string_view kNotDifferentiable = "it only fails";
  std::string_view name() const override { return "failing"; }
  TensorSpecs infer(In in) const override { return {in[0].spec()}; }
  CostParts cost(In, In) const override { return Cost{}; }
  void cpu(In, Out) const override { fail(name(), "as it should"); }
};

using Log = std::vector<std::string>;

}  // namespace

TEST_CASE("scopes nest into paths of one pointer each") {
  CHECK(current_scope()->path == "");
  const ScopePath* root = current_scope();
  const ScopePath* attn = nullptr;
  {
    const Scope blocks("blocks");
    const Scope third("3");
    CHECK(current_scope()->path == "blocks.3");
    {
      const Scope inner("attn");
      attn = current_scope();
      CHECK(attn->path == "blocks.3.attn");
    }
    CHECK(current_scope()->path == "blocks.3");
    const Scope again("attn");
    CHECK(current_scope() == attn);
  }
  CHECK(current_scope() == root);
  const Scope reopened(attn);
  CHECK(current_scope() == attn);
  const Scope below("q");
  CHECK(current_scope()->path == "blocks.3.attn.q");
}

TEST_CASE("a dotted or empty name gives the pointer of the same path") {
  const ScopePath* stepwise = nullptr;
  {
    const Scope a("dotted"), b("3"), c("mlp");
    stepwise = current_scope();
  }
  const ScopePath* root = current_scope();
  {
    const Scope whole("dotted.3.mlp");
    CHECK(current_scope() == stepwise);
    const Scope nothing("");
    CHECK(current_scope() == stepwise);
  }
  const Scope nothing("");
  CHECK(current_scope() == root);
}

TEST_CASE("labels belong to the thread and paths to the process") {
  const Scope scope("shared");
  const PhaseScope phase(Phase::optimizer);
  const ScopePath* theirs = nullptr;
  std::thread([&] {
    CHECK(current_phase() == Phase::forward);
    CHECK(current_scope()->path == "");
    const Scope same("shared");
    theirs = current_scope();
  }).join();
  CHECK(theirs == current_scope());
  CHECK(current_phase() == Phase::optimizer);
}

TEST_CASE("phases nest and have names") {
  CHECK(current_phase() == Phase::forward);
  {
    const PhaseScope outer(Phase::eval);
    {
      const PhaseScope inner(Phase::data);
      CHECK(current_phase() == Phase::data);
    }
    CHECK(current_phase() == Phase::eval);
  }
  CHECK(current_phase() == Phase::forward);
  CHECK(to_string(Phase::backward) == "backward");
  CHECK(to_string(Phase::optimizer) == "optimizer");
}

TEST_CASE("an observer sees begin and end of each op once and in order") {
  const Tensor x = Tensor::full({4}, 2);
  Log log;
  Logger logger(log);
  {
    const ObserverGuard guard(logger);
    const Scope scope("head");
    tanh(x);
    const PhaseScope phase(Phase::eval);
    const Scope inner("norm");
    add(x, x);
  }
  softmax(x);
  CHECK(log == Log{"begin tanh forward head", "end tanh forward head", "begin add eval head.norm",
                   "end add eval head.norm"});
}

TEST_CASE("an observer sees the inputs and at the end the written outputs") {
  class Watcher final : public Observer {
   public:
    void op_end(const OpCall& call) override {
      CHECK(call.in.size() == 2);
      CHECK(call.out.size() == 1);
      CHECK(call.out[0].to_vector<float>() == std::vector<float>{5});
      CHECK(call.op.cost(call.in, call.out).total().flops() == 1);
      ++calls;
    }
    int calls = 0;
  } watcher;
  const ObserverGuard guard(watcher);
  add(Tensor::full({1}, 2), Tensor::full({1}, 3));
  CHECK(watcher.calls == 1);
}

TEST_CASE("nested observers both see every op") {
  const Tensor x = Tensor::full({4}, 2);
  Log log;
  Logger outer(log, "outer "), inner(log, "inner ");
  const ObserverGuard outer_guard(outer);
  {
    const ObserverGuard inner_guard(inner);
    tanh(x);
  }
  CHECK(log.size() == 4);
  CHECK(std::count(log.begin(), log.end(), "inner begin tanh forward ") == 1);
  CHECK(std::count(log.begin(), log.end(), "outer begin tanh forward ") == 1);
  log.clear();
  tanh(x);
  CHECK(log == Log{"outer begin tanh forward ", "outer end tanh forward "});
}

TEST_CASE("refused ops are not observed and failed ones not ended") {
  const Tensor x = Tensor::full({4}, 2);
  Log log;
  Logger logger(log);
  const ObserverGuard guard(logger);
  CHECK_THROWS_AS(softmax(x, 1), Error);
  CHECK_THROWS_AS(add(x, Tensor()), Error);
  CHECK(log.empty());
  CHECK_THROWS_WITH_AS(run(Failing(), {x}), "failing: as it should", Error);
  CHECK(log == Log{"begin failing forward "});
}

TEST_CASE("backward reopens the scope of each forward op") {
  const Tensor w = Tensor::full({3}, 0.5);
  Log log;
  Logger logger(log);
  Tape tape;
  tape.watch(w);
  Tensor y;
  {
    const Scope blocks("blocks.0");
    const Tensor h = tanh(w);
    const Scope attn("attn");
    y = softmax(h);
  }
  const ObserverGuard guard(logger);
  const PhaseScope phase(Phase::eval);
  const Scope elsewhere("elsewhere");
  tape.backward({&y, 1}, {&w, 1});
  CHECK(log == Log{"begin softmax_backward backward blocks.0.attn",
                   "end softmax_backward backward blocks.0.attn",
                   "begin tanh_backward backward blocks.0", "end tanh_backward backward blocks.0"});
  CHECK(current_phase() == Phase::eval);
  CHECK(current_scope()->path == "elsewhere");
}
