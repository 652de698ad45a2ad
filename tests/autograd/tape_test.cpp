#include "autograd/tape.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "tensor/ops/binary.h"
#include "tensor/ops/concat.h"
#include "tensor/ops/linear.h"
#include "tensor/ops/permute.h"
#include "tensor/ops/softmax.h"
#include "tensor/ops/unary.h"
#include "tensor/ops/view.h"
#include "tensor/run.h"

using namespace hg;

namespace {

using Doubles = std::vector<double>;

Tensor vec(std::initializer_list<double> values) {
  return Tensor::of<double>({static_cast<std::int64_t>(values.size())}, values);
}
Tensor ones(const Tensor& like) { return Tensor::full(like.shape(), 1, like.dtype()); }
Gradients backward(Tape& tape, const Tensor& y, const Tensor& seed) {
  return tape.backward(In(&y, 1), In(&seed, 1));
}
Doubles values(const Tensor& t) { return t.to_vector<double>(); }

// x += 1 in x's own storage.
class Increment final : public NonDifferentiable<Increment> {
 public:
  static constexpr std::string_view kNotDifferentiable = "it writes in place";
  std::string_view name() const override { return "increment"; }
  TensorSpecs infer(In in) const override {
    TensorSpec spec = in[0].spec();
    spec.alias_of = 0;
    spec.in_place = true;
    return {spec};
  }
  CostParts cost(In in, In out) const override { return elementwise_cost(in, out, count(out[0])); }
  void cpu(In, Out out) const override {
    for (std::int64_t i = 0; i < out[0].numel(); ++i) out[0].data<double>()[i] += 1;
  }
};

// Copies its input; the gradient has the wrong shape, or is missing.
class Misshapen final : public OpOf<Misshapen> {
 public:
  explicit Misshapen(bool missing) : missing(missing) {}
  std::string_view name() const override { return "misshapen"; }
  TensorSpecs infer(In in) const override { return {in[0].spec()}; }
  CostParts cost(In in, In out) const override { return elementwise_cost(in, out, 0); }
  void cpu(In in, Out out) const override {
    std::copy_n(in[0].data<double>(), in[0].numel(), out[0].data<double>());
  }
  Tensors grad(const GradArgs& args) const override {
    return missing ? Tensors{} : Tensors{reshape(args.grad_out[0], {1, -1})};
  }
  const bool missing;
};

}  // namespace

// y = (a b + a) / b: dy/da = (b + 1) / b, dy/db = -a / b^2
TEST_CASE("gradients of a small graph are those computed by hand") {
  const Tensor a = vec({2, -3}), b = vec({4, 0.5});
  Tape tape;
  tape.watch(a);
  tape.watch(b);
  const Tensor y = div(add(mul(a, b), a), b);
  const Gradients grads = backward(tape, y, vec({1, 10}));
  CHECK(values(grads[a]) == Doubles{1.25, 30});
  CHECK(values(grads[b])[0] == doctest::Approx(-2.0 / 16));
  CHECK(values(grads[b])[1] == doctest::Approx(10 * 3 / 0.25));
}

// y = exp(2 x) - x^2: dy/dx = 2 exp(2 x) - 2 x
TEST_CASE("a scalar loss is seeded with one") {
  const Tensor x = Tensor::full({}, 0.5, DType::f64);
  Tape tape;
  tape.watch(x);
  const Tensor loss = sub(exp(scale(x, 2)), square(x));
  const Gradients grads = tape.backward(loss);
  CHECK(grads[x].shape() == Shape{});
  CHECK(grads[x].item<double>() == doctest::Approx(2 * std::exp(1.0) - 1));
}

TEST_CASE("a parameter used several times adds up its gradients") {
  const Tensor w = vec({1, 2, 3});
  Tape tape;
  tape.watch(w);
  const Tensor y = add(mul(w, w), add(scale(w, 5), w));  // 2 w + 6
  CHECK(values(backward(tape, y, ones(y))[w]) == Doubles{8, 10, 12});
}

