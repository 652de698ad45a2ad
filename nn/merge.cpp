#include "nn/merge.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "nn/attention/heads.h"
#include "tensor/observer.h"
#include "tensor/ops/gather.h"
#include "tensor/ops/l2_normalize.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/scale_axes.h"
#include "tensor/ops/view.h"
#include "tensor/transfer.h"

namespace hg::nn {
namespace {

using Places = CachedVector<std::int64_t>;

constexpr int kIterations = 5;  // of pooling

// The same rows of each image.
Tensor in_each_image(const Places& rows, std::int64_t batch, Device device) {
  const auto n = static_cast<std::int64_t>(rows.size());
  const Tensor ids = Tensor::empty({batch, n}, DType::i64);
  for (std::int64_t b = 0; b < batch; ++b)
    std::copy(rows.begin(), rows.end(), ids.data<std::int64_t>() + b * n);
  return to_device(ids, device);
}

// The places first, first + step, .. below n.
Places every(std::int64_t first, std::int64_t step, std::int64_t n) {
  Places places;
  for (std::int64_t i = first; i < n; i += step) places.push_back(i);
  return places;
}

// Cosines of the mean keys of rows a and rows b, [B, |a|, |b|] on the host; without contents where
// costs are counted.
Tensor similarities(const Tensor& keys, const Places& a, const Places& b) {
  const std::int64_t batch = keys.dim(0);
  const Tensor directions = l2_normalize(mean(keys.detach(), 2));
  const auto rows = [&](const Places& of) {
    return gather_rows(directions, in_each_image(of, batch, keys.device()));
  };
  return on_host(matmul(rows(a), transpose(rows(b))));
}

// Of one image: which of the tokens that are left each of n tokens goes into.
using Joined = Places;

// Numbers the tokens that stay in their order; the others follow theirs.
Joined numbered(const Places& into) {
  Joined numbers(into.size(), 0);
  std::int64_t next = 0;
  for (std::size_t i = 0; i < into.size(); ++i)
    if (into[i] == static_cast<std::int64_t>(i)) numbers[i] = next++;
  for (std::size_t i = 0; i < into.size(); ++i) numbers[i] = numbers[into[i]];
  return numbers;
}

// Patches alternate between two sets; each of the first picks the one of the second that is most
// like it, and the pairs that are most alike merge. scores [|a|, |b|]; of equal ones the first.
template <class T>
Joined pairs_of(const T* scores, std::int64_t n, std::int64_t left) {
  const std::int64_t firsts = n / 2, seconds = (n - 1) / 2;
  Places best(static_cast<std::size_t>(firsts), 0), into(static_cast<std::size_t>(n));
  CachedVector<T> score(static_cast<std::size_t>(firsts), T{0});
  for (std::int64_t a = 0; a < firsts; ++a) {
    const T* const row = scores + a * seconds;
    best[a] = std::max_element(row, row + seconds) - row;
    score[a] = row[best[a]];
  }
  std::iota(into.begin(), into.end(), 0);
  for (const std::int64_t a : places_of_largest(std::span<const T>(score), n - 1 - left))
    into[1 + 2 * a] = 2 + 2 * best[a];
  return numbered(into);
}

// K-medoids of one image: similarity [n - 1, n - 1] of its patches, which weigh as their sizes.
// Only one half of it counts, so that rounding cannot part two members of a cluster who are equal.
template <class T>
class Medoids {
 public:
  Medoids(const T* similarity, const T* sizes, std::int64_t patches, std::int64_t clusters)
      : similarity_(static_cast<std::size_t>(patches * patches), T{1}),
        sizes_(sizes),
        n_(patches),
        of_(static_cast<std::size_t>(n_), 0) {
    for (std::int64_t i = 0; i < n_; ++i)
      for (std::int64_t j = i + 1; j < n_; ++j)
        similarity_[i * n_ + j] = similarity_[j * n_ + i] = similarity[i * n_ + j];
    for (std::int64_t c = 0; c < clusters; ++c) medoids_.push_back(c * n_ / clusters);
    assign();
    for (int i = 0; i < kIterations && move(); ++i) assign();
  }
  // With the class token before the patches.
  Joined joined() const {
    Places into(static_cast<std::size_t>(n_ + 1), 0);
    for (std::int64_t i = 0; i < n_; ++i) into[i + 1] = 1 + medoids_[of_[i]];
    return numbered(into);
  }

