#include "tensor/ops/registry.h"

#include "tensor/ops/op_headers.inc"  // written by CMake: each stem's header

namespace hg {

std::span<const OpInfo> registry() {
#define HG_OP(stem, class_name) {#stem, #class_name, &ops::class_name::samples},
  static const OpInfo entries[] = {
#include "tensor/ops/op_list.inc"
  };
#undef HG_OP
  return entries;
}

}  // namespace hg
