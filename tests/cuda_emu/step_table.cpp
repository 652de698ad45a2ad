// Prints what a training step of ViT-Ti asks of a device: launches, bytes and FLOPs, counted on the
// emulated one, and the time that three GPUs would need at best. Counted with one block, for one
// image and for two: what an op asks is a constant and so much an image.
#include <algorithm>
#include <map>
#include <vector>

#include "tensor/observer.h"
#include "tests/cuda_emu/queue.h"
#include "tests/cuda_emu/race.h"
#include "train/phases/measured_step.h"
#include "train/phases/sample_batch.h"

namespace {

using namespace hg;

constexpr int kDepth = 12, kBatch = 64;

struct Asked {
  std::string op;
  int blocks = 1;    // how many there are of it in the whole model
  bool all = false;  // it goes over all parameters
  double launches = 0, bytes = 0, flops_mm = 0, flops_ew = 0;
};

// Of each call of an op.
class Counter final : public Observer {
 public:
  void op_begin(const OpCall&) override {
    before_ = emu::traffic();
    launches_before_ = emu::launches();
  }
  void op_end(const OpCall& call) override {
    const emu::Traffic& now = emu::traffic();
    const Cost cost = call.op.cost(call.in, call.out).total();
    Asked a;
    a.op = call.op.name();
    a.blocks = call.scope->path.starts_with("blocks.") ? kDepth : 1;
    a.all = call.phase == Phase::optimizer;
    a.launches = static_cast<double>(emu::launches() - launches_before_);
    a.bytes = static_cast<double>(now.read - before_.read + now.written - before_.written);
    a.flops_mm = static_cast<double>(cost.flops_mm);
    a.flops_ew = static_cast<double>(cost.flops_ew);
    calls.push_back(a);
  }
  std::vector<Asked> calls;

 private:
  emu::Traffic before_;
  std::uint64_t launches_before_ = 0;
};

Config vit(int depth, int batch) {
  return load_config("deit-tiny", {"run.device=cuda", fmt::format("model.depth={}", depth),
                                   fmt::format("train.batch_size={}", batch)});
}

std::vector<Asked> calls_of(int batch) {
  MeasuredStep step(vit(1, batch));
  Counter counter;
  const ObserverGuard guard(counter);
  step();
  return counter.calls;
}

double parameters(int depth) {
  double n = 0;
  const nn::Vit model(options_to_measure(vit(depth, 1)), 1);
  for (const nn::Parameter& p : model.parameters().all()) n += static_cast<double>(p.value.numel());
  return n;
}

// What a call asks in the whole model, with kBatch images.
Asked extrapolated(const Asked& one, const Asked& two, double growth) {
  const auto at_batch = [](double a, double b) { return a + (b - a) * (kBatch - 1); };
  const double times = one.all ? growth : one.blocks;
  Asked a = one;
  a.launches = two.launches * one.blocks;
  a.bytes = at_batch(one.bytes, two.bytes) * times;
  a.flops_mm = at_batch(one.flops_mm, two.flops_mm) * times;
  a.flops_ew = at_batch(one.flops_ew, two.flops_ew) * times;
  return a;
}

struct Gpu {
  const char* name;
  double flops, tensor_flops, bytes;  // a second; products in TF32 where there is such a thing
};
constexpr Gpu kGpus[] = {{"T4", 8.1e12, 8.1e12, 320e9},
                         {"A100", 19.5e12, 156e12, 1555e9},
                         {"H100", 66.9e12, 495e12, 3350e9}};

// Milliseconds, where each op is bound by its FLOPs or by its bytes. Attention's products are its
// kernels' own, without tensor cores.
double best_ms(const Asked& a, const Gpu& gpu) {
  const double products = a.op.starts_with("attention") ? gpu.flops : gpu.tensor_flops;
  const double flops = a.flops_mm / products + a.flops_ew / gpu.flops;
  return 1e3 * std::max(flops, a.bytes / gpu.bytes);
}

struct Row {
  double launches = 0, bytes = 0, flops = 0, ms[std::size(kGpus)] = {};
  void add(const Asked& a) {
    launches += a.launches, bytes += a.bytes, flops += a.flops_mm + a.flops_ew;
    for (std::size_t g = 0; g < std::size(kGpus); ++g) ms[g] += best_ms(a, kGpus[g]);
  }
  void print(const std::string& name) const {
    fmt::print("| {} | {:.0f} | {:.2f} | {:.1f} | {:.2f} | {:.2f} | {:.2f} |\n", name, launches,
               bytes * 1e-9, flops * 1e-9, ms[0], ms[1], ms[2]);
  }
};

}  // namespace

int main() {
  const std::vector<Asked> one = calls_of(1), two = calls_of(2);
  if (one.size() != two.size()) return 1;
  const double growth = parameters(kDepth) / parameters(1);
  std::map<std::string, Row> rows;
  Row sum;
  for (std::size_t i = 0; i < one.size(); ++i) {
    const Asked a = extrapolated(one[i], two[i], growth);
    rows[a.op].add(a);
    sum.add(a);
  }
  fmt::print("| op | launches | GB | GFLOP |");
  for (const Gpu& gpu : kGpus) fmt::print(" {} ms |", gpu.name);
  fmt::print("\n| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const auto& [name, row] : rows) row.print(name);
  sum.print("all");
}
