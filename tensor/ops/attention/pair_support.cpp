#include "tensor/ops/attention/pair_support.h"

#include <algorithm>
#include <cstring>

#include "tensor/transfer.h"

namespace hg {
namespace {

// begins[row * tiles + tile], with the end of all behind them, of rows of ascending numbers.
void append_begins(const CachedVector<CachedVector<std::uint16_t>>& rows, std::int64_t tiles,
                   CachedVector<std::uint32_t>& begins) {
  std::uint32_t place = 0;
  for (const auto& row : rows) {
    std::size_t next = 0;
    for (std::int64_t t = 0; t < tiles; ++t) {
      begins.push_back(place);
      for (; next < row.size() && row[next] < (t + 1) * PairSupport::kTile; ++next) ++place;
    }
  }
  begins.push_back(place);
}

}  // namespace

PairSupport::PairSupport(std::int64_t heads, std::int64_t tokens, const KeysOf& keys_of)
    : heads_(heads), tokens_(tokens), tiles_((tokens + kTile - 1) / kTile) {
  require(heads > 0 && tokens > 0 && tokens <= kMostTokens, "pair support",
          "{} heads of {} tokens; expected 1 to {} tokens", heads, tokens, kMostTokens);
  for (std::int64_t h = 0; h < heads; ++h) add_head(h, keys_of);
}

void PairSupport::add_head(std::int64_t head, const KeysOf& keys_of) {
  CachedVector<Row> by_token(static_cast<std::size_t>(tokens_)),
      by_query(static_cast<std::size_t>(tokens_)), by_key;
  Row keys;
  for (std::int64_t i = 0; i < tokens_; ++i) {
    keys.clear();
    keys_of(head, i, keys);
    for (const std::uint16_t j : keys) by_token[j].push_back(static_cast<std::uint16_t>(i));
  }
  std::int64_t pairs = 0;
  for (std::int64_t j = 0; j < tokens_; ++j) {
    if (by_token[j].empty()) continue;
    const auto key = static_cast<std::uint16_t>(by_key.size());
    kept_tokens_.push_back(static_cast<std::uint16_t>(j));
    for (const std::uint16_t i : by_token[j]) by_query[i].push_back(key);
    pairs += static_cast<std::int64_t>(by_token[j].size());
    by_key.push_back(std::move(by_token[j]));
  }
  query_lists_.push_back(static_cast<std::int64_t>(query_begin_.size()));
  key_lists_.push_back(static_cast<std::int64_t>(key_list_begin_.size()));
  append_begins(by_query, tiles_, query_begin_);
  append_begins(by_key, tiles_, key_list_begin_);
  for (const Row& row : by_query) keys_.insert(keys_.end(), row.begin(), row.end());
  CachedVector<std::uint32_t> next(
      static_cast<std::size_t>(tokens_));  // place of each query's next pair
  for (std::int64_t i = 0; i < tokens_; ++i)
    next[i] = query_begin_[query_lists_.back() + i * tiles_];
  for (const Row& row : by_key)
    for (const std::uint16_t i : row) {
      queries_.push_back(i);
      places_.push_back(next[i]++);
    }
  pair_begin_.push_back(pair_begin_.back() + pairs);
  key_begin_.push_back(key_begin_.back() + static_cast<std::int64_t>(by_key.size()));
}

std::shared_ptr<const PairSupport> PairSupport::whole(std::int64_t heads, std::int64_t tokens) {
  const auto every_key = [tokens](std::int64_t, std::int64_t, Row& keys) {
    for (std::int64_t j = 0; j < tokens; ++j) keys.push_back(static_cast<std::uint16_t>(j));
  };
  return std::allocate_shared<const PairSupport>(CachedAllocator<PairSupport>{}, heads, tokens,
                                                 every_key);
}

PairSupport::Lists PairSupport::by_query(std::int64_t head) const {
  return {query_begin_.data() + query_lists_[head], keys_.data() + first_pair(head), nullptr,
          tiles_};
}

PairSupport::Lists PairSupport::by_key(std::int64_t head) const {
  return {key_list_begin_.data() + key_lists_[head], queries_.data() + first_pair(head),
          places_.data() + first_pair(head), tiles_};
}

Tensor PairSupport::packed() const {
  std::int64_t size = heads_ * static_cast<std::int64_t>(sizeof(PackedHead));
  const auto place = [&](const auto& list) {  // in bytes, aligned for the widest element
    const std::int64_t offset = size;
    size += (static_cast<std::int64_t>(list.size() * sizeof(list[0])) + 7) / 8 * 8;
    return offset;
  };
  const std::int64_t query_begins = place(query_begin_), keys = place(keys_),
                     key_begins = place(key_list_begin_), queries = place(queries_),
                     places = place(places_), kept_tokens = place(kept_tokens_);
  const Tensor bytes = Tensor::empty({size}, DType::u8);
  std::uint8_t* const to = bytes.data<std::uint8_t>();
  const auto put = [&](const auto& list, std::int64_t offset) {
    std::memcpy(to + offset, list.data(), list.size() * sizeof(list[0]));
  };
  put(query_begin_, query_begins), put(keys_, keys), put(key_list_begin_, key_begins);
  put(queries_, queries), put(places_, places), put(kept_tokens_, kept_tokens);
  for (std::int64_t h = 0; h < heads_; ++h) {
    const PackedHead head{first_key(h),
                          first_pair(h),
                          kept(h),
                          tiles_,
                          query_begins + 4 * query_lists_[h],
                          keys + 2 * first_pair(h),
                          key_begins + 4 * key_lists_[h],
                          queries + 2 * first_pair(h),
                          places + 4 * first_pair(h),
                          kept_tokens + 2 * first_key(h)};
    std::memcpy(to + h * static_cast<std::int64_t>(sizeof head), &head, sizeof head);
  }
  return bytes;
}

const Tensor& PairSupport::on_device() const {
  std::call_once(copied_, [this] { on_device_ = to_device(packed(), Device::cuda); });
  return on_device_;
}

bool PairSupport::has(std::int64_t head, std::int64_t query, std::int64_t key) const {
  const std::uint16_t* const tokens = kept_tokens(head);
  const std::uint16_t* const found = std::lower_bound(tokens, tokens + kept(head), key);
  if (found == tokens + kept(head) || *found != key) return false;
  const Lists lists = by_query(head);
  return std::binary_search(lists.others + lists.begin(query, 0),
                            lists.others + lists.begin(query + 1, 0), found - tokens);
}

std::shared_ptr<const PairSupport> PairSupport::among(const std::int64_t* ids,
                                                      std::int64_t n) const {
  for (std::int64_t i = 0; i < n; ++i)
    require(ids[i] >= 0 && ids[i] < tokens_, "pair support",
            "id {} at position {} out of range: {} positions", ids[i], i, tokens_);
  CachedVector<std::int64_t> place(static_cast<std::size_t>(tokens_),
                                   -1);  // of each position among the ids
  for (std::int64_t i = 0; i < n; ++i) place[ids[i]] = i;
  const auto keys_of = [&](std::int64_t h, std::int64_t i, Row& keys) {
    const Lists lists = by_query(h);
    for (std::int64_t k = lists.begin(ids[i], 0); k < lists.begin(ids[i] + 1, 0); ++k) {
      const std::int64_t j = place[kept_tokens(h)[lists.others[k]]];
      if (j >= 0) keys.push_back(static_cast<std::uint16_t>(j));
    }
    if (!std::is_sorted(keys.begin(), keys.end())) std::sort(keys.begin(), keys.end());
  };
  return std::allocate_shared<const PairSupport>(CachedAllocator<PairSupport>{}, heads_, n,
                                                 std::cref(keys_of));
}

std::int64_t Supports::sum(std::int64_t images, std::int64_t (PairSupport::*of)() const) const {
  if (size() == 1) return images * (*front().*of)();
  std::int64_t sum = 0;
  for (std::int64_t b = 0; b < images; ++b) sum += (of_image(b).*of)();
  return sum;
}

void Supports::check(const Op& op, const Tensor& x) const {
  require(!empty(), op.name(), "no support");
  require(size() == 1 || static_cast<std::int64_t>(size()) == x.dim(0), op.name(),
          "{} supports for {} images", size(), x.dim(0));
  for (const auto& support : *this)
    require(support->heads() == heads() && support->tokens() == x.dim(1), op.name(),
            "a support of {} heads of {} tokens for {}", support->heads(), support->tokens(), x);
}

}  // namespace hg
