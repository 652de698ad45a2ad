#include "train/step/rank_records.h"

#include <algorithm>

#include "tensor/backend.h"
#include "tensor/transfer.h"

namespace hg {
namespace {

// Those of the model's layers that learn from passes; the same on every rank, in their order.
std::vector<const nn::Learner*> learners_of(const nn::Vit& model) {
  std::vector<const nn::Learner*> learners;
  for (const nn::Block& block : model.blocks()) {
    learners.push_back(&block.attention());
    learners.push_back(block.attention().gate());
  }
  return learners;
}

}  // namespace

void pack(const Tensor& tensor, Packer& to) {
  to.value(tensor.device());
  to.value(tensor.dtype());
  to.value(tensor.rank());
  for (int axis = 0; axis < tensor.rank(); ++axis) to.value(tensor.dim(axis));
  const Tensor whole = on_host(contiguous(tensor));
  to.bytes({static_cast<const char*>(whole.raw()), whole.bytes()});
}

Tensor unpack_tensor(Unpacker& from) {
  const auto device = from.value<Device>();
  const auto dtype = from.value<DType>();
  CachedVector<std::int64_t> dims(static_cast<std::size_t>(from.value<int>()));
  for (std::int64_t& dim : dims) dim = from.value<std::int64_t>();
  const Tensor tensor = Tensor::empty(Shape(std::span<const std::int64_t>(dims)), dtype);
  const std::string_view bytes = from.bytes();
  require(bytes.size() == tensor.bytes(), "ranks", "{} bytes for {}", bytes.size(), tensor);
  backend(Device::cpu).copy(tensor.raw(), bytes.data(), bytes.size());
  return to_device(tensor, device);
}

void pack_statistics(const nn::Vit& model, const nn::PassRecord& record, Packer& to) {
  const std::vector<const nn::Learner*> learners = learners_of(model);
  to.value(record.statistics.size());
  for (const nn::PassRecord::Statistic& s : record.statistics) {
    to.value(std::find(learners.begin(), learners.end(), s.learner) - learners.begin());
    to.value(s.values.size());
    for (const Tensor& value : s.values) pack(value, to);
  }
}

void unpack_statistics(const nn::Vit& model, Unpacker& from, nn::PassRecord& record) {
  const std::vector<const nn::Learner*> learners = learners_of(model);
  record.statistics.resize(from.value<std::size_t>());
  for (nn::PassRecord::Statistic& s : record.statistics) {
    s.learner = learners.at(static_cast<std::size_t>(from.value<std::ptrdiff_t>()));
    s.values.resize(from.value<std::size_t>());
    for (Tensor& value : s.values) value = unpack_tensor(from);
  }
}

void pack_probed(const nn::PassRecord& record, Packer& to) {
  to.value(record.probed.size());
  for (const nn::PassRecord::Probed& probed : record.probed) {
    pack(probed.spread, to);
    to.value(probed.keys);
  }
}

void unpack_probed(Unpacker& from, nn::PassRecord& record) {
  record.probed.resize(from.value<std::size_t>());
  for (nn::PassRecord::Probed& probed : record.probed) {
    probed.spread = unpack_tensor(from);
    probed.keys = from.value<std::int64_t>();
  }
}

}  // namespace hg
