#include "nn/attention/prune.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hg::nn {
namespace {

using Method = PruneOptions::Method;
using Group = PruneOptions::Scope;

constexpr std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

std::int64_t round_half_up(double x) { return static_cast<std::int64_t>(std::floor(x + 0.5)); }

// The units of all layers and heads: side x side tiles in each.
struct Grid {
  std::int64_t layers, heads, tokens, block, side;  // side: tiles in a row

  std::int64_t head_units() const { return side * side; }
  std::int64_t units() const { return layers * heads * head_units(); }
  std::int64_t row_of(std::int64_t unit) const { return unit / side % side; }
  std::int64_t column_of(std::int64_t unit) const { return unit % side; }
  // How many tokens tile row (or column) t has.
  std::int64_t size_of(std::int64_t t) const { return std::min(block, tokens - t * block); }
  std::int64_t group_units(Group scope) const {
    if (scope == Group::global) return units();
    if (scope == Group::layer) return heads * head_units();
    return scope == Group::head ? head_units() : side;
  }
};

Grid grid_of(const std::vector<Tensor>& priors, const PruneOptions& o) {
  require(!priors.empty(), "prune", "no priors");
  const Shape& first = priors[0].shape();
  const int rank = o.method == Method::keys ? 2 : 3;
  for (const Tensor& pi : priors)
    require(pi.rank() == rank && pi.shape() == first && pi.dtype() == DType::f32 &&
                pi.dim(-1) == pi.dim(1),
            "prune", "expected priors f32 {}, got {}", rank == 2 ? "[H,N]" : "[H,N,N]", pi);
  for (const double share : {o.fraction, o.key_fraction})
    require(share >= 0 && share <= 1, "prune", "a fraction of {}", share);
  require(o.method != Method::mixed || o.fraction >= o.key_fraction, "prune",
          "fraction {} is below key_fraction {}", o.fraction, o.key_fraction);
  require(o.block >= 1 && o.min_per_row >= 0, "prune", "block {}, min_per_row {}", o.block,
          o.min_per_row);
  return {static_cast<std::int64_t>(priors.size()), first[0], first[1], o.block,
          (first[1] + o.block - 1) / o.block};
}

// Sum of |pi| of every unit; the prior of a key counts for each of its pairs.
std::vector<double> importance_of(const std::vector<Tensor>& priors, const Grid& grid) {
  std::vector<double> sums(at(grid.units()), 0.0);
  const std::int64_t n = grid.tokens;
  const bool by_key = priors[0].rank() == 2;
  for (std::int64_t l = 0; l < grid.layers; ++l)
    for (std::int64_t h = 0; h < grid.heads; ++h)
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          const std::int64_t head = l * grid.heads + h;
          const std::int64_t unit =
              (head * grid.side + i / grid.block) * grid.side + j / grid.block;
          const float pi = priors[at(l)].data<float>()[by_key ? h * n + j : (h * n + i) * n + j];
          sums[at(unit)] += std::abs(static_cast<double>(pi));
        }
  return sums;
}

// Removes the `count` candidates of the smallest importance, the first of equal ones.
void remove_smallest(std::vector<std::int64_t> candidates, const std::vector<double>& importance,
                     std::int64_t count, std::vector<char>& kept) {
  const auto n = std::clamp<std::int64_t>(count, 0, static_cast<std::int64_t>(candidates.size()));
  std::stable_sort(candidates.begin(), candidates.end(), [&](std::int64_t a, std::int64_t b) {
    return importance[at(a)] < importance[at(b)];
  });
  for (std::int64_t i = 0; i < n; ++i) kept[at(candidates[at(i)])] = 0;
}

bool is_protected(const Grid& grid, const PruneOptions& o, std::int64_t unit) {
  return o.protect_cls && (grid.row_of(unit) == 0 || grid.column_of(unit) == 0);
}

// Drops that share of each head's tile columns which has the smallest sums.
void drop_keys(const Grid& grid, const PruneOptions& o, const std::vector<double>& importance,
               double share, std::vector<char>& kept) {
  for (std::int64_t head = 0; head < grid.layers * grid.heads; ++head) {
    const std::int64_t first = head * grid.head_units();
    std::vector<double> sums(at(grid.side), 0.0);
    for (std::int64_t u = 0; u < grid.head_units(); ++u)
      sums[at(grid.column_of(u))] += importance[at(first + u)];
    std::vector<std::int64_t> columns(at(grid.side));
    std::iota(columns.begin(), columns.end(), 0);
    if (o.protect_cls) columns.erase(columns.begin());
    std::vector<char> kept_columns(at(grid.side), 1);
    remove_smallest(columns, sums, round_half_up(share * static_cast<double>(grid.side)),
                    kept_columns);
    for (std::int64_t u = 0; u < grid.head_units(); ++u)
      if (!kept_columns[at(grid.column_of(u))]) kept[at(first + u)] = 0;
  }
}

// Drops units of each group until, with those already gone, `fraction` of it is gone.
void drop_pairs(const Grid& grid, const PruneOptions& o, const std::vector<double>& importance,
                std::vector<char>& kept) {
  const std::int64_t size = grid.group_units(o.scope);
  for (std::int64_t first = 0; first < grid.units(); first += size) {
    std::vector<std::int64_t> candidates;
    std::int64_t gone = 0;
    for (std::int64_t u = first; u < first + size; ++u) {
      gone += !kept[at(u)];
      if (kept[at(u)] && !is_protected(grid, o, u)) candidates.push_back(u);
    }
    remove_smallest(candidates, importance,
                    round_half_up(o.fraction * static_cast<double>(size)) - gone, kept);
  }
}

