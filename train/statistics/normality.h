// Could a sample have come from a normal distribution? Shapiro-Wilk as Royston computes it (AS
// R94).
#pragma once

#include <optional>
#include <string>

#include "train/statistics/sample.h"

namespace hg::statistics {

struct ShapiroWilk {
  double w = 0, p = 0;  // a small p speaks against normality
};

// 3 to 5000 finite values, not all equal; throws otherwise.
ShapiroWilk shapiro_wilk(Sample x);

// Why a sample of finite values can't be tested ("constant sample, ..."); empty if it can.
std::optional<std::string> shapiro_wilk_refusal(Sample x);

}  // namespace hg::statistics
