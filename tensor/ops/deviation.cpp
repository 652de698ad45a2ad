#include "tensor/ops/deviation.h"

#include "tensor/cpu/reduce.h"
#include "tensor/cpu/scratch.h"

namespace hg::ops {

TensorSpecs Deviation::infer(In in) const {
  expect_floats(*this, in, 1);
  expect_rank(*this, in, 0, 3);
  return {in[0].spec({in[0].dim(0), in[0].dim(1)})};
}

// per element: added to the mean; subtract, square, add
CostParts Deviation::cost(In in, In out) const {
  return elementwise_cost(in, out, 4 * count(in[0]));
}

void Deviation::cpu(In in, Out out) const {
  const std::int64_t n = in[0].dim(1), e = in[0].dim(2);
  if (n == 0) return;
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    cpu::parallel_for(in[0].dim(0), 1, [&](std::int64_t begin, std::int64_t end) {
      const cpu::Scratch<T> mean(std::max<std::int64_t>(e, 1));
      const auto share = ei::pset1<cpu::Packet<T>>(T{1} / static_cast<T>(n));
      for (std::int64_t b = begin; b < end; ++b) {
        const T* const x = in[0].data<T>() + b * n * e;
        cpu::sum_rows<T>(n, e, e, x, mean);
        cpu::map([&](auto s) { return ei::pmul(s, share); }, e, static_cast<T*>(mean),
                 static_cast<const T*>(mean));
        for (std::int64_t i = 0; i < n; ++i)
          out[0].data<T>()[b * n + i] = cpu::row_sum(
              [](auto a, auto m) {
                const auto d = ei::psub(a, m);
                return ei::pmul(d, d);
              },
              e, x + i * e, static_cast<const T*>(mean));
      }
    });
  });
}

Samples Deviation::samples() {
  return {
      sample(Deviation(), {S::uniform({1, 1, 1})}), sample(Deviation(), {S::uniform({2, 197, 3})}),
      sample(Deviation(), {S::uniform({3, 5, 70})}), sample(Deviation(), {S::uniform({0, 5, 7})})};
}

}  // namespace hg::ops