// y = x w^T, `uses` times: dw = uses (sum of seeds) x
TEST_CASE("a product adds to the gradients of earlier tapes in place, unless others hold them") {
  const Tensor x = Tensor::of<double>({1, 2}, {3, 5}), w = Tensor::of<double>({1, 2}, {1, 1});
  Gradients sums;
  const auto add_tape = [&](int uses) {
    Tape tape;
    tape.watch(w);
    Tensor y = linear(x, w);
    for (int i = 1; i < uses; ++i) y = add(y, linear(x, w));
    tape.backward_into(sums, y);
  };
  add_tape(1);
  const void* const first = sums[w].raw();
  add_tape(1);
  CHECK(values(sums[w]) == Doubles{6, 10});
  CHECK(sums[w].raw() == first);
  add_tape(2);
  CHECK(values(sums[w]) == Doubles{12, 20});
  const Tensor held = sums[w];
  add_tape(1);
  CHECK(values(sums[w]) == Doubles{15, 25});
  CHECK(values(held) == Doubles{12, 20});
}

TEST_CASE("several outputs give the sum of their gradients") {
  const Tensor w = vec({1, 2});
  Tape tape;
  tape.watch(w);
  const Tensors outputs{scale(w, 3), square(w), w};
  const Tensors seeds{vec({1, 1}), vec({1, 10}), vec({100, 100})};
  CHECK(values(tape.backward(outputs, seeds)[w]) == Doubles{3 + 2 + 100, 3 + 40 + 100});
}

TEST_CASE("gradients pass through views and permutations") {
  const Tensor x = Tensor::of<double>({2, 3}, {1, 2, 3, 4, 5, 6});
  Tape tape;
  tape.watch(x);
  const Tensor y = slice(reshape(contiguous(transpose(x)), {6}), 1, 3);  // x[1][0], x[0][1]
  CHECK(values(y) == Doubles{4, 2});
  CHECK(values(backward(tape, y, vec({10, 20}))[x]) == Doubles{0, 20, 0, 10, 0, 0});
}

TEST_CASE("detach stops the gradient") {
  const Tensor w = vec({3});
  Tape tape;
  tape.watch(w);
  const Tensor y = mul(w, w.detach());
  CHECK(values(backward(tape, y, vec({1}))[w]) == Doubles{3});
}

TEST_CASE("nothing is recorded without a tape or under NoRecording") {
  const Tensor w = vec({3});
  CHECK(current_recorder() == nullptr);
  Tape tape;
  tape.watch(w);
  Tensor constant;
  {
    const NoRecording off;
    CHECK_FALSE(recording({w}));
    constant = square(w);
  }
  CHECK(recording({w}));
  CHECK_FALSE(recording({constant}));
  CHECK(tape.size() == 0);
  const Tensor y = mul(w, constant);
  CHECK(tape.size() == 1);
  CHECK(values(backward(tape, y, vec({1}))[w]) == Doubles{9});
}

TEST_CASE("ops on tensors nobody watches are not recorded") {
  const Tensor w = vec({3}), x = vec({5});
  Tape tape;
  tape.watch(w);
  tanh(x);
  CHECK(tape.size() == 0);
  tanh(w);
  CHECK(tape.size() == 1);
}

TEST_CASE("a watched intermediate gets its gradient and passes it on") {
  const Tensor w = vec({2});
  Tape tape;
  tape.watch(w);
  const Tensor h = square(w);
  tape.watch(h);
  const Tensor y = square(h);  // dy/dh = 2 h = 8, dy/dw = 4 w^3 = 32
  const Gradients grads = backward(tape, y, vec({1}));
  CHECK(values(grads[h]) == Doubles{8});
  CHECK(values(grads[w]) == Doubles{32});
  CHECK_FALSE(grads.has(y));
}

