// Two arms with known results: the reference values of several tests are about them.
#pragma once

#include <vector>

namespace hg::statistics {

inline const std::vector<double> kA = {20.25, 20.31, 20.18, 20.40, 20.22, 20.27};
inline const std::vector<double> kB = {19.80, 19.95, 20.05, 19.70, 20.20, 19.90};
inline const std::vector<double> kTiedA = {1, 2, 2, 3, 5};
inline const std::vector<double> kTiedB = {2, 3, 4, 4, 6, 7};

}  // namespace hg::statistics
