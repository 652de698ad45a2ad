// What this process is, its memory and CPU time, and memory of the machine it runs on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace hg {

std::string command_line();  // as a shell would take it; "" where the system does not tell
// What --version prints, once the program's main() has said it.
void set_program_version(std::string version);
std::string program_version();

std::uint64_t peak_rss_bytes();  // the most memory that this process has had

// All zero where the system does not tell.
struct MachineMemory {
  double total_bytes = 0, used_bytes = 0;
};
MachineMemory machine_memory();

// How much of the cores it asked for the process got: its threads' time on a core, and the time
// they were ready to run but waited for one. Threads that end between two samples lose what they
// did since the first of them.
class CpuClaim {
 public:
  explicit CpuClaim(std::string tasks = "/proc/self/task") : tasks_(std::move(tasks)) { sample(); }

  void sample();
  double run_s() const { return run_s_; }  // since it was made
  double wait_s() const { return wait_s_; }

 private:
  struct Times {
    std::uint64_t run_ns = 0, wait_ns = 0;
  };

  const std::string tasks_;
  std::map<std::string, Times> threads_;
  bool begun_ = false;
  double run_s_ = 0, wait_s_ = 0;
};

// None where the system does not tell.
std::optional<double> cpu_share(double run_s, double wait_s);

}  // namespace hg
