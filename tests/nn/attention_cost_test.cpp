// Products counted in the cores of nn/METHODS.md, section 2, against its formulas; memory that
// grows with N, not N^2.
#include "tensor/allocator.h"
#include "tensor/observer.h"
#include "tensor/ops/reduce.h"
#include "tensor/run.h"
#include "tests/nn/attention_layer.h"

namespace attention_cost_test {

using namespace hg;
using namespace hg::testing;
using O = AttentionOptions;

// flops_mm of everything but the projections.
class CoreCounter final : public Observer {
 public:
  void op_end(const OpCall& call) override {
    const std::string& op = call.scope->op;
    if (op == "qkv" || op == "qv" || op == "proj" || op == "k2") return;
    (call.phase == Phase::backward ? backward : forward) +=
        call.op.cost(call.in, call.out).total().flops_mm;
  }
  std::uint64_t forward = 0, backward = 0;
};

struct Sizes {
  std::int64_t n, heads, d;
  std::int64_t x() const { return heads * d; }
};
constexpr std::int64_t kInputs = 24;  // width of a token

CoreCounter count(const O& o, const Sizes& s) {
  nn::Parameters parameters(1, true);
  O sized = o;
  sized.width = kInputs, sized.heads = s.heads, sized.dim_head = s.d, sized.tokens = s.n;
  const auto layer = nn::make_attention(nn::Builder(parameters), sized);
  CoreCounter counter;
  const ObserverGuard guard(counter);
  const DryRun dry;
  Tape tape;
  const Tensor x = Tensor::hollow_of({DType::f32, {1, s.n, sized.width}});
  tape.watch(x);
  for (const nn::Parameter& p : parameters.all()) tape.watch(p.value);
  tape.backward(sum_all((*layer)(x, {})));
  return counter;
}

// Forward and backward products by the formulas.
struct Formula {
  const char* name;
  std::function<std::int64_t(const Sizes&)> forward;
  double backward;  // as a multiple of the forward
};

std::vector<Formula> formulas() {
  const auto quadratic = [](const Sizes& s) { return 4 * s.n * s.n * s.x(); };
  const auto linear = [](const Sizes& s) { return 4 * s.n * s.d * s.x(); };
  const auto sek = [=](const Sizes& s) {
    return linear(s) + 4 * s.heads * s.n * std::max<std::int64_t>(1, s.n / 16);
  };
  const auto favor = [](const Sizes& s) {
    const auto m = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::floor(static_cast<double>(s.d) * std::log(s.d))));
    return 8 * s.heads * s.n * m * s.d;
  };
  // Patches of a grid of n x n and the class token, which sees all and is seen by all.
  const auto side = [](const Sizes& s) {
    return static_cast<std::int64_t>(std::sqrt(static_cast<double>(s.n - 1)));
  };
  const auto windows = [=](const Sizes& s) {  // of 4 x 4, those at the border cut
    const std::int64_t n = side(s), whole = n / 4, rest = n % 4;
    const std::int64_t along = 16 * whole + rest * rest;  // pairs along one direction
    return 4 * s.x() * (along * along + 2 * (s.n - 1) + 1);
  };
  const auto lines = [=](const Sizes& s) {
    const std::int64_t n = side(s);
    return 4 * s.x() * (n * n * n + 2 * (s.n - 1) + 1);
  };
  return {
      {"softmax", quadratic, 2.5},
      {"rbf", quadratic, 2.5},
      {"gmm", quadratic, 2.5},
      {"fiak", quadratic, 2.5},
      {"sparsemax", quadratic, 2.5},
      {"entmax15", quadratic, 2.5},
      {"ref_gmm", quadratic, 2.5},
      {"mgk", [](const Sizes& s) { return 2 * 3 * s.n * s.n * s.x(); }, 16.0 / 6},
      {"prob", [](const Sizes& s) { return (4 + 4) * s.n * s.n * s.x(); }, 2.5},
      {"mlk", linear, 2},
      {"linear_elu", linear, 2},
      {"efficient", linear, 2},
      {"xca", linear, 2},
      {"kerformer", sek, 2},
      {"cosformer", [](const Sizes& s) { return 8 * s.n * s.d * s.x(); }, 2},
      // omega is a buffer: its products have one gradient, not two
      {"favor", favor, 1.5},
      {"linformer", [](const Sizes& s) { return 8 * s.n * 64 * s.x(); }, 2.25},
      {"window", windows, 2.5},
      {"axial", lines, 2.5},
      // tables are constants: products have one gradient, not two
      {"fnet", [](const Sizes& s) { return 2 * s.n * s.n * kInputs + 2 * s.n * kInputs * kInputs; },
       1},
      {"mixer",
       [](const Sizes& s) { return 4 * s.n * std::max<std::int64_t>(1, s.n / 2) * kInputs; }, 2}};
}

