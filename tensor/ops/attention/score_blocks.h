// How the kernels of attention on the CPU cut a matrix of scores, [queries, keys].
#pragma once

#include <algorithm>
#include <cstdint>

namespace hg::cpu {

// Rows of so many scores held at a time: a block that stays in a core's L2 cache.
inline constexpr std::int64_t kMostBlockRows = 384;
inline std::int64_t block_rows(std::int64_t scores) {
  constexpr std::int64_t kScores = 40000;
  return std::clamp<std::int64_t>(kScores / std::max<std::int64_t>(scores, 1) / 6 * 6, 6,
                                  kMostBlockRows);
}

// Queries of one head that a thread takes at a time: a few blocks share the packed keys.
inline constexpr std::int64_t kRowsOfPiece = 1536;

}  // namespace hg::cpu
