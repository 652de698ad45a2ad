// The pruning algorithms of nn/METHODS.md, section 2.6, on priors small enough to see through.
#include "nn/attention/prune.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tensor/random.h"

namespace prune_test {

using namespace hg;
using nn::PruneOptions;
using Method = PruneOptions::Method;
using Scope = PruneOptions::Scope;

std::vector<Tensor> random_priors(std::int64_t layers, const Shape& shape, std::uint64_t seed = 1) {
  std::vector<Tensor> all;
  for (std::int64_t l = 0; l < layers; ++l) {
    RandomStream stream(seed + static_cast<std::uint64_t>(l), "priors");
    all.push_back(Tensor::empty(shape));
    fill_uniform(all.back(), stream, -1, 1);
  }
  return all;
}

// "x." a pair kept or not, row by row of one head.
std::string picture(const PairSupport& support, std::int64_t head = 0) {
  std::string text;
  for (std::int64_t i = 0; i < support.tokens(); ++i) {
    if (i > 0) text += '/';
    for (std::int64_t j = 0; j < support.tokens(); ++j) text += support.has(head, i, j) ? 'x' : '.';
  }
  return text;
}

std::int64_t dropped(double fraction, std::int64_t group) {
  return static_cast<std::int64_t>(std::floor(fraction * static_cast<double>(group) + 0.5));
}

const std::vector<Tensor> kSmall{
    Tensor::of<float>({1, 3, 3}, {.5f, .25f, 1.5f, -.4f, .1f, 0, 1, 1, -1})};

TEST_CASE("scores prunes the smallest priors whatever their sign and the first of equal ones") {
  PruneOptions o{.method = Method::scores, .fraction = 3.0 / 9, .min_per_row = 0};
  CHECK(picture(*nn::prune(kSmall, o).supports[0]) == "x.x/x../xxx");
  o.fraction = 6.0 / 9;  // 1, 1 and 1 are left; of those of size 1 none goes yet
  CHECK(picture(*nn::prune(kSmall, o).supports[0]) == "..x/.../.xx");
  o.fraction = 0;
  CHECK(nn::prune(kSmall, o).counts.kept_pairs == 9);
  o.fraction = 1;
  CHECK(nn::prune(kSmall, o).counts.kept_pairs == 0);
}

TEST_CASE("a share is rounded half up") {
  const std::vector<Tensor> priors = random_priors(1, {1, 3, 3});
  for (const double fraction : {0.05, 0.055, 0.0556, 0.5, 0.49, 0.51}) {
    INFO(fraction);
    const PruneOptions o{.fraction = fraction, .min_per_row = 0};
    CHECK(nn::prune(priors, o).counts.kept_pairs == 9 - dropped(fraction, 9));
  }
}

TEST_CASE("emptied rows get their largest priors back and are reported") {
  PruneOptions o{.method = Method::scores, .fraction = 6.0 / 9, .min_per_row = 1};
  nn::Pruned pruned = nn::prune(kSmall, o);
  CHECK(pruned.counts.restored_rows == 1);
  // row 1's largest prior is of key 0, but keys 1 and 2 are there anyway: the larger of those
  CHECK(picture(*pruned.supports[0]) == "..x/.x./.xx");
  o.min_per_row = 2;
  pruned = nn::prune(kSmall, o);
  CHECK(pruned.counts.restored_rows == 2);
  CHECK(picture(*pruned.supports[0]) == ".xx/.xx/.xx");
}

TEST_CASE("each scope takes its share of every group") {
  const std::int64_t layers = 3, heads = 2, n = 7;
  const std::vector<Tensor> priors = random_priors(layers, {heads, n, n});
  for (const double k : {0.3, 0.7}) {
    PruneOptions o{.fraction = k, .min_per_row = 0};
    const auto total = [&](Scope scope) {
      o.scope = scope;
      return nn::prune(priors, o);
    };
    CHECK(total(Scope::global).counts.kept_pairs ==
          layers * heads * n * n - dropped(k, layers * heads * n * n));
    for (const auto& s : total(Scope::layer).supports)
      CHECK(s->pairs() == heads * n * n - dropped(k, heads * n * n));
    for (const auto& s : total(Scope::head).supports)
      for (std::int64_t h = 0; h < heads; ++h) CHECK(s->pairs(h) == n * n - dropped(k, n * n));
    for (const auto& s : total(Scope::row).supports)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t i = 0; i < n; ++i)
          CHECK(s->by_query(h).begin(i + 1, 0) - s->by_query(h).begin(i, 0) == n - dropped(k, n));
  }
}

TEST_CASE("what survives is never smaller than what goes") {
  const std::vector<Tensor> priors = random_priors(2, {2, 9, 9});
  const nn::Pruned pruned = nn::prune(priors, {.fraction = 0.6, .min_per_row = 0});
  double largest_gone = 0, smallest_kept = 1;
  for (std::size_t l = 0; l < 2; ++l)
    for (std::int64_t p = 0; p < priors[l].numel(); ++p) {
      const double pi = std::abs(priors[l].data<float>()[p]);
      if (pruned.supports[l]->has(p / 81, p / 9 % 9, p % 9))
        smallest_kept = std::min(smallest_kept, pi);
      else
        largest_gone = std::max(largest_gone, pi);
    }
  CHECK(largest_gone <= smallest_kept);
}

