// A training step that has run before reaches neither operator new nor the system through the
// caching allocator. This program replaces the global operators with counting ones; they take from
// malloc, which the sanitizers watch as well, so the test holds under them, too.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "autograd/tape.h"
#include "energy/books/session.h"
#include "energy/meters/model_meter.h"
#include "energy/meters/rapl_powercap.h"
#include "tensor/cpu/parallel.h"
#include "tensor/ops/attention.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/concat.h"
#include "tensor/ops/cos_features.h"
#include "tensor/ops/cross_entropy.h"
#include "tensor/ops/dropout.h"
#include "tensor/ops/favor_features.h"
#include "tensor/ops/gather.h"
#include "tensor/ops/key_update.h"
#include "tensor/ops/layer_norm.h"
#include "tensor/ops/linear.h"
#include "tensor/ops/linear_attention.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/optimizer.h"
#include "tensor/ops/patchify.h"
#include "tensor/ops/permute.h"
#include "tensor/ops/quadratic_attention.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/scale_axes.h"
#include "tensor/ops/softmax.h"
#include "tensor/ops/unary.h"
#include "tensor/ops/view.h"
#include "tensor/random.h"
#include "tests/energy/meters/fake_meter.h"
#include "tests/energy/meters/powercap_tree.h"

namespace {

std::atomic<std::uint64_t> news{0};

void* counted_malloc(std::size_t bytes) noexcept {
  news.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* counted_malloc(std::size_t bytes, std::align_val_t align) noexcept {
  news.fetch_add(1, std::memory_order_relaxed);
  const auto a = static_cast<std::size_t>(align);
  return std::aligned_alloc(a, (bytes + a - 1) / a * a);
}
void* or_throw(void* p) {
  if (!p) throw std::bad_alloc();
  return p;
}

}  // namespace

using Align = std::align_val_t;
using Nothrow = std::nothrow_t;
void* operator new(std::size_t n) { return or_throw(counted_malloc(n)); }
void* operator new[](std::size_t n) { return or_throw(counted_malloc(n)); }
void* operator new(std::size_t n, Align a) { return or_throw(counted_malloc(n, a)); }
void* operator new[](std::size_t n, Align a) { return or_throw(counted_malloc(n, a)); }
void* operator new(std::size_t n, const Nothrow&) noexcept { return counted_malloc(n); }
void* operator new[](std::size_t n, const Nothrow&) noexcept { return counted_malloc(n); }
void* operator new(std::size_t n, Align a, const Nothrow&) noexcept { return counted_malloc(n, a); }
void* operator new[](std::size_t n, Align a, const Nothrow&) noexcept {
  return counted_malloc(n, a);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, Align) noexcept { std::free(p); }
void operator delete[](void* p, Align) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, Align) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, Align) noexcept { std::free(p); }
void operator delete(void* p, const Nothrow&) noexcept { std::free(p); }
void operator delete[](void* p, const Nothrow&) noexcept { std::free(p); }
void operator delete(void* p, Align, const Nothrow&) noexcept { std::free(p); }
void operator delete[](void* p, Align, const Nothrow&) noexcept { std::free(p); }

