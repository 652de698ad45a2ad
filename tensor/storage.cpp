#include "tensor/storage.h"

#include "tensor/allocator.h"
#include "tensor/backend.h"

namespace hg {

Storage::Storage(Device device, std::size_t bytes)
    : data_(backend(device).alloc(bytes)), bytes_(bytes), device_(device) {}

Storage::~Storage() { backend(device_).free(data_); }

std::shared_ptr<Storage> make_storage(Device device, std::size_t bytes) {
  return std::allocate_shared<Storage>(CachedAllocator<Storage>{}, device, bytes);
}

}  // namespace hg