// Gives rows with too few pairs their largest units back, those of kept keys first.
std::int64_t restore_rows(const Grid& grid, const PruneOptions& o,
                          const std::vector<double>& importance, std::vector<char>& kept) {
  std::int64_t restored = 0;
  const std::int64_t least = std::min(o.min_per_row, grid.tokens);
  for (std::int64_t head = 0; head < grid.layers * grid.heads; ++head) {
    const std::int64_t first = head * grid.head_units();
    std::vector<char> kept_column(at(grid.side), 0);
    for (std::int64_t u = 0; u < grid.head_units(); ++u)
      if (kept[at(first + u)]) kept_column[at(grid.column_of(u))] = 1;
    for (std::int64_t row = 0; row < grid.side; ++row) {
      std::int64_t pairs = 0;
      std::vector<std::int64_t> gone;
      for (std::int64_t c = 0; c < grid.side; ++c) {
        const std::int64_t unit = first + row * grid.side + c;
        if (kept[at(unit)])
          pairs += grid.size_of(c);
        else
          gone.push_back(unit);
      }
      if (pairs >= least) continue;
      restored += grid.size_of(row);
      std::stable_sort(gone.begin(), gone.end(), [&](std::int64_t a, std::int64_t b) {
        const bool kept_a = kept_column[at(grid.column_of(a))],
                   kept_b = kept_column[at(grid.column_of(b))];
        return kept_a != kept_b ? kept_a : importance[at(a)] > importance[at(b)];
      });
      for (std::size_t i = 0; pairs < least; ++i) {
        kept[at(gone[i])] = 1;
        pairs += grid.size_of(grid.column_of(gone[i]));
      }
    }
  }
  return restored;
}

std::shared_ptr<const PairSupport> support_of_layer(const Grid& grid, std::int64_t layer,
                                                    const std::vector<char>& kept) {
  return std::make_shared<const PairSupport>(
      grid.heads, grid.tokens, [&](std::int64_t h, std::int64_t i, PairSupport::Row& keys) {
        const std::int64_t row =
            ((layer * grid.heads + h) * grid.side + i / grid.block) * grid.side;
        for (std::int64_t j = 0; j < grid.tokens; ++j)
          if (kept[at(row + j / grid.block)]) keys.push_back(static_cast<std::uint16_t>(j));
      });
}

constexpr std::int64_t kBits = 64;

std::int64_t words_of(std::int64_t tokens) { return (tokens + kBits - 1) / kBits; }

std::uint64_t bit(std::int64_t key) { return std::uint64_t{1} << (key % kBits); }

}  // namespace

Pruned prune(const std::vector<Tensor>& priors, const PruneOptions& o) {
  const Grid grid = grid_of(priors, o);
  const std::vector<double> importance = importance_of(priors, grid);
  std::vector<char> kept(at(grid.units()), 1);
  if (o.method != Method::scores)
    drop_keys(grid, o, importance, o.method == Method::keys ? o.fraction : o.key_fraction, kept);
  if (o.method != Method::keys) drop_pairs(grid, o, importance, kept);
  Pruned result;
  result.counts.restored_rows = restore_rows(grid, o, importance, kept);
  for (std::int64_t l = 0; l < grid.layers; ++l) {
    result.supports.push_back(support_of_layer(grid, l, kept));
    result.counts.kept_pairs += result.supports.back()->pairs();
    result.counts.kept_keys += result.supports.back()->kept();
  }
  result.counts.pairs = grid.layers * grid.heads * grid.tokens * grid.tokens;
  result.counts.keys = grid.layers * grid.heads * grid.tokens;
  return result;
}

Tensor mask_of(const PairSupport& support) {
  const std::int64_t n = support.tokens(), words = words_of(n);
  const Tensor mask = Tensor::zeros({support.heads(), n, words}, DType::i64);
  for (std::int64_t h = 0; h < support.heads(); ++h) {
    const PairSupport::Lists lists = support.by_query(h);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t p = lists.begin(i, 0); p < lists.begin(i + 1, 0); ++p) {
        const std::int64_t key = support.kept_tokens(h)[lists.others[p]];
        std::int64_t& word = mask.data<std::int64_t>()[(h * n + i) * words + key / kBits];
        word = static_cast<std::int64_t>(static_cast<std::uint64_t>(word) | bit(key));
      }
  }
  return mask;
}

std::shared_ptr<const PairSupport> support_of(const Tensor& mask) {
  require(mask.rank() == 3 && mask.dtype() == DType::i64 && mask.dim(0) > 0 && mask.dim(1) > 0 &&
              mask.dim(1) <= PairSupport::kMostTokens && mask.dim(2) == words_of(mask.dim(1)),
          "mask", "expected i64[H,N,N/64], got {}", mask);
  const std::int64_t n = mask.dim(1), words = mask.dim(2);
  const std::int64_t* const bits = mask.data<std::int64_t>();
  const auto has = [&](std::int64_t row, std::int64_t key) {
    return (static_cast<std::uint64_t>(bits[row * words + key / kBits]) & bit(key)) != 0;
  };
  for (std::int64_t row = 0; row < mask.dim(0) * n; ++row)
    for (std::int64_t key = n; key < words * kBits; ++key)
      require(!has(row, key), "mask", "a bit of key {} in {} of {} keys", key, mask, n);
  return std::make_shared<const PairSupport>(
      mask.dim(0), n, [&](std::int64_t h, std::int64_t i, PairSupport::Row& keys) {
        for (std::int64_t j = 0; j < n; ++j)
          if (has(h * n + i, j)) keys.push_back(static_cast<std::uint16_t>(j));
      });
}

}  // namespace hg::nn