TEST_CASE(
    "it is told when a gradient is whole: the last layer's first, and of what none will come") {
  const Tensor first = vec({2}), last = vec({3}), unused = vec({1}), loss_alone = vec({7});
  Tape tape;
  for (const Tensor& w : {first, last, unused, loss_alone}) tape.watch(w);
  const Tensor y = mul(square(mul(vec({5}), first)), last);
  Gradients sums;
  std::vector<std::uint64_t> told;
  const Tensors outputs{y, loss_alone}, seeds{vec({1}), vec({1})};
  tape.backward_into(sums, outputs, seeds, [&](std::uint64_t leaf) {
    told.push_back(leaf);
    CHECK(sums.has(last) == (leaf != unused.id()));
    CHECK(sums.has(first) == (leaf == first.id() || leaf == loss_alone.id()));
  });
  CHECK(told == std::vector<std::uint64_t>{unused.id(), last.id(), first.id(), loss_alone.id()});
}

TEST_CASE("the loss itself may be watched") {
  const Tensor w = vec({2});
  Tape tape;
  tape.watch(w);
  CHECK(values(backward(tape, w, vec({7}))[w]) == Doubles{7});
}

TEST_CASE("a parameter that the loss does not use has no gradient") {
  const Tensor w = vec({2}), unused = vec({1, 2, 3}), x = vec({4});
  Tape tape;
  tape.watch(w);
  tape.watch(unused);
  const Tensor dead_end = square(unused);
  const Tensor y = mul(w, x);
  const Gradients grads = backward(tape, y, vec({1}));
  CHECK(grads.has(w));
  CHECK_FALSE(grads.has(unused));
  CHECK_FALSE(grads.has(x));
  CHECK_THROWS_WITH_AS(grads[unused],
                       "gradients: none for f64[3]: not watched, or not used by the loss", Error);
  CHECK_THROWS_AS(grads[x], Error);
  CHECK_THROWS_AS(grads[Tensor()], Error);
}

TEST_CASE("pieces of a split that get no gradient count as zeros") {
  const Tensor x = vec({1, 2, 3, 4, 5});
  Tape tape;
  tape.watch(x);
  const Tensors parts = split(x, {2, 1, 2}, 0);
  const Tensor y = square(parts[2]);
  CHECK(values(backward(tape, y, vec({1, 1}))[x]) == Doubles{0, 0, 0, 8, 10});
}

TEST_CASE("backward refuses a loss that is not one element or not recorded") {
  const Tensor w = vec({1, 2});
  Tape tape;
  tape.watch(w);
  const Tensor y = square(w), constant = vec({1});
  CHECK_THROWS_WITH_AS(tape.backward(y), "backward: the loss must have one element, got f64[2]",
                       Error);
  CHECK_THROWS_WITH_AS(tape.backward(Tensor()),
                       "backward: the loss must have one element, got undefined", Error);
  CHECK_THROWS_WITH_AS(tape.backward(constant),
                       "backward: output 0 f64[1] does not depend on a watched tensor", Error);
  CHECK_THROWS_WITH_AS(backward(tape, y, vec({1})), "backward: seed 0 is f64[1], its output f64[2]",
                       Error);
  CHECK_THROWS_WITH_AS(tape.backward(In(&y, 1), In()), "backward: 1 outputs but 0 seeds", Error);
  CHECK(values(backward(tape, y, ones(y))[w]) == Doubles{2, 4});  // and still works
}

TEST_CASE("a tape is walked once") {
  const Tensor w = vec({2});
  Tape tape;
  tape.watch(w);
  const Tensor y = square(w);
  tape.backward(y);
  CHECK_THROWS_WITH_AS(tape.backward(y), "tape: backward after backward: the tape is consumed",
                       Error);
  CHECK_THROWS_WITH_AS(tape.watch(w), "tape: watch after backward: the tape is consumed", Error);
  CHECK_THROWS_WITH_AS(tape.release(), "tape: release after backward: the tape is consumed", Error);
}

