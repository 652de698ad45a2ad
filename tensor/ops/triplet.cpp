#include "tensor/ops/triplet.h"

#include <cmath>

#include "tensor/cpu/elementwise.h"
#include "tensor/ops/gather.h"
#include "tensor/ops/label_pairs.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/view.h"
#include "tensor/run.h"
#include "tensor/transfer.h"

namespace hg {
namespace ops {
namespace {

using Negatives = TripletOptions::Negatives;

constexpr double kLeastSquare = 1e-12;

void expect_margin(const Op& op, double margin) {
  require(margin >= 0, op.name(), "negative margin {}", margin);
}

template <class T>
T distance(T s) {
  return std::sqrt(std::max(2 - 2 * s, static_cast<T>(kLeastSquare)));
}

// d distance / ds
template <class T>
T slope(T s, T distance) {
  return 2 - 2 * s > static_cast<T>(kLeastSquare) ? -1 / distance : T{0};
}

struct Row {
  std::int64_t rows, anchor;
  const std::int64_t* label;

  bool is_positive(std::int64_t j) const { return j != anchor && label[j] == label[anchor]; }
  bool is_negative(std::int64_t j) const { return label[j] != label[anchor]; }
};

std::int64_t farthest_positive(const Row& row, const auto* s) {
  std::int64_t found = row.anchor;
  for (std::int64_t j = 0; j < row.rows; ++j)
    if (row.is_positive(j) && (found == row.anchor || s[j] < s[found])) found = j;
  return found;
}

// Of those less alike than `positive`, if it is one and there are such; else of all.
template <class T>
std::int64_t nearest_negative(const Row& row, const T* s, bool semi_hard, T positive) {
  std::int64_t nearest = row.anchor, beyond = row.anchor;
  for (std::int64_t j = 0; j < row.rows; ++j) {
    if (!row.is_negative(j)) continue;
    if (nearest == row.anchor || s[j] > s[nearest]) nearest = j;
    if (semi_hard && s[j] < positive && (beyond == row.anchor || s[j] > s[beyond])) beyond = j;
  }
  return beyond == row.anchor ? nearest : beyond;
}

std::int64_t random_negative(const Row& row, std::int64_t negatives, std::uint32_t draw) {
  auto skip =
      static_cast<std::int64_t>(std::uint64_t{draw} * static_cast<std::uint64_t>(negatives) >> 32);
  std::int64_t j = 0;
  while (!row.is_negative(j) || skip-- > 0) ++j;
  return j;
}

std::int64_t count_anchors(const Tensor& chosen) {
  std::int64_t anchors = 0;
  for (std::int64_t i = 0; i < chosen.dim(0); ++i)
    anchors += chosen.data<std::int64_t>()[2 * i] != i;
  return anchors;
}

}  // namespace

TensorSpecs Triplet::infer(In in) const {
  expect_floats(*this, in, 2, {1});
  expect_labelled_pairs(*this, in, 0, 1);
  expect_margin(*this, options.margin);
  return {in[0].spec({1}), in[1].spec({in[0].dim(0), 2})};
}

// positives: min; negatives: max, with semi_hard two comparisons more
CostParts Triplet::cost(In in, In out) const {
  const LabelPairs pairs = count_pairs(in[1]);
  const bool random = options.negatives == Negatives::random;
  const std::int64_t of_negative = options.negatives == Negatives::semi_hard ? 3 : 1;
  const std::int64_t flops = pairs.positives + (random ? 0 : of_negative * pairs.negatives);
  const std::int64_t read = pairs.positives + (random ? pairs.anchors : pairs.negatives);
  return Cost{
      .flops_ew = static_cast<std::uint64_t>(flops),
      .bytes_read = static_cast<std::uint64_t>(read) * size_of(in[0].dtype()) + in[1].bytes(),
      .bytes_written = bytes_of(out)};
}

void Triplet::cpu(In in, Out out) const {
  const std::int64_t rows = in[1].dim(0);
  const std::int64_t* const label = in[1].data<std::int64_t>();
  std::int64_t* const chosen = out[1].data<std::int64_t>();
  dispatch_float(in[0].dtype(), name(), [&]<class T>() {
    CachedVector<T> losses(static_cast<std::size_t>(rows), T{0});
    const auto choose = [&](std::int64_t i, const T* s) {
      const Row row{rows, i, label};
      const AnchorPairs pairs(rows, label, i);
      chosen[2 * i] = chosen[2 * i + 1] = i;
      if (!pairs.used()) return;
      const std::int64_t p = farthest_positive(row, s);
      const std::uint64_t at = first + static_cast<std::uint64_t>(i);
      const std::int64_t n =
          options.negatives == Negatives::random
              ? random_negative(row, pairs.negatives, draw_block(key, at / 4)[at % 4])
              : nearest_negative(row, s, options.negatives == Negatives::semi_hard, s[p]);
      chosen[2 * i] = p, chosen[2 * i + 1] = n;
      const T excess = static_cast<T>(options.margin) + distance(s[p]) - distance(s[n]);
      losses[i] = excess < 0 ? T{0} : excess;
    };
    cpu::parallel_each(rows, cpu::row_grain(rows),
                       [&](std::int64_t i) { choose(i, in[0].data<T>() + i * rows); });
    const std::int64_t anchors = count_anchors(out[1]);
    *out[0].data<T>() =
        anchors == 0 ? T{0} : cpu::row_sum(rows, losses.data()) / static_cast<T>(anchors);
  });
}

Tensors Triplet::grad(const GradArgs& args) const {
  Tensors grads(2);
  grads[0] = run_one(TripletBackward(options.margin), {args.grad_out[0], args.in[0], args.out[1]});
  return grads;
}

Samples Triplet::samples() {
  Samples all;
  for (const Negatives negatives : {Negatives::hard, Negatives::semi_hard, Negatives::random})
    for (const auto& [rows, labels] : kLabelledSizes)
      all.push_back(sample(Triplet({0.2, negatives}, 0x0123456789abcdef, 5),
                           {S::uniform({rows, rows}), S::integers({rows}, labels)}));
  return all;
}

TensorSpecs TripletBackward::infer(In in) const {
  expect_floats(*this, in, 3, {2});
  expect_rank(*this, in, 2, 2);
  const std::int64_t rows = in[2].dim(0);
  expect_shape(*this, in, 2, {rows, 2});
  expect_shape(*this, in, 1, {rows, rows});
  expect_shape(*this, in, 0, {1});
  expect_margin(*this, margin);
  return {in[1].spec()};
}

// what is done is done once a row
CostParts TripletBackward::cost(In in, In out) const {
  const auto rows = static_cast<std::uint64_t>(in[2].dim(0));
  if (!in[2].storage())  // counted before it is chosen: all rows as anchors, with two others each
    return Cost{.bytes_read = (1 + 2 * rows) * size_of(in[1].dtype()) + in[2].bytes(),
                .bytes_written = bytes_of(out)};
  const Tensor here = to_device(in[2], Device::cpu);
  const std::int64_t* const chosen = here.data<std::int64_t>();
  std::uint64_t read = 1;
  for (std::int64_t i = 0; i < in[2].dim(0); ++i)
    if (chosen[2 * i] != i) read += chosen[2 * i] == chosen[2 * i + 1] ? 1 : 2;
  return Cost{.bytes_read = read * size_of(in[1].dtype()) + in[2].bytes(),
              .bytes_written = bytes_of(out)};
}

// where margin + d_p - d_n > 0: ds_p = dy d'_p / anchors, ds_n = -dy d'_n / anchors
void TripletBackward::cpu(In in, Out out) const {
  const std::int64_t rows = in[2].dim(0), anchors = count_anchors(in[2]);
  check_ids(*this, in[2], rows);
  const std::int64_t* const chosen = in[2].data<std::int64_t>();
  dispatch_float(out[0].dtype(), name(), [&]<class T>() {
    const T weight = *in[0].data<T>() / static_cast<T>(anchors);
    T* const all = out[0].data<T>();
    std::fill_n(all, out[0].numel(), T{0});
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t p = chosen[2 * i], n = chosen[2 * i + 1];
      const T* const s = in[1].data<T>() + i * rows;
      if (p == i) continue;
      const T near = distance(s[n]), far = distance(s[p]);
      if (static_cast<T>(margin) + far - near <= 0) continue;
      all[i * rows + p] += weight * slope(s[p], far);
      all[i * rows + n] -= weight * slope(s[n], near);
    }
  });
}

Samples TripletBackward::samples() {
  Samples all;
  for (const std::int64_t rows : {0, 1, 3, 12, 197})
    all.push_back(sample(TripletBackward(0.2), {S::uniform({1}, 50, 100), S::uniform({rows, rows}),
                                                S::integers({rows, 2}, rows)}));
  return all;
}

}  // namespace ops

Tensor triplet_loss(const Tensor& z, const Tensor& labels, const TripletOptions& options,
                    RandomStream& stream) {
  const bool random = options.negatives == TripletOptions::Negatives::random;
  const std::uint64_t first = random ? stream.take(static_cast<std::uint64_t>(labels.numel())) : 0;
  return run_one(ops::Triplet(options, stream.key(), first), {matmul(z, transpose(z)), labels});
}

}  // namespace hg
