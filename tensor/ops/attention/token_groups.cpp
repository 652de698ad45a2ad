#include "tensor/ops/attention/token_groups.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tensor/transfer.h"

namespace hg {
namespace {

constexpr std::int32_t kEverywhere = Grouping::kEverywhere;
using Numbers = CachedVector<std::int32_t>;

// Tokens by group, in order, and where each group of each round begins.
struct ByGroup {
  Numbers begins, tokens;
  ByGroup(const Numbers& labels, std::int64_t rounds, std::int64_t groups)
      : begins(static_cast<std::size_t>(rounds * (groups + 1)), 0), tokens(labels.size(), 0) {
    const auto count = static_cast<std::int64_t>(labels.size()) / rounds;
    for (std::int64_t r = 0; r < rounds; ++r) {
      const std::int32_t* const label = labels.data() + r * count;
      std::int32_t* const begin = begins.data() + r * (groups + 1);
      for (std::int64_t i = 0; i < count; ++i)
        if (label[i] != kEverywhere) ++begin[label[i] + 1];
      std::partial_sum(begin, begin + groups + 1, begin);
      Numbers next(begin, begin + groups);
      for (std::int64_t i = 0; i < count; ++i)
        if (label[i] != kEverywhere)
          tokens[r * count + next[label[i]]++] = static_cast<std::int32_t>(i);
    }
  }
};

Numbers free_tokens(const Numbers& labels, std::int64_t count) {
  Numbers free;
  for (std::int64_t i = 0; i < count; ++i)
    if (labels[i] == kEverywhere) free.push_back(static_cast<std::int32_t>(i));
  return free;
}

// Whether query i has a key other than `place`.
bool has_other_key(const Grouping& g, int i, std::int32_t place) {
  const auto beyond = [place](const std::int32_t* keys, int count) {
    return std::any_of(keys, keys + count, [place](std::int32_t j) { return j != place; });
  };
  if (beyond(g.free_key, g.free_keys)) return true;
  if (g.group_of_query(0, i) == kEverywhere) return g.keys > (place >= 0 ? 1 : 0);
  for (int r = 0; r < g.rounds; ++r) {
    const Grouping::List keys = g.keys_of(r, g.group_of_query(r, i));
    if (beyond(keys.tokens, keys.count)) return true;
  }
  return false;
}

std::int64_t pairs_of(const Grouping& g) {
  std::int64_t pairs = std::int64_t{g.free_queries} * g.keys;
  for (int r = 0; r < g.rounds; ++r)
    for (int group = 0; group < g.groups; ++group)
      pairs += std::int64_t{g.queries_of(r, group).count} *
               (g.keys_of(r, group).count + (r == 0 ? g.free_keys : 0));
  return pairs;
}

}  // namespace

TokenGroups::TokenGroups(std::int64_t rounds, const Numbers& place, bool self,
                         const CachedVector<Labels>& labels)
    : groupings_(static_cast<std::int64_t>(labels.size())), data_(kHeader, 0) {
  require(rounds > 0 && !labels.empty() && !place.empty() && !labels[0].keys.empty(),
          "token groups", "nothing to group: {} rounds, {} queries", rounds, place.size());
  std::int32_t groups = 0;
  for (const Labels& of_head : labels) {
    require(of_head.queries.size() == place.size() * static_cast<std::size_t>(rounds) &&
                of_head.keys.size() == labels[0].keys.size() &&
                of_head.keys.size() % static_cast<std::size_t>(rounds) == 0,
            "token groups", "{} and {} groups for {} queries in {} rounds", of_head.queries.size(),
            of_head.keys.size(), place.size(), rounds);
    for (const Numbers* list : {&of_head.queries, &of_head.keys})
      for (const std::int32_t label : *list) {
        require(label >= kEverywhere, "token groups", "a group of number {}", label);
        groups = std::max(groups, label + 1);
      }
  }
  const auto queries = static_cast<std::int64_t>(place.size());
  const auto keys = static_cast<std::int64_t>(labels[0].keys.size()) / rounds;
  const std::int64_t stride = 2 + 2 * rounds * (queries + keys + groups + 1) + 2 * queries + keys;
  require(groupings_ * stride < (std::int64_t{1} << 31), "token groups",
          "{} queries and {} keys of {} heads are too many", queries, keys, groupings_);
  const std::int64_t header[] = {rounds, queries, keys, groups, groupings_, stride};
  for (int field = 0; field < kHeader; ++field)
    data_[field] = static_cast<std::int32_t>(header[field]);
  for (const Labels& of_head : labels) add(of_head, place, self);
}

void TokenGroups::add(const Labels& labels, const Numbers& place, bool self) {
  const std::int64_t rounds = data_[kRounds], groups = data_[kGroups];
  const auto put = [this](const Numbers& numbers, std::int64_t room) {
    data_.insert(data_.end(), numbers.begin(), numbers.end());
    data_.resize(data_.size() + static_cast<std::size_t>(room) - numbers.size(), -1);
  };
  const auto all = [&](const Numbers& numbers) {
    put(numbers, static_cast<std::int64_t>(numbers.size()));
  };
  const ByGroup queries(labels.queries, rounds, groups), keys(labels.keys, rounds, groups);
  const Numbers free_queries = free_tokens(labels.queries, this->queries()),
                free_keys = free_tokens(labels.keys, this->keys());
  const auto head = static_cast<std::int64_t>(pairs_.size());
  all({static_cast<std::int32_t>(free_queries.size()),
       static_cast<std::int32_t>(free_keys.size())});
  all(labels.queries), all(labels.keys), all(queries.begins), all(keys.begins);
  all(queries.tokens), all(keys.tokens);
  put(free_queries, this->queries()), put(free_keys, this->keys());
  all(place);
  const Grouping g = view(data_.data(), head);
  std::int32_t* const left_out = data_.data() + (g.left_out - data_.data());
  for (int i = 0; i < g.queries; ++i) {
    const bool other = has_other_key(g, i, place[i]);
    require(other || place[i] >= 0, "token groups", "query {} has no key", i);
    if (self || !other) left_out[i] = -1;
  }
  pairs_.push_back(pairs_of(g));
}

const Tensor& TokenGroups::on_device() const {
  std::call_once(copied_, [this] {
    const Tensor bytes = Tensor::empty({static_cast<std::int64_t>(this->bytes())}, DType::u8);
    std::memcpy(bytes.raw(), data_.data(), bytes.bytes());
    on_device_ = to_device(bytes, Device::cuda);
  });
  return on_device_;
}

std::int64_t GroupsOfImages::pairs(std::int64_t images, std::int64_t heads) const {
  const auto of = [heads](const TokenGroups& groups) {
    std::int64_t pairs = 0;
    for (std::int64_t h = 0; h < heads; ++h) pairs += groups.pairs(h);
    return pairs;
  };
  if (size() == 1) return images * of(*front());
  std::int64_t pairs = 0;
  for (std::int64_t b = 0; b < images; ++b) pairs += of(of_image(b));
  return pairs;
}

std::uint64_t GroupsOfImages::bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& groups : *this) bytes += groups->bytes();
  return bytes;
}

void GroupsOfImages::check(const Op& op, const Tensor& q, const Tensor& k,
                           std::int64_t heads) const {
  require(!empty(), op.name(), "no groups");
  require(size() == 1 || static_cast<std::int64_t>(size()) == q.dim(0), op.name(),
          "groups of {} images for {}", size(), q.dim(0));
  for (const auto& groups : *this)
    require(groups->queries() == q.dim(1) && groups->keys() == k.dim(1) &&
                groups->rounds() == front()->rounds() &&
                (groups->groupings() == 1 || groups->groupings() == heads),
            op.name(), "groups of {} queries and {} keys, {} heads, for {} and {}",
            groups->queries(), groups->keys(), groups->groupings(), q, k);
}

}  // namespace hg
