// Pieces of optimizer steps: a parameter's states and gradients in one pass, and parameters cut
// into blocks for all threads.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "tensor/cpu/elementwise.h"
#include "tensor/op.h"

namespace hg::cpu {

template <class T>
CachedVector<const T*> pointers(In tensors) {
  CachedVector<const T*> all;
  all.reserve(tensors.size());
  for (const Tensor& t : tensors) all.push_back(t.data<T>());
  return all;
}

// The gradients' sum at [i, i + count), as a packet.
template <class T>
EIGEN_ALWAYS_INLINE Packet<T> sum_at(std::span<const T* const> grads, std::int64_t i,
                                     std::int64_t count) {
  const auto load = [&](const T* x) {
    return count == kLanes<T> ? Eigen::internal::ploadu<Packet<T>>(x + i)
                              : load_padded(x + i, count);
  };
  Packet<T> sum = load(grads[0]);
  for (std::size_t k = 1; k < grads.size(); ++k) sum = Eigen::internal::padd(sum, load(grads[k]));
  return sum;
}

template <class T, std::size_t kStates>
std::array<T*, kStates> states_of(In in) {
  std::array<T*, kStates> at;
  for (std::size_t s = 0; s < kStates; ++s) at[s] = in[s].data<T>();
  return at;
}

// step(state, g) on packets changes [i, end) of the states in one pass over memory. It is a copy
// that no store can alias: its constants stay in registers.
template <class T, std::size_t kStates, class Step>
void update_piece(const std::array<T*, kStates> at, std::span<const T* const> grads,
                  double grad_scale, std::int64_t i, std::int64_t end, const Step step) {
  constexpr std::int64_t lanes = kLanes<T>;
  const auto gradient = [&](std::int64_t from, std::int64_t count) {
    const Packet<T> sum = sum_at<T>(grads, from, count);
    return grad_scale == 1 ? sum : Eigen::internal::pmul(sum, splat<Packet<T>>(grad_scale));
  };
  Packet<T> state[kStates];
  for (; i + lanes <= end; i += lanes) {
    for (std::size_t s = 0; s < kStates; ++s)
      state[s] = Eigen::internal::ploadu<Packet<T>>(at[s] + i);
    step(state, gradient(i, lanes));
    for (std::size_t s = 0; s < kStates; ++s) Eigen::internal::pstoreu(at[s] + i, state[s]);
  }
  if (i == end) return;
  for (std::size_t s = 0; s < kStates; ++s) state[s] = load_padded(at[s] + i, end - i);
  step(state, gradient(i, end - i));
  for (std::size_t s = 0; s < kStates; ++s) store_partly(at[s] + i, end - i, state[s]);
}

// Sum of (g_0 + g_1 + ..)^2 over [begin, end): gradients are added as the optimizer adds them,
// squares in double.
template <class T>
double sum_of_squares(std::span<const T* const> grads, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t lanes = kLanes<T>, stride = 4 * lanes;
  double part[stride] = {};
  for (std::int64_t i = begin; i < end; i += stride) {
    T g[stride];
    for (std::int64_t j = 0; j < stride; j += lanes)
      Eigen::internal::pstoreu(
          g + j, sum_at<T>(grads, i + j, std::clamp<std::int64_t>(end - i - j, 0, lanes)));
    for (std::int64_t j = 0; j < stride; ++j) part[j] += static_cast<double>(g[j]) * g[j];
  }
  double sum = 0;
  for (const double p : part) sum += p;
  return sum;
}

// Parameters cut into blocks: one parallel loop over all of them keeps small parameters from
// costing a loop each, or from being left to one thread.
class Blocks {
 public:
  // Of every `stride`-th tensor.
  Blocks(In tensors, std::size_t stride) {
    for (std::size_t i = 0; i < tensors.size(); i += stride) {
      sizes_.push_back(tensors[i].numel());
      ends_.push_back(count() + (sizes_.back() + kBlock - 1) / kBlock);
    }
  }
  std::int64_t count() const { return ends_.empty() ? 0 : ends_.back(); }
  std::int64_t first(std::size_t parameter) const {
    return parameter == 0 ? 0 : ends_[parameter - 1];
  }
  // body(block, parameter, begin, end)
  void for_each(auto body) const {
    parallel_each(count(), 1, [&](std::int64_t block) {
      const auto parameter = static_cast<std::size_t>(
          std::upper_bound(ends_.begin(), ends_.end(), block) - ends_.begin());
      const std::int64_t begin = (block - first(parameter)) * kBlock;
      body(block, parameter, begin, std::min(sizes_[parameter], begin + kBlock));
    });
  }

 private:
  static constexpr std::int64_t kBlock = 4096;
  CachedVector<std::int64_t> sizes_, ends_;  // elements; where its blocks end
};

}  // namespace hg::cpu