 private:
  // Each patch to the medoid that it is most like, of equal ones the first; a medoid to itself.
  void assign() {
    CachedVector<T> most(static_cast<std::size_t>(n_), -std::numeric_limits<T>::infinity());
    for (std::size_t c = 0; c < medoids_.size(); ++c) {
      const T* const row = similarity_.data() + medoids_[c] * n_;
      for (std::int64_t i = 0; i < n_; ++i)
        if (row[i] > most[i]) {
          most[i] = row[i];
          of_[i] = static_cast<std::int64_t>(c);
        }
    }
    for (std::size_t c = 0; c < medoids_.size(); ++c)
      of_[medoids_[c]] = static_cast<std::int64_t>(c);
  }
  // Each medoid to the member that is most like all of its cluster, of equal ones the first.
  // Whether any moved: if not, nothing else would from then on.
  bool move() {
    CachedVector<Places> members(medoids_.size());
    for (std::int64_t i = 0; i < n_; ++i) members[of_[i]].push_back(i);
    bool moved = false;
    for (std::size_t c = 0; c < medoids_.size(); ++c) {
      const std::int64_t best = middle_of(members[c]);
      moved = moved || best != medoids_[c];
      medoids_[c] = best;
    }
    return moved;
  }
  std::int64_t middle_of(const Places& members) const {
    std::int64_t best = members[0];
    double most = 0;
    for (const std::int64_t i : members) {
      double sum = 0;
      for (const std::int64_t j : members)
        sum += static_cast<double>(similarity_[i * n_ + j]) *
               (sizes_ ? static_cast<double>(sizes_[j + 1]) : 1);
      if (i == members[0] || sum > most) {
        most = sum;
        best = i;
      }
    }
    return best;
  }

  CachedVector<T> similarity_;
  const T* sizes_;
  std::int64_t n_;
  Places medoids_, of_;  // of_: the cluster of each patch
};

// Which of `left` + 1 tokens each token goes into, [B, N], on the host.
Tensor chosen(MergeOptions::Method method, const MergedTokens& tokens, const Tensor& keys,
              std::int64_t left) {
  const std::int64_t batch = keys.dim(0), n = keys.dim(1);
  const bool pairs = method == MergeOptions::Method::tome;
  const Tensor scores = pairs ? similarities(keys, every(1, 2, n), every(2, 2, n))
                              : similarities(keys, every(1, 1, n), every(1, 1, n));
  const Tensor sizes = tokens.sizes.defined() ? on_host(tokens.sizes) : Tensor();
  const Tensor ids = Tensor::zeros({batch, n}, DType::i64);
  if (!scores.storage()) {  // to count costs: any will do
    for (std::int64_t i = 0; i < ids.numel(); ++i)
      ids.data<std::int64_t>()[i] = std::min(i % n, left);
    return ids;
  }
  dispatch_float(scores.dtype(), "merge", [&]<class T>() {
    for (std::int64_t b = 0; b < batch; ++b) {
      const T* const own = scores.data<T>() + b * scores.dim(1) * scores.dim(2);
      const T* const weights = sizes.defined() ? sizes.data<T>() + b * n : nullptr;
      const Joined joined =
          pairs ? pairs_of(own, n, left) : Medoids<T>(own, weights, n - 1, left).joined();
      std::copy(joined.begin(), joined.end(), ids.data<std::int64_t>() + b * n);
    }
  });
  return ids;
}

// The sums of sizes [B, N], or of ones, at ids, [B, left]; on the host.
Tensor summed_sizes(const MergedTokens& tokens, const Tensor& ids, std::int64_t left) {
  const Tensor before = tokens.sizes.defined() ? on_host(tokens.sizes) : Tensor();
  const Tensor after = Tensor::zeros({ids.dim(0), left}, tokens.x.dtype());
  if (before.defined() && !before.storage()) return after;
  const std::int64_t n = ids.dim(1);
  dispatch_float(after.dtype(), "merge", [&]<class T>() {
    for (std::int64_t i = 0; i < ids.numel(); ++i)
      after.data<T>()[i / n * left + ids.data<std::int64_t>()[i]] +=
          before.defined() ? before.data<T>()[i] : T{1};
  });
  return after;
}

Tensor inverse(const Tensor& sizes) {
  const Tensor y = sizes.clone();
  dispatch_float(y.dtype(), "merge", [&]<class T>() {
    for (std::int64_t i = 0; i < y.numel(); ++i) y.data<T>()[i] = T{1} / y.data<T>()[i];
  });
  return y;
}

}  // namespace

std::int64_t MergeOptions::left_by(std::int64_t block, std::int64_t patches) const {
  if (!method) return patches;
  const std::int64_t wanted =
      keep.empty() ? patches - per_block : keep[static_cast<std::size_t>(block)];
  const std::int64_t fewest = method == Method::tome ? (patches + 1) / 2 : 1;
  return std::min(patches, std::max(wanted, fewest));
}

MergedTokens merged(MergeOptions::Method method, const MergedTokens& tokens, const Tensor& keys,
                    std::int64_t left) {
  const Scope scope("merge");
  const Device device = tokens.x.device();
  const Tensor ids = chosen(method, tokens, keys, left);
  const Tensor sizes = summed_sizes(tokens, ids, left + 1);
  const Tensor weighed = tokens.sizes.defined() ? scale_axes(tokens.x, tokens.sizes, 0) : tokens.x;
  const Tensor sums = scatter_add_rows(weighed, to_device(ids, device), left + 1);
  return {scale_axes(sums, to_device(inverse(sizes), device), 0), to_device(sizes, device)};
}

}  // namespace hg::nn
