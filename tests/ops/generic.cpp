#include "tests/ops/generic.h"

#include <cstring>
#include <optional>
#include <set>

#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "tensor/cpu/parallel.h"
#include "tensor/ops/registry.h"
#include "tensor/run.h"
#include "tests/ops/compare.h"

namespace hg::testing {
namespace {

Tensors clones(In tensors) {
  Tensors copies;
  for (const Tensor& t : tensors) copies.push_back(t.contiguous() ? t.clone() : t);
  return copies;
}

void check_parity_as(const OpUnderTest& op, DType dtype) {
  for (const Sample& sample : op.samples()) {
    const Tensors in = make_inputs(sample, dtype);
    INFO(describe(sample, in));
    auto ref_in = as_references<double>(in);
    auto ref_out = empty_references<double>(sample.op->infer(in));
    op.reference(*sample.op, ref_in, ref_out);
    const Tensors out = run(*sample.op, clones(in));
    check_outputs(out, ref_out, sample.tolerance);
  }
}

Tensors without(In tensors, Indices left_out) {
  Tensors rest;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (!left_out.has(i)) rest.push_back(tensors[i]);
  return rest;
}

void check_refuses_recording(const Sample& sample, In in) {
  Tape tape;
  for (const Tensor& t : in)
    if (is_float(t.dtype())) tape.watch(t);
  try {
    run(*sample.op, in);
    FAIL("a non-differentiable op was recorded");
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find(sample.op->not_differentiable()) != std::string::npos);
  }
}

bool all_views(const TensorSpecs& specs) {
  for (const TensorSpec& spec : specs)
    if (spec.alias_of < 0 || spec.in_place) return false;
  return true;
}

std::string show(const Cost& c) {
  return fmt::format("mm {} ew {} read {} written {}", c.flops_mm, c.flops_ew, c.bytes_read,
                     c.bytes_written);
}

// Wrong contents count as refused too: anything but hg::Error is a fault (a crash, another type).
bool refuses(const Op& op, In in) {
  try {
    run(op, in);
  } catch (const Error&) {
    return true;
  }
  return false;
}

// Only an op that moves data takes integers for floats; it then gives integers back.
bool refuses_or_moves(const Op& op, In in, DType dtype) {
  try {
    for (const Tensor& t : run(op, in))
      if (t.dtype() != dtype) return false;
  } catch (const Error&) {
  }
  return true;
}

bool has_other_float(In in, std::size_t i) {
  for (std::size_t j = 0; j < in.size(); ++j)
    if (j != i && is_float(in[j].dtype())) return true;
  return false;
}

Tensor other_float(const Tensor& t) {
  return Tensor::zeros(t.shape(), t.dtype() == DType::f64 ? DType::f32 : DType::f64);
}

void check_threads_on(const Sample& sample) {
  const Tensors in = make_inputs(sample, DType::f32);
  INFO(describe(sample, in));
  Tensors first;
  for (const int threads : {1, 2, 3, 7}) {
    const cpu::ThreadLimit limit(threads);
    const Tensors out = run(*sample.op, clones(in));
    if (first.empty()) first = out;
    for (std::size_t i = 0; i < out.size(); ++i) {
      INFO("output " << i << ", " << threads << " threads");
      const Tensor a = first[i].clone(), b = out[i].clone();
      CHECK(std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
    }
  }
}

// The sample with all axes of that extent longer, up to some work; none if the op takes no others.
std::optional<Sample> enlarged(const Sample& sample, std::int64_t extent) {
  constexpr double kElements = 150'000, kFlops = 3e7;
  for (const std::int64_t factor : {1024, 128, 16, 4}) {
    Sample larger = sample;
    double elements = 0;
    for (SampleInput& input : larger.inputs) {
      for (int axis = 0; axis < input.shape.rank(); ++axis)
        if (input.shape[axis] == extent) input.shape[axis] *= factor;
      elements += static_cast<double>(input.shape.numel());
    }
    if (elements > kElements) continue;
    try {
      const Tensors in = make_inputs(larger, DType::f32);
      Tensors out;
      for (const TensorSpec& spec : larger.op->infer(in)) out.push_back(Tensor::hollow_of(spec));
      if (static_cast<double>(larger.op->cost(in, out).total().flops()) <= kFlops) return larger;
    } catch (const Error&) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace

void check_parity(const OpUnderTest& op) {
  check_parity_as(op, DType::f32);
  check_parity_as(op, DType::f64);
}

void check_gradient(const OpUnderTest& op) {
  for (const Sample& sample : op.samples()) {
    const Tensors in = make_inputs(sample, DType::f64);
    INFO(describe(sample, in));
    if (std::none_of(in.begin(), in.end(), [](auto& t) { return is_float(t.dtype()); })) continue;
    if (!sample.op->not_differentiable().empty()) {
      check_refuses_recording(sample, clones(in));
      continue;
    }
    const auto result = gradcheck(
        [&](In x) { return without(run(*sample.op, x), sample.op->auxiliary_outputs()); }, in);
    INFO(result.worst);
    CHECK(result.checked > 0);
    CHECK(result.max_error < 1e-7);
    CHECK(result.ok);
  }
}

void check_cost(const OpUnderTest& op) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Sample& sample : op.samples()) {
      const Tensors in = make_inputs(sample, dtype);
      INFO(describe(sample, in));
      const TensorSpecs specs = sample.op->infer(in);
      ref::Tally tally;
      auto ref_in = as_references<ref::Counted>(in);
      auto ref_out = empty_references<ref::Counted>(specs);
      ref::tally = &tally;
      op.counted(*sample.op, ref_in, ref_out);
      ref::tally = nullptr;
      const CostParts stated = sample.op->cost(in, run(*sample.op, clones(in)));
      if (all_views(specs)) {
        CHECK(show(stated.total()) == show(Cost{}));
        continue;
      }
      Cost counted_total;
      for (const auto& [name, cost] : tally.parts()) counted_total += cost;
      CHECK(show(stated.total()) == show(counted_total));
      for (const CostPart& part : stated) {
        INFO("part '" << std::string(part.name) << "'");
        const auto found = tally.parts().find(std::string(part.name));
        REQUIRE(found != tally.parts().end());
        CHECK(show(part.cost) == show(found->second));
      }
    }
  }
}

void check_completeness(const OpUnderTest& op) {
  const Samples samples = op.samples();
  std::set<std::int64_t> sizes;
  for (const Sample& sample : samples)
    for (const SampleInput& input : sample.inputs)
      sizes.insert(input.shape.begin(), input.shape.end());
  for (const std::int64_t size : {1, 3, 197}) {
    INFO("no sample has an extent of " << size);
    CHECK(sizes.count(size) == 1);
  }
  bool registered = false;
  for (const OpInfo& info : registry()) registered |= info.class_name == op.class_name;
  CHECK(registered);
  CHECK_MESSAGE(op.on_cuda, "no CUDA kernel");
  for (const Sample& sample : samples) CHECK(!sample.op->name().empty());
}

void check_threads(const OpUnderTest& op) {
  for (const Sample& sample : op.samples()) {
    check_threads_on(sample);
    std::set<std::int64_t> extents;
    for (const SampleInput& input : sample.inputs)
      extents.insert(input.shape.begin(), input.shape.end());
    extents.erase(0);
    for (const std::int64_t extent : extents)
      if (const auto larger = enlarged(sample, extent)) check_threads_on(*larger);
  }
}

void check_bad_input(const OpUnderTest& op) {
  for (const Sample& sample : op.samples()) {
    const Tensors in = make_inputs(sample, DType::f32);
    INFO(describe(sample, in));
    CHECK(refuses(*sample.op, {}));
    for (std::size_t i = 0; i < in.size(); ++i) {
      INFO("input " << i);
      Tensors bad = clones(in);
      bad[i] = Tensor();
      CHECK(refuses(*sample.op, bad));
      const DType swapped = in[i].dtype() == DType::i64 ? DType::f32 : DType::i64;
      bad[i] = Tensor::zeros(in[i].shape(), swapped);
      CHECK(refuses_or_moves(*sample.op, bad, swapped));
      bad[i] = other_float(in[i]);
      if (has_other_float(in, i)) CHECK(refuses(*sample.op, bad));
      for (int axis = 0; axis < in[i].rank(); ++axis)
        for (const std::int64_t change : {-1, 1}) {
          Shape shape = in[i].shape();
          shape[axis] += change;
          if (shape[axis] < 0) continue;
          bad[i] = Tensor::zeros(shape, in[i].dtype());
          refuses(*sample.op, bad);  // or a valid call of another size: then sanitizers watch
        }
      bad[i] = Tensor::zeros({}, in[i].dtype());
      refuses(*sample.op, bad);
    }
  }
}

}  // namespace hg::testing
