// Which pairs attend (tensor/ops/attention/pair_support.h), for kernels: one support for all
// images, or one each.
#pragma once

#include "tensor/cuda/launch.h"
#include "tensor/ops/attention/pair_support.h"
#include "tensor/transfer.h"

namespace hg::cuda {

// The lists of one (image, head), and where its keys and pairs begin among those of all.
struct HeadPairs {
  const std::uint32_t *query_begins, *key_begins, *places;
  const std::uint16_t *keys, *queries, *kept_tokens;
  std::int64_t first_key, first_pair;
  int kept, tiles;

  // Row r's others begin here; they end where those of r + 1 do.
  __device__ std::int64_t by_query(int r) const { return query_begins[std::int64_t{r} * tiles]; }
  __device__ std::int64_t by_key(int r) const { return key_begins[std::int64_t{r} * tiles]; }
};

struct SupportsView {
  struct Image {
    std::int64_t packed, first_key, first_pair;  // packed: a pointer
  };
  const Image* images;  // null: all have `shared`, and so many keys and pairs
  const unsigned char* shared;
  std::int64_t kept, pairs;

  __device__ HeadPairs at(int image, int head) const {
    const Image own =
        images ? images[image]
               : Image{reinterpret_cast<std::int64_t>(shared), image * kept, image * pairs};
    const auto* const base = reinterpret_cast<const unsigned char*>(own.packed);
    const auto& p = reinterpret_cast<const PairSupport::PackedHead*>(base)[head];
    const auto words = [base](std::int64_t offset) {
      return reinterpret_cast<const std::uint32_t*>(base + offset);
    };
    const auto halves = [base](std::int64_t offset) {
      return reinterpret_cast<const std::uint16_t*>(base + offset);
    };
    return {words(p.query_begins),
            words(p.key_begins),
            words(p.places),
            halves(p.keys),
            halves(p.queries),
            halves(p.kept_tokens),
            own.first_key + p.first_key,
            own.first_pair + p.first_pair,
            static_cast<int>(p.kept),
            static_cast<int>(p.tiles)};
  }
};

// Keeps what the view points to for as long as kernels are launched with it.
class DeviceSupports {
 public:
  explicit DeviceSupports(const Supports& supports) {
    if (supports.size() == 1) {
      view_ = {nullptr, supports[0]->on_device().data<std::uint8_t>(), supports[0]->kept(),
               supports[0]->pairs()};
      return;
    }
    const auto count = static_cast<std::int64_t>(supports.size());
    const Tensor table = Tensor::empty({count, 3}, DType::i64);
    std::int64_t *row = table.data<std::int64_t>(), keys = 0, pairs = 0;
    for (const auto& support : supports) {
      *row++ = reinterpret_cast<std::int64_t>(support->on_device().data<std::uint8_t>());
      *row++ = keys, *row++ = pairs;
      keys += support->kept(), pairs += support->pairs();
    }
    table_ = to_device(table, Device::cuda);
    view_.images = reinterpret_cast<const SupportsView::Image*>(table_.data<std::int64_t>());
  }
  const SupportsView& view() const { return view_; }

 private:
  Tensor table_;
  SupportsView view_{};
};

}  // namespace hg::cuda
