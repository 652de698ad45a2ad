#include "tensor/storage.h"

#include <utility>

#include "tensor/allocator.h"
#include "tensor/backend.h"
#include "tensor/base/error.h"

namespace hg {

Storage::Storage(Device device, std::size_t bytes)
    : data_(backend(device).alloc(bytes)), bytes_(bytes), device_(device) {}

Storage::~Storage() { backend(device_).free(data_); }

void Storage::swap_contents(Storage& other) {
  require(device_ == other.device_ && bytes_ == other.bytes_, "storage",
          "{} bytes cannot change places with {}", bytes_, other.bytes_);
  std::swap(data_, other.data_);
  std::swap(host_copy, other.host_copy);
  bump_version();
  other.bump_version();
}

std::shared_ptr<Storage> make_storage(Device device, std::size_t bytes) {
  return std::allocate_shared<Storage>(CachedAllocator<Storage>{}, device, bytes);
}

}  // namespace hg