TEST_CASE("products of every core are counted as the formulas say") {
  for (const Formula& formula : formulas())
    for (const Sizes s : {Sizes{1, 2, 8}, Sizes{17, 4, 48}, Sizes{197, 3, 64}}) {
      INFO(formula.name << " N " << s.n << " D " << s.d);
      O o;
      o.variant = formula.name;
      const CoreCounter counted = count(o, s);
      const std::int64_t expected = formula.forward(s);
      CHECK(counted.forward == static_cast<std::uint64_t>(expected));
      CHECK(static_cast<double>(counted.backward) ==
            formula.backward * static_cast<double>(expected));
    }
}

TEST_CASE("propagating values costs two more products forward and five backward") {
  O o;
  o.variant = "prob";
  const Sizes s{17, 4, 48};
  const CoreCounter before = count(o, s);
  o.value_propagation = true;
  const CoreCounter after = count(o, s);
  const auto product = static_cast<std::uint64_t>(2 * s.n * s.n * s.x());
  CHECK(after.forward == before.forward + 2 * product);
  CHECK(after.backward == before.backward + 5 * product);
}

TEST_CASE("hash costs its pairs, those that several rounds share in each, and the rotations") {
  O o;
  o.variant = "hash";
  for (const Sizes s : {Sizes{1, 2, 8}, Sizes{17, 4, 48}, Sizes{197, 3, 64}}) {
    const CoreCounter counted = count(o, s);
    // without contents: buckets of equal size, counted here token by token
    std::int64_t pairs = s.n + (s.n - 1);
    for (std::int64_t round = 0; round < 2; ++round) {
      std::vector<std::int64_t> sizes(8, 0);
      for (std::int64_t i = 1; i < s.n; ++i)
        ++sizes[static_cast<std::size_t>((i + round * (i / 8)) % 8)];
      for (const std::int64_t size : sizes) pairs += size * size;
    }
    const auto product = static_cast<std::uint64_t>(2 * pairs * s.x());
    const auto rotations = static_cast<std::uint64_t>(2 * s.n * s.x() * 2 * 4);
    CHECK(counted.forward == 2 * product + rotations);
    CHECK(counted.backward == 5 * product);
  }
}

TEST_CASE("a mixture of half the heads costs less than softmax with all") {
  O mgk, softmax;
  mgk.variant = "mgk";
  const auto mixed = count(mgk, {197, 2, 64}), plain = count(softmax, {197, 4, 64});
  CHECK(mixed.forward * 4 == plain.forward * 3);
  CHECK(mixed.backward < plain.backward);
}

TEST_CASE("priors temperatures and vectors do not decay while projections do") {
  for (const O& o : all_variants()) {
    INFO(o.variant);
    const Layer layer(o, 9, 2, 4,
                      (o.variant == "mgk" || o.variant == "mlk") && !o.shift_keys ? 2 : 1);
    for (const nn::Parameter& p : layer.parameters.all()) {
      INFO(p.name);
      const bool spared =
          p.value.rank() == 1 || p.name == "attn.pi" || p.name == "attn.temperature";
      CHECK(p.decay == !spared);
    }
  }
}

TEST_CASE("linear variants hold nothing of N x N") {
  constexpr std::int64_t kTokens = 16384, kWidth = 8;
  for (O o : all_variants()) {
    if (nn::attention_traits(o).quadratic || o.variant == "linformer") continue;
    if (o.variant == "fnet" || o.variant == "mixer") continue;  // have tables of N x N, one a layer
    INFO(o.variant);
    o.reduction = 4096;  // SE-K's own weights are N x N / reduction
    Layer layer(o, kTokens, 1, kWidth, (o.variant == "mlk") ? 2 : 1);
    const Tensor x = random({1, kTokens, layer.options.width}, 1);
    allocator::release_cached();
    const auto before = allocator::stats().bytes_reserved;
    {
      Tape tape;
      tape.watch(x);
      for (const nn::Parameter& p : layer.parameters.all()) tape.watch(p.value);
      tape.backward(sum_all((*layer.attention)(x, {})));
    }
    const auto reserved = allocator::stats().bytes_reserved - before;
    INFO(reserved);
    CHECK(reserved < 128u << 20);  // N x N floats are 1024 MiB, x is 2
  }
}

TEST_CASE("quadratic variants hold no N x N of the batch") {
  constexpr std::int64_t kTokens = 300, kBatch = 16, kHeads = 2, kWidth = 4;
  for (const O& o : all_variants()) {
    if (!nn::attention_traits(o).quadratic) continue;
    INFO(o.variant);
    Layer layer(o, kTokens, kHeads, kWidth, o.variant == "mgk" && !o.shift_keys ? 2 : 1);
    const Tensor x = random({kBatch, kTokens, layer.options.width}, 1);
    allocator::release_cached();
    const auto before = allocator::stats().bytes_reserved;
    {
      Tape tape;
      tape.watch(x);
      tape.backward(sum_all((*layer.attention)(x, {})));
    }
    const auto reserved = allocator::stats().bytes_reserved - before;
    INFO(reserved);
    CHECK(reserved < 9u << 20);  // B H N N floats are 11 MiB
  }
}

}  // namespace attention_cost_test
