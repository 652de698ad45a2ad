#include "data/damaged.h"

#include "tensor/base/error.h"
#include "tensor/cpu/parallel.h"

namespace hg {

std::vector<DamagedItem> damaged_items(const Dataset& set) {
  if (!set.info().files) return {};
  std::vector<std::string> faults(static_cast<std::size_t>(set.size()));
  constexpr std::int64_t kGrain = 16;
  cpu::parallel_each(set.size(), kGrain, [&](std::int64_t i) {
    thread_local Image image;
    try {
      set.get(i, image);
    } catch (const Error& e) {
      faults[static_cast<std::size_t>(i)] = e.what();
    }
  });
  std::vector<DamagedItem> damaged;
  for (std::int64_t i = 0; i < set.size(); ++i)
    if (const std::string& fault = faults[static_cast<std::size_t>(i)]; !fault.empty())
      damaged.push_back({i, fault});
  return damaged;
}

}  // namespace hg
