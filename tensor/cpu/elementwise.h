// Runs a packet functor over whole contiguous tensors, in parallel chunks that fit in cache.
#pragma once

#include <utility>

#include "tensor/cpu/parallel.h"
#include "tensor/cpu/vector_math.h"
#include "tensor/op.h"

namespace hg::cpu {

inline constexpr std::int64_t kElementGrain = 16384;

template <class F, std::size_t... I>
void elementwise_of(In in, const Tensor& out, F f, std::index_sequence<I...>) {
  dispatch_float(out.dtype(), "elementwise", [&]<class T>() {
    T* const y = out.data<T>();
    const T* const x[] = {in[I].data<T>()...};
    parallel_for(out.numel(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      map(f, end - begin, y + begin, x[I] + begin...);
    });
  });
}

// out[i] = f(in[0][i], ...) with the first kInputs inputs, of out's shape and type; f takes packets
// of float or double.
template <std::size_t kInputs, class F>
void elementwise(In in, const Tensor& out, F f) {
  elementwise_of(in, out, f, std::make_index_sequence<kInputs>());
}

// Rows of `width` elements to hand to one chunk of a parallel loop.
inline std::int64_t row_grain(std::int64_t width) {
  return std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(width, 1));
}

}  // namespace hg::cpu
