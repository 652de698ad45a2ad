// launches.json: where and how a run was started, with an entry for each time it was resumed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hg {

struct Launch {
  std::string started;  // local time
  std::string command, folder, version;
  std::string host, system, cpu;
  std::int64_t threads = 0;  // of the engine
};

Launch this_launch();
// Adds to those of the file, or begins it anew.
void note_launch(const std::string& path, const Launch& launch, bool resume);
std::vector<Launch> read_launches(const std::string& path);  // none: there is no file

}  // namespace hg
