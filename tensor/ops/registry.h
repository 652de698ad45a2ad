// Every op class of op_list.inc, for tests and profilers that go over all of them.
#pragma once

#include <span>
#include <string_view>

#include "tensor/sample.h"

namespace hg {

struct OpInfo {
  std::string_view stem;        // files tensor/ops/<stem>.*
  std::string_view class_name;  // hg::ops::<class_name>
  Samples (*samples)();
};
std::span<const OpInfo> registry();

}  // namespace hg