TEST_CASE("mixed drops keys of each head and keeps exactly its share of pairs") {
  const std::int64_t layers = 2, heads = 3, n = 20;
  const std::vector<Tensor> priors = random_priors(layers, {heads, n, n});
  for (const Scope scope : {Scope::global, Scope::layer, Scope::head, Scope::row}) {
    const PruneOptions o{.method = Method::mixed,
                         .fraction = 0.7,
                         .key_fraction = 0.2,
                         .scope = scope,
                         .min_per_row = 0};
    const nn::Pruned pruned = nn::prune(priors, o);
    CHECK(pruned.counts.kept_pairs == layers * heads * n * n * 3 / 10);
    for (std::size_t l = 0; l < 2; ++l)
      for (std::int64_t h = 0; h < heads; ++h) {
        CHECK(pruned.supports[l]->kept(h) <= n - 4);
        // The four keys with the smallest sums are gone.
        std::vector<std::pair<double, std::int64_t>> sums;
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (std::int64_t i = 0; i < n; ++i)
            sum += std::abs(priors[l].data<float>()[(h * n + i) * n + j]);
          sums.emplace_back(sum, j);
        }
        std::sort(sums.begin(), sums.end());
        for (std::size_t gone = 0; gone < 4; ++gone)
          for (std::int64_t i = 0; i < n; ++i)
            CHECK(!pruned.supports[l]->has(h, i, sums[gone].second));
      }
  }
}

TEST_CASE("keys drops whole keys of each head by the size of their prior") {
  const std::vector<Tensor> priors{
      Tensor::of<float>({2, 5}, {.5f, -.1f, .3f, .2f, 1, 0, 0, -2, 0, .1f})};
  const nn::Pruned pruned = nn::prune(priors, {.method = Method::keys, .fraction = 0.4});
  CHECK(picture(*pruned.supports[0], 0) == "x.x.x/x.x.x/x.x.x/x.x.x/x.x.x");
  CHECK(picture(*pruned.supports[0], 1) == "..xxx/..xxx/..xxx/..xxx/..xxx");
  CHECK(pruned.counts.kept_keys == 6);
}

TEST_CASE("the class token keeps its pairs where it is protected") {
  const std::int64_t n = 8;
  const std::vector<Tensor> priors = random_priors(1, {2, n, n});
  PruneOptions o{.fraction = 0.7, .min_per_row = 0, .protect_cls = true};
  nn::Pruned pruned = nn::prune(priors, o);
  CHECK(pruned.counts.kept_pairs == 2 * n * n - dropped(0.7, 2 * n * n));
  for (std::int64_t h = 0; h < 2; ++h)
    for (std::int64_t i = 0; i < n; ++i) {
      CHECK(pruned.supports[0]->has(h, 0, i));
      CHECK(pruned.supports[0]->has(h, i, 0));
    }
  o.fraction = 1;
  CHECK(nn::prune(priors, o).counts.kept_pairs == 2 * (2 * n - 1));
}

TEST_CASE("blocks are pruned as whole tiles") {
  const std::int64_t n = 10;  // tiles of 4, 4 and 2
  const std::vector<Tensor> priors = random_priors(1, {1, n, n});
  const nn::Pruned pruned = nn::prune(priors, {.fraction = 4.0 / 9, .min_per_row = 0, .block = 4});
  std::int64_t tiles = 0;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const bool kept = pruned.supports[0]->has(0, i, j);
      CHECK(kept == pruned.supports[0]->has(0, i / 4 * 4, j / 4 * 4));
      tiles += kept && i % 4 == 0 && j % 4 == 0;
    }
  CHECK(tiles == 5);
}

TEST_CASE("priors and options that do not fit are refused") {
  const auto refused = [](const std::vector<Tensor>& priors, const PruneOptions& o) {
    CHECK_THROWS_AS(nn::prune(priors, o), Error);
  };
  const std::vector<Tensor> pairs = random_priors(1, {2, 4, 4}), keys = random_priors(1, {2, 4});
  refused({}, {});
  refused(keys, {.method = Method::scores});
  refused(pairs, {.method = Method::keys});
  refused({pairs[0], random_priors(1, {2, 5, 5})[0]}, {});
  refused(pairs, {.fraction = 1.5});
  refused(pairs, {.method = Method::mixed, .fraction = 0.1, .key_fraction = 0.2});
  refused(pairs, {.block = 0});
}

TEST_CASE("a support survives as bits") {
  for (const std::int64_t n : {1, 63, 64, 65, 100}) {
    const nn::Pruned pruned = nn::prune(random_priors(1, {2, n, n}), {.fraction = 0.5});
    const Tensor mask = nn::mask_of(*pruned.supports[0]);
    const auto again = nn::support_of(mask);
    CHECK(mask.shape() == Shape{2, n, (n + 63) / 64});
    CHECK(again->pairs() == pruned.supports[0]->pairs());
    for (std::int64_t h = 0; h < 2; ++h)
      CHECK(picture(*again, h) == picture(*pruned.supports[0], h));
  }
  const Tensor mask = nn::mask_of(*PairSupport::whole(1, 3));
  mask.data<std::int64_t>()[1] |= 8;  // of a fourth key
  CHECK_THROWS_AS(nn::support_of(mask), Error);
  CHECK_THROWS_AS(nn::support_of(Tensor::zeros({1, 3, 2}, DType::i64)), Error);
  CHECK_THROWS_AS(nn::support_of(Tensor::zeros({1, 3, 1})), Error);
}

}  // namespace prune_test
