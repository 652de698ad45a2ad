// Which zones of a powercap tree make up the machine. They are found by name, never by number.
// Packages are summed; dram is a domain of its own; core and uncore are inside their package; psys
// (the whole platform) is never added; a package that shows up twice is counted once.
#pragma once

#include <string>
#include <vector>

#include "energy/meters/meter.h"

namespace hg::energy {

struct PowercapZone {
  std::string folder;            // ".../intel-rapl:0:1"
  std::string name;              // what its file `name` says: "dram"
  std::string label;             // "package-0 dram"
  Domain domain;                 // package or dram
  std::uint64_t largest_uj = 0;  // 0: max_energy_range_uj is missing or makes no sense
  int error = 0;                 // errno of opening energy_uj

  std::string counter_path() const { return folder + "/energy_uj"; }
};

struct PowercapTree {
  bool exists = false;                // the root is a folder
  std::vector<PowercapZone> counted;  // each part of the machine once
  std::vector<std::string> left_out;  // "psys (the whole platform)"
};

PowercapTree find_powercap_zones(const std::string& root);

}  // namespace hg::energy
