// How much two arms differ, apart from whether that could be chance.
#pragma once

#include <string_view>

#include "train/statistics/sample.h"

namespace hg::statistics {

// Difference of means in pooled standard deviations, freed of small samples' bias. 2 values or more
// each, not both samples constant.
double hedges_g(Sample a, Sample b);

// Vargha and Delaney's A12: the chance that a value of a exceeds one of b, ties counting half.
double a12(Sample a, Sample b);

double cliff_delta(Sample a, Sample b);      // 2 A12 - 1
std::string_view cliff_label(double delta);  // "negligible", "small", "medium", "large"

}  // namespace hg::statistics
