#include "train/run/energy_profile.h"

#include "tensor/base/files.h"
#include "tensor/base/usage_error.h"

namespace hg {

energy::Calibration load_energy_profile(const std::string& path) {
  if (path.empty()) return energy::default_calibration();
  const MappedFile file(path);
  try {
    return energy::parse_calibration(file.bytes(), path);
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
}

}  // namespace hg
