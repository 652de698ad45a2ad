#include "energy/units.h"

#include <cmath>

namespace hg::energy {

MicroJoules to_microjoules(Joules e) { return {std::llround(e.value * 1e6)}; }

}  // namespace hg::energy