TEST_CASE("a released tape frees its nodes and cannot be walked") {
  const Tensor w = vec({2});
  Tape tape;
  tape.watch(w);
  Tensor y = square(w);
  y = square(y);
  const std::uint64_t before = allocator::stats().bytes_in_use;
  tape.release();
  CHECK(tape.size() == 0);
  CHECK(allocator::stats().bytes_in_use < before);
  CHECK_FALSE(recording({w}));
  CHECK_THROWS_WITH_AS(tape.backward(y), "tape: backward after release: the tape is freed", Error);
}

TEST_CASE("ops after backward are not recorded") {
  const Tensor w = vec({2});
  Tape tape;
  tape.watch(w);
  const Tensor y = square(w);
  tape.backward(y);
  CHECK_FALSE(recording({w}));
  square(w);
  CHECK(tape.size() == 0);
  Tape next;  // the thread is free for another one
  next.watch(w);
  CHECK(values(next.backward(square(w))[w]) == Doubles{4});
}

TEST_CASE("a tape walked under NoRecording stays finished afterwards") {
  const Tensor w = vec({2});
  Tape tape;
  tape.watch(w);
  const Tensor y = square(w);
  {
    const NoRecording off;
    CHECK(values(tape.backward(y)[w]) == Doubles{4});
  }
  CHECK_FALSE(recording({w}));
  square(w);
  CHECK(tape.size() == 0);
}

TEST_CASE("a thread records on one tape at a time") {
  {
    Tape tape;
    CHECK_THROWS_WITH_AS(Tape(), "tape: this thread already records on another tape", Error);
    std::thread([] { CHECK_NOTHROW(Tape()); }).join();
  }
  CHECK_NOTHROW(Tape());
}

TEST_CASE("a tape belongs to its thread") {
  const Tensor w = vec({2});
  Tape tape;
  tape.watch(w);
  const Tensor y = square(w);
  std::thread([&] {
    CHECK_FALSE(recording({w}));
    CHECK_THROWS_WITH_AS(tape.backward(y), "tape: backward from a thread that does not own it",
                         Error);
    CHECK_THROWS_AS(tape.watch(w), Error);
    CHECK_THROWS_AS(tape.release(), Error);
  }).join();
  CHECK(values(tape.backward(y)[w]) == Doubles{4});
}

TEST_CASE("only floating-point values can be watched") {
  Tape tape;
  CHECK_THROWS_WITH_AS(tape.watch(Tensor()), "tape: cannot watch undefined", Error);
  CHECK_THROWS_WITH_AS(tape.watch(Tensor::zeros({2}, DType::i64)), "tape: cannot watch i64[2]",
                       Error);
}

TEST_CASE("recording an op without gradient throws its reason") {
  const Tensor w = vec({0.5, 0.5});
  Tape tape;
  tape.watch(w);
  CHECK_THROWS_WITH_AS(run(ops::SoftmaxBackward(0), {w, w}),
                       "softmax_backward: cannot be recorded: it is itself a gradient, and second "
                       "derivatives are not provided",
                       Error);
  CHECK_THROWS_WITH_AS(run(Increment(), {w}), "increment: cannot be recorded: it writes in place",
                       Error);
  CHECK(values(w) == Doubles{0.5, 0.5});
  CHECK(tape.size() == 0);
}

