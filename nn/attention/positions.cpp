#include "nn/attention/positions.h"

#include "tensor/transfer.h"

namespace hg::nn {

Tensor positions_at(const Tensor& ids, const Tensor& rows) {
  if (!ids.defined()) return rows;
  const Tensor positions = Tensor::empty(rows.shape(), DType::i64), here = on_host(rows),
               known = on_host(ids);
  const std::int64_t n = rows.dim(1), tokens = ids.dim(-1);
  for (std::int64_t i = 0; i < rows.numel(); ++i) {
    const std::int64_t sequence = ids.rank() == 2 ? i / n * tokens : 0;
    positions.data<std::int64_t>()[i] =
        known.data<std::int64_t>()[sequence + here.data<std::int64_t>()[i]];
  }
  return to_device(positions, rows.device());
}

Tensor token_positions(std::initializer_list<Tensor> patches) {
  const std::int64_t batch = patches.begin()->dim(0);
  std::int64_t tokens = 1;
  for (const Tensor& list : patches) tokens += list.dim(1);
  const Tensor ids = Tensor::zeros({batch, tokens}, DType::i64);
  std::int64_t first = 1;
  for (const Tensor& list : patches) {
    const Tensor here = on_host(list);
    const std::int64_t n = list.dim(1);
    for (std::int64_t i = 0; i < list.numel(); ++i)
      ids.data<std::int64_t>()[i / n * tokens + first + i % n] = here.data<std::int64_t>()[i] + 1;
    first += n;
  }
  return to_device(ids, patches.begin()->device());
}

}  // namespace hg::nn
