#include "nn/attention/grouped.h"

#include <cmath>
#include <numeric>

#include "tensor/transfer.h"

namespace hg::nn {
namespace {

// 0, 1, .. of that many tokens.
CachedVector<std::int64_t> counted(std::int64_t n) {
  CachedVector<std::int64_t> numbers(static_cast<std::size_t>(n));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// Row `b` of integers [N] or [B, N] that are on the host; one row serves all.
std::span<const std::int64_t> row_of(const Tensor& t, std::int64_t b) {
  const auto width = t.dim(-1);
  return {t.data<std::int64_t>() + (t.rank() == 2 ? b * width : 0),
          static_cast<std::size_t>(width)};
}

}  // namespace

std::int64_t grid_columns(std::int64_t patches) {
  auto columns = static_cast<std::int64_t>(std::sqrt(static_cast<double>(patches)));
  while (columns * columns < patches) ++columns;
  return std::max<std::int64_t>(1, columns);
}

PlacedGroups::PlacedGroups(std::int64_t tokens, bool by_head, GroupOf group_of)
    : tokens_(tokens),
      columns_(grid_columns(tokens - 1)),
      by_head_(by_head),
      group_of_(std::move(group_of)) {}

std::int32_t PlacedGroups::label(std::int64_t head, std::int64_t position) const {
  require(position >= 0 && position < tokens_, "attention", "position {} of {}", position, tokens_);
  if (position == 0) return Grouping::kEverywhere;
  return group_of_(head, (position - 1) / columns_, (position - 1) % columns_);
}

// keys, queries: positions; asking: which of the keys' tokens each query is.
std::shared_ptr<const TokenGroups> PlacedGroups::made(const HeadSet& heads,
                                                      std::span<const std::int64_t> keys,
                                                      std::span<const std::int64_t> queries,
                                                      std::span<const std::int64_t> asking) const {
  CachedVector<TokenGroups::Labels> labels;
  for (std::int64_t h = 0; h < (by_head_ ? heads.count() : 1); ++h) {
    TokenGroups::Labels& of_head = labels.emplace_back();
    for (const std::int64_t position : queries)
      of_head.queries.push_back(label(heads.number(h), position));
    for (const std::int64_t position : keys)
      of_head.keys.push_back(label(heads.number(h), position));
  }
  const CachedVector<std::int32_t> place(asking.begin(), asking.end());
  return std::allocate_shared<const TokenGroups>(CachedAllocator<TokenGroups>{}, 1, place, true,
                                                 labels);
}

GroupsOfImages PlacedGroups::of(const CoreInput& core) const {
  const std::int64_t n = core.x.dim(1);
  const auto every = counted(n);
  if (!core.ids.defined() && !core.apart()) {
    if (!core.heads.whole()) return {made(core.heads, every, every, every)};
    std::call_once(made_, [&] { whole_ = made(core.heads, every, every, every); });
    return {whole_};
  }
  const Tensor ids = core.ids.defined() ? on_host(core.ids) : Tensor();
  const Tensor asking = core.apart() ? on_host(core.asking) : Tensor();
  const Tensor query_ids = core.apart() ? on_host(core.query_ids) : Tensor();
  const bool alike = !core.apart() && core.ids.rank() == 1;
  GroupsOfImages groups;
  for (std::int64_t b = 0; b < (alike ? 1 : core.x.dim(0)); ++b) {
    const std::span<const std::int64_t> keys = ids.defined() ? row_of(ids, b) : every;
    groups.push_back(core.apart() ? made(core.heads, keys, row_of(query_ids, b), row_of(asking, b))
                                  : made(core.heads, keys, keys, every));
  }
  return groups;
}

Tensor attend_in_groups(GroupsOfImages groups, In qkv, std::int64_t heads, double dropout,
                        const Context& context) {
  GroupAttentionOptions o;
  o.groups = std::move(groups);
  o.heads = heads;
  o.apart = qkv.size() == 3;
  if (context.random && dropout > 0) {
    const std::int64_t keys = qkv[o.apart ? 1 : 0].dim(1);
    o.dropout = dropout;
    o.key = context.random->key();
    o.first = context.random->take(
        static_cast<std::uint64_t>(qkv[0].dim(0) * heads * qkv[0].dim(1) * keys));
  }
  return group_attention(o, qkv);
}

Tensor PlacedAttention::mix(const CoreInput& core, const Context& context) const {
  return attend_in_groups(groups_.of(core), core.qkv, core.heads.count(), options_.weight_dropout,
                          context);
}

}  // namespace hg::nn
