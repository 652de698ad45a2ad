#include "tools/hgprof/attention_case.h"

#include <algorithm>
#include <cmath>

#include "autograd/tape.h"
#include "nn/attention/prune.h"
#include "tensor/base/clock.h"
#include "tensor/cpu/parallel.h"
#include "tensor/memory_peak.h"
#include "tensor/random.h"
#include "tensor/run.h"

namespace hg::prof {
namespace {

constexpr std::string_view kLayer = "attn";

// qkv (of hash qv), proj, and k2, k3, ... of mixtures
bool is_projection(std::string_view op) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return op == "qkv" || op == "qv" || op == "proj" ||
         (op.size() > 1 && op[0] == 'k' && std::all_of(op.begin() + 1, op.end(), digit));
}

bool is_core(std::string_view layer, std::string_view op) {
  return layer.starts_with(kLayer) && !is_projection(op);
}

bool is_core(const OpCall& call) {
  return is_core(call.scope->layer, energy::row_op(*call.scope, call.op.name(), ""));
}

class CoreCounter final : public Observer {
 public:
  void op_end(const OpCall& call) override {
    if (is_core(call)) cost += call.op.cost(call.in, call.out).total();
  }
  Cost cost;
};

// Other programs lengthen wall time, but not what a thread has worked; with several threads inside
// an op, wall time is all there is.
std::int64_t core_ns() { return cpu::threads() == 1 ? thread_cpu_ns() : now_ns(); }

class CoreClock final : public Observer {
 public:
  void op_begin(const OpCall&) override { start_ = core_ns(); }
  void op_end(const OpCall& call) override {
    if (is_core(call)) ns += core_ns() - start_;
  }
  std::int64_t ns = 0;

 private:
  std::int64_t start_ = 0;
};

std::shared_ptr<const PairSupport> random_support(const CaseOptions& o) {
  const std::int64_t tokens = o.attention.tokens;
  const Tensor priors = Tensor::empty({o.attention.heads, tokens, tokens});
  RandomStream stream(o.seed, "priors");
  fill_uniform(priors, stream, 0, 1);
  nn::PruneOptions how;
  how.fraction = o.pruned;
  return nn::prune({priors}, how).supports[0];
}

}  // namespace

AttentionCase::AttentionCase(const CaseOptions& options, bool hollow)
    : parameters_(options.seed, hollow) {
  const std::uint64_t before = allocator::stats().bytes_in_use;
  nn::AttentionOptions o = options.attention;
  if (nn::attention_traits(o).pruned) o.support = random_support(options);
  attention_ = nn::make_attention(nn::Builder(parameters_), o);
  const Shape shape{1, o.tokens, o.width};
  if (hollow) {
    x_ = gradient_ = Tensor::hollow_of({DType::f32, shape});
    return;
  }
  RandomStream stream(options.seed, "tokens");
  x_ = Tensor::empty(shape);
  fill_normal(x_, stream, 0, 1);
  gradient_ = Tensor::full(shape, 1);
  held_bytes_ = allocator::stats().bytes_in_use - before;
}

void AttentionCase::call(Pass pass) const {
  if (pass == Pass::forward) {
    (*attention_)(x_, {});
    return;
  }
  Tape tape;
  tape.watch(x_);  // as in a model; some layers have no parameters
  for (const nn::Parameter& p : parameters_.all()) tape.watch(p.value);
  const Tensor out = (*attention_)(x_, {});
  tape.backward({&out, 1}, {&gradient_, 1});
}

Cost core_cost(const AttentionCase& layer, Pass pass) {
  CoreCounter counter;
  const ObserverGuard guard(counter);
  const DryRun dry;
  layer.call(pass);
  return counter.cost;
}

std::uint64_t peak_bytes(const AttentionCase& layer, Pass pass) {
  const MemoryPeak peak;
  layer.call(pass);
  return layer.held_bytes() + peak.bytes();
}

energy::LedgerRow core_row(const energy::Ledger& ledger) {
  std::vector<energy::LedgerRow> sum;
  for (energy::LedgerRow row : ledger.rows) {
    if (!row.is_op() || !is_core(row.label.layer, row.label.op)) continue;
    row.label = {};
    energy::add_rows(sum, {row});
  }
  return sum.empty() ? energy::LedgerRow{} : sum[0];
}

CoreFigures measure_core(const AttentionCase& layer, Pass pass, energy::Meter& meter,
                         double seconds) {
  energy::Session session(meter, {});
  CoreFigures figures{INFINITY, 0, energy::Kind::unavailable};
  double calls = 0;
  {
    CoreClock clock;
    const ObserverGuard guard(clock);
    const std::int64_t start = now_ns();
    do {
      clock.ns = 0;
      layer.call(pass);
      figures.seconds = std::min(figures.seconds, static_cast<double>(clock.ns) * 1e-9);
      ++calls;
    } while (seconds_since(start) < seconds);
  }
  const energy::LedgerRow core = core_row(session.stop());
  figures.joules = energy::to_joules({core.energy_uj}).value / calls;
  figures.kind = core.kind;
  return figures;
}

}  // namespace hg::prof