namespace {

using namespace hg;

Tensor random(const Shape& shape, RandomStream& stream) {
  Tensor t = Tensor::empty(shape);
  fill_uniform(t, stream, -1, 1);
  return t;
}

// The layers of the step. Each is a function of the parameters and the activation; to put a new op
// under the test, add a function here and to kLayers.
struct Parameters {
  explicit Parameters(RandomStream& stream)
      : weight(random({kRows, kColumns}, stream)), bias(random({kRows, kColumns}, stream)) {}
  static constexpr std::int64_t kRows = 77, kColumns = 1000;  // several chunks, with tails
  Tensor weight, bias;
};

Tensor elementwise_layer(const Parameters& p, const Tensor& x) {
  return gelu(div(tanh(add(mul(p.weight, x), p.bias)), exp(sigmoid(x))));
}
Tensor softmax_layer(const Parameters&, const Tensor& x) { return sub(softmax(x, 0), softmax(x)); }
Tensor permute_layer(const Parameters&, const Tensor& x) {
  const Tensor heads = permute(reshape(x, {77, 8, -1}), {1, 0, 2});  // [8,77,125]
  return contiguous(transpose(reshape(permute(heads, {0, 2, 1}), {1000, 77})));
}
Tensor concat_layer(const Parameters&, const Tensor& x) {
  const Tensors parts = split(x, {10, 33, 34}, 0);  // the last one gets no gradient
  return concat({square(parts[1]), parts[0], slice(x, 5, 39)}, 0);
}
Tensor attention_layer(const Parameters& p, const Tensor& x) {
  const Tensor qkv = reshape(slice(x, 0, 75), {5, 10, 1500});  // 5 heads of 100
  const Tensor prior = reshape(slice(p.bias, 0, 1), {5, 10, 10, 2});
  const QuadraticOptions options{.heads = 5,
                                 .extra_keys = 1,
                                 .score = QuadraticOptions::Score::rbf,
                                 .prior = QuadraticOptions::Prior::clipped};
  const Tensors inputs{qkv, key_update({.heads = 5}, qkv, {}), prior};
  const Tensor mixed = quadratic_attention(options, inputs)[0];
  const Tensors parts = split(qkv, {500, 500, 500}, 2);
  const Tensor omega = reshape(slice(p.bias, 1, 2), {100, 10});
  const Tensor products = matmul(reshape(parts[1], {5, 10, 5, 100}), omega);
  const Tensor keys = favor_features(parts[1], products, ops::FavorFeatures::Shift::sequence);
  const Tensor queries = elu1(reshape(products, {5, 10, 50}));
  const Tensor linear = linear_attention(queries, keys, mixed, 5, 1e-6);
  const Tensor scaled =
      scale_axes(reshape(cos_features(linear, {}, 5, 10), {50, 1, 1000}), slice(p.bias, 2, 3), 1);
  return concat({reshape(scaled, {50, 1000}), slice(x, 50, 77)}, 0);
}
constexpr struct {
  const char* name;
  Tensor (*run)(const Parameters&, const Tensor&);
} kLayers[] = {{"elementwise", elementwise_layer},
               {"softmax", softmax_layer},
               {"permute", permute_layer},
               {"concat", concat_layer},
               {"attention", attention_layer}};

Tensor forward(const Parameters& p, Tensor x) {
  const Scope net("net");
  for (const auto& layer : kLayers) {
    const Scope scope(layer.name);
    x = add(x, layer.run(p, x));
  }
  return x;
}

void update(const Tensor& parameter, const Tensor& grad) {
  float* w = parameter.data<float>();
  for (std::int64_t i = 0; i < parameter.numel(); ++i) w[i] -= 0.01f * grad.data<float>()[i];
}

void train_step(const Parameters& p, RandomStream& stream) {
  const Tensor x = random(p.weight.shape(), stream), seed = random(p.weight.shape(), stream);
  Tape tape;
  tape.watch(p.weight);
  tape.watch(p.bias);
  const Tensor y = forward(p, x);
  const Gradients grads = tape.backward(In(&y, 1), In(&seed, 1));
  const PhaseScope phase(Phase::optimizer);
  update(p.weight, grads[p.weight]);
  update(p.bias, grads[p.bias]);
}

// A block of a Vision Transformer with its loss and optimizer: the step the promise is made for.
struct Transformer {
  static constexpr std::int64_t kBatch = 6, kWidth = 24, kHeads = 3;
  explicit Transformer(RandomStream& stream) {
    for (const Shape& shape :
         {Shape{kWidth, 48}, Shape{kWidth}, Shape{kWidth}, Shape{kWidth}, Shape{3 * kWidth, kWidth},
          Shape{3 * kWidth}, Shape{4 * kWidth, kWidth}, Shape{4 * kWidth},
          Shape{kWidth, 4 * kWidth}, Shape{kWidth}}) {
      values.push_back(random(shape, stream));
      moments.push_back(Tensor::zeros(shape));
      squares.push_back(Tensor::zeros(shape));
    }
  }
  Tensors values, moments, squares;
};

Tensor loss_of(const Tensors& w, const Tensor& images, const Tensor& labels, RandomStream& stream) {
  Tensor x = linear(patchify(images, 4), w[0], w[1]);
  x = add(x, attention(linear(layer_norm(x, w[2], w[3]), w[4], w[5]), Transformer::kHeads));
  x = add(x, dropout(linear(linear_gelu(x, w[6], w[7]), w[8], w[9]), 0.1, stream));
  const Tensor first = Tensor::zeros({Transformer::kBatch, 1}, DType::i64);
  const Tensor token = reshape(gather_rows(x, first), {Transformer::kBatch, Transformer::kWidth});
  return cross_entropy(add(token, mean(x, 1)), labels);
}

void train_step(Transformer& net, RandomStream& stream) {
  const Tensor images = random({Transformer::kBatch, 3, 16, 16}, stream);
  const Tensor labels = Tensor::zeros({Transformer::kBatch}, DType::i64);
  Tape tape;
  for (const Tensor& w : net.values) tape.watch(w);
  const Gradients grads = tape.backward(loss_of(net.values, images, labels, stream));
  const PhaseScope phase(Phase::optimizer);
  Tensors all;
  for (const Tensor& w : net.values) all.push_back(grads[w]);
  AdamWOptions options;
  options.grad_scale = clip_scale(grad_norm(all).item<float>(), 1.0);
  for (std::size_t i = 0; i < all.size(); ++i)
    adamw_step(options, net.values[i], net.moments[i], net.squares[i], In(&all[i], 1));
}

template <class Net>
void check_steady(int threads) {
  const cpu::ThreadLimit limit(threads);
  RandomStream stream(1, "steady");
  Net net(stream);
  for (int warm_up = 0; warm_up < 2; ++warm_up) train_step(net, stream);
  for (int step = 0; step < 5; ++step) {
    const std::uint64_t news_before = news.load();
    const allocator::Stats before = allocator::stats();
    train_step(net, stream);
    const std::uint64_t news_of_step = news.load() - news_before;
    const allocator::Stats after = allocator::stats();
    INFO("step " << step << " after the warm-up");
    CHECK(news_of_step == 0);
    CHECK(after.system_calls == before.system_calls);
    CHECK(after.bytes_in_use == before.bytes_in_use);
  }
}

}  // namespace

