#include "tensor/base/process.h"

#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "tensor/base/files.h"
#include "tensor/base/text.h"

namespace hg {
namespace {

// "MemTotal:  16384 kB" -> 16384 * 1024
double meminfo_bytes(const std::string& meminfo, std::string_view key) {
  for (const std::string_view line : split(meminfo, '\n')) {
    const std::vector<std::string_view> parts = words(line);
    if (parts.size() > 1 && parts[0] == key)
      return parse_number<double>(parts[1]).value_or(0) * 1024;
  }
  return 0;
}

// In single quotes where a shell would read anything into it.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string& version_of_program() {
  static std::string version;
  return version;
}

}  // namespace

// The kernel ends each argument with a zero byte.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text;
  for (std::string word; std::getline(file, word, '\0');)
    text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

void set_program_version(std::string version) { version_of_program() = std::move(version); }
std::string program_version() { return version_of_program(); }

std::uint64_t peak_rss_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

MachineMemory machine_memory() {
  const std::string meminfo = read_small_file("/proc/meminfo").value_or("");
  const double total = meminfo_bytes(meminfo, "MemTotal:");
  return {total, total - meminfo_bytes(meminfo, "MemAvailable:")};
}

// A thread's schedstat holds "run_ns wait_ns slices".
void CpuClaim::sample() {
  std::map<std::string, Times> now;
  std::error_code error;
  for (std::filesystem::directory_iterator it(tasks_, error), end; !error && it != end;
       it.increment(error)) {
    const std::string text = read_small_file(it->path().string() + "/schedstat").value_or("");
    const std::vector<std::string_view> fields = words(text);
    if (fields.size() < 2) continue;
    now[it->path().filename().string()] = {parse_number<std::uint64_t>(fields[0]).value_or(0),
                                           parse_number<std::uint64_t>(fields[1]).value_or(0)};
  }
  const auto grown = [](std::uint64_t from, std::uint64_t to) {
    return to > from ? static_cast<double>(to - from) * 1e-9 : 0;
  };
  for (const auto& [thread, times] : now) {
    if (!begun_) break;
    const Times before = threads_[thread];
    run_s_ += grown(before.run_ns, times.run_ns);
    wait_s_ += grown(before.wait_ns, times.wait_ns);
  }
  threads_ = std::move(now);
  begun_ = true;
}

std::optional<double> cpu_share(double run_s, double wait_s) {
  if (!(run_s > 0)) return std::nullopt;
  return run_s / (run_s + wait_s);
}

}  // namespace hg
