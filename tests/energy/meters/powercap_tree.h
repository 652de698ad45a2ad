// Powercap trees of files, as the kernel shows them in /sys/class/powercap.
#pragma once

#include <filesystem>
#include <string>

#include "tests/support/temp_folder.h"

namespace hg::testing {

class PowercapTree {
 public:
  // `range` and `energy` as the files hold them; an empty range: no such file.
  PowercapTree& zone(const std::string& id, const std::string& name,
                     const std::string& energy = "1000000\n",
                     const std::string& range = "262143328850\n") {
    std::filesystem::create_directories(folder_ / id);
    put(file(id, "name"), name + "\n");
    put(file(id, "energy_uj"), energy);
    if (!range.empty()) put(file(id, "max_energy_range_uj"), range);
    return *this;
  }
  PowercapTree& control_type(const std::string& type) {
    std::filesystem::create_directories(folder_ / type);
    put(file(type, "enabled"), "1\n");
    return *this;
  }
  void set(const std::string& id, std::uint64_t uj) {
    overwrite(id, "energy_uj", std::to_string(uj) + "\n");
  }
  // In place: a file cut to nothing and closed is flushed to disk by some file systems, which takes
  // milliseconds.
  void overwrite(const std::string& id, const std::string& name, const std::string& contents) {
    const std::string path = file(id, name);
    std::fstream(path, std::ios::binary | std::ios::in | std::ios::out) << contents;
    std::filesystem::resize_file(path, contents.size());
  }
  std::string file(const std::string& id, const std::string& name) const {
    return folder_ / (id + "/" + name);
  }
  const std::string& root() const { return folder_.path(); }

 private:
  TempFolder folder_;
};

}  // namespace hg::testing
