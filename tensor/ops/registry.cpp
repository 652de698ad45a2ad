#include "tensor/ops/registry.h"

#include "tensor/ops/op_references.inc"  // written by CMake: the reference of each stem

namespace hg {
namespace {

template <class OpType>
OpInfo info(const char* stem, const char* class_name) {
  return {stem, class_name, &OpType::samples,
          [](const Op& op) { return dynamic_cast<const OpType*>(&op) != nullptr; },
          [](const Op& op, RefIn<double> in, RefOut<double> out) {
            reference(dynamic_cast<const OpType&>(op), in, out);
          }};
}

}  // namespace

std::span<const OpInfo> registry() {
#define HG_OP(stem, class_name) info<ops::class_name>(#stem, #class_name),
  static const OpInfo entries[] = {
#include "tensor/ops/op_list.inc"
  };
#undef HG_OP
  return entries;
}

}  // namespace hg
