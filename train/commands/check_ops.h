// Ops held to what they should give, one call at a time: on a GPU to the CPU, on the CPU to the f64
// references. The calls are those of a model's training step, and the samples of every op.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensor/op.h"
#include "train/config/config.h"

namespace hg {

// A call of an op, with inputs on the host.
struct OpCase {
  std::shared_ptr<const Op> op;
  Tensors in;
  double tolerance;  // the largest of the op's samples
  std::string shape() const;
};

// The calls of a training step on the configuration's device, one of each op and shapes.
std::vector<OpCase> calls_of_step(const Config& config);
// The samples of every op, op by op; on an emulated device, without the large ones.
std::vector<std::vector<OpCase>> samples_of_ops(Device device);

struct Checked {
  std::string op, shape;
  double error = 0, limit = 0;  // relative to the largest value of an output
  bool same_bits = false;       // when it is run again
  std::optional<double> microseconds;
  Cost cost{};
  bool tf32 = false;

  bool ok() const { return same_bits && error <= limit; }
};

// Products by tensor cores, if tf32. It is not timed.
Checked check_call(const OpCase& call, Device device, bool tf32);
// Of one op: those that fail, else the one nearest to its limit. Timed, as far as that means
// anything.
std::vector<Checked> check_calls(const std::vector<OpCase>& calls, Device device, bool tf32);

// The largest difference of two tensors, in parts of the largest value expected; 1e300 for what is
// no number or should be.
double difference(const std::vector<double>& values, const std::vector<double>& expected);

// Whether times on the device mean anything: an emulated one has none.
bool is_timed(Device device);

}  // namespace hg