TEST_CASE("a change in place of what a gradient needs is noticed") {
  const Tensor w = vec({2, 3});
  SUBCASE("a kept input") {
    Tape tape;
    tape.watch(w);
    const Tensor y = square(w);
    {
      const NoRecording off;
      run(Increment(), {w});
    }
    CHECK_THROWS_WITH_AS(backward(tape, y, ones(y)),
                         "tape: f64[2] was changed in place after square used it", Error);
  }
  SUBCASE("through a view of a kept output") {
    Tape tape;
    tape.watch(w);
    const Tensor y = exp(w);
    {
      const NoRecording off;
      run(Increment(), {slice(y, 0, 1)});
    }
    CHECK_THROWS_WITH_AS(backward(tape, y, ones(y)),
                         "tape: f64[2] was changed in place after exp used it", Error);
  }
  SUBCASE("but not of what no gradient reads") {
    Tape tape;
    tape.watch(w);
    const Tensor y = scale(w, 3);
    {
      const NoRecording off;
      run(Increment(), {w});
    }
    CHECK(values(backward(tape, y, ones(y))[w]) == Doubles{3, 3});
  }
}

TEST_CASE("a gradient of the wrong shape or number is an error") {
  const Tensor w = vec({2, 3});
  for (const bool missing : {false, true}) {
    Tape tape;
    tape.watch(w);
    const Tensor y = run_one(Misshapen(missing), {w});
    CHECK_THROWS_WITH_AS(backward(tape, y, ones(y)),
                         missing ? "misshapen: 0 gradients for 1 inputs"
                                 : "misshapen: gradient 0 is f64[1,2], expected f64[2]",
                         Error);
  }
}

TEST_CASE("more inputs than a tape can tell apart are refused") {
  const Tensor w = vec({2});
  const Tensors most(64, w), too_many(65, w);
  Tape tape;
  tape.watch(w);
  CHECK_THROWS_WITH_AS(concat(too_many, 0), "concat: cannot be recorded: 65 inputs, at most 64",
                       Error);
  const Tensor y = concat(most, 0);
  CHECK(values(backward(tape, y, ones(y))[w]) == Doubles{64});
  CHECK(concat(too_many, 0).numel() == 65);
}

TEST_CASE("a tape frees as it goes") {
  constexpr int kOps = 8;
  constexpr std::int64_t kElements = 1 << 16;
  std::vector<std::weak_ptr<Storage>> kept;  // outputs of the forward ops, in order
  struct Watcher final : Observer {
    explicit Watcher(const std::vector<std::weak_ptr<Storage>>& kept) : kept(kept) {}
    void op_begin(const OpCall& call) override {
      if (call.op.name() != "tanh_backward") return;
      alive.push_back(static_cast<int>(
          std::count_if(kept.begin(), kept.end(), [](auto& s) { return !s.expired(); })));
      in_use.push_back(allocator::stats().bytes_in_use);
    }
    const std::vector<std::weak_ptr<Storage>>& kept;
    std::vector<int> alive;
    std::vector<std::uint64_t> in_use;
  } watcher(kept);

  const Tensor w = Tensor::full({kElements}, 0.5);
  Tape tape;
  tape.watch(w);
  Tensor h = w;
  for (int i = 0; i < kOps; ++i) {
    h = tanh(h);
    kept.push_back(h.storage());
  }
  const Tensor loss = reshape(slice(h, 0, 1), {});
  h = Tensor();
  const ObserverGuard guard(watcher);
  tape.backward(loss);  // the caller's loss is a view of the last output
  CHECK(watcher.alive == std::vector<int>{8, 8, 7, 6, 5, 4, 3, 2});
  for (int i = 2; i < kOps; ++i)
    CHECK(watcher.in_use[static_cast<std::size_t>(i)] + 4 * kElements <=
          watcher.in_use[static_cast<std::size_t>(i - 1)] + 1024);
}

TEST_CASE("a tape keeps no contents that no gradient reads") {
  const Tensor w = Tensor::full({1000}, 0.5);
  Tape tape;
  tape.watch(w);
  std::weak_ptr<Storage> sum, product;
  Tensor y;
  {
    const Tensor s = add(w, w), p = mul(s, w);
    sum = s.storage();
    product = p.storage();
    y = scale(p, 2);
  }
  CHECK_FALSE(sum.expired());  // mul's gradient reads it
  CHECK(product.expired());    // scale's gradient does not
}