TEST_CASE("every form of operator new is counted") {
  const std::uint64_t before = news.load();
  ::operator delete(::operator new(8));
  ::operator delete[](::operator new[](8));
  ::operator delete (::operator new (8, Align{64}), Align{64});
  ::operator delete[](::operator new[](8, Align{64}), Align{64});
  ::operator delete(::operator new(8, std::nothrow));
  ::operator delete[](::operator new[](8, std::nothrow));
  ::operator delete (::operator new (8, Align{64}, std::nothrow), Align{64});
  ::operator delete[](::operator new[](8, Align{64}, std::nothrow), Align{64});
  CHECK(news.load() - before == 8);
}

TEST_CASE("profiling a training step allocates nothing new either") {
  const cpu::ThreadLimit limit(1);
  RandomStream stream(1, "steady");
  Transformer net(stream);
  hg::testing::SteadyMeter meter(40);
  energy::SessionOptions options;
  options.period = {0.001};
  energy::Session session(meter, options);
  const auto step = [&] {
    train_step(net, stream);
    session.cut();
  };
  // Buffers only grow, with the longest interval between two readings so far; on a busy machine
  // that takes its time, but a buffer that never ends growing shows in every round.
  std::uint64_t fewest = UINT64_MAX;
  for (int round = 0; round < 20 && fewest > 0; ++round) {
    const std::uint64_t before = news.load();
    for (int i = 0; i < 20; ++i) step();
    fewest = std::min(fewest, news.load() - before);
  }
  CHECK(fewest == 0);
  CHECK(energy::sum_of(session.stop().rows).flops > 0);
}

TEST_CASE_TEMPLATE("a training step allocates nothing new", Net, Parameters, Transformer) {
  SUBCASE("on one thread") { check_steady<Net>(1); }
  SUBCASE("on two threads") { check_steady<Net>(2); }
  SUBCASE("on more threads than cores") { check_steady<Net>(5); }
}

TEST_CASE("reading a meter allocates nothing even when it fails") {
  testing::PowercapTree tree;
  tree.zone("intel-rapl:0", "package-0").zone("intel-rapl:0:0", "dram");
  const energy::Opened powercap = energy::open_powercap(tree.root());
  const energy::Opened model = energy::open_model(energy::read_cpu_info("/sys"));
  const auto allocations = [&] {
    const std::uint64_t before = news;
    for (energy::Meter* meter : {powercap.meter.get(), model.meter.get()}) meter->read();
    return news - before;
  };
  CHECK(allocations() == 0);
  tree.set("intel-rapl:0", 2'000'000);
  CHECK(allocations() == 0);
  tree.overwrite("intel-rapl:0", "energy_uj", "garbage");
  CHECK(allocations() == 0);
  CHECK(powercap.meter->faults() == 1);
}
