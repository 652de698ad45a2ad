// Every op class of op_list.inc, for tests and profilers that go over all of them.
#pragma once

#include <span>
#include <string_view>

#include "tensor/reference.h"
#include "tensor/sample.h"

namespace hg {

struct OpInfo {
  std::string_view stem;        // files tensor/ops/<stem>.*
  std::string_view class_name;  // hg::ops::<class_name>
  Samples (*samples)();
  bool (*is)(const Op& op);  // of this class
  // What the op is held to, in f64 (ops/<stem>_ref.h).
  void (*reference)(const Op& op, RefIn<double> in, RefOut<double> out);
};
std::span<const OpInfo> registry();

}  // namespace hg
