// Small files of the kernel: one value each, written as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hg::energy {

// A file that stays open and is read again and again.
class OpenFile {
 public:
  OpenFile() = default;
  ~OpenFile() { close(); }
  OpenFile(OpenFile&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  OpenFile& operator=(OpenFile&& other) noexcept;

  int open(const char* path);  // 0 or errno
  void close();
  // The bytes read, at most `size`; -errno when reading failed.
  long read(char* to, std::size_t size) const;

 private:
  int fd_ = -1;
};

// Text without blanks and line ends around it.
std::string_view trimmed(std::string_view text);
// Decimal digits and nothing else.
std::optional<std::uint64_t> parse_unsigned(std::string_view text);

// The first 4 KB, trimmed; none if the file cannot be read.
std::optional<std::string> read_small_file(const std::string& path);
std::optional<std::uint64_t> read_number(const std::string& path);

}  // namespace hg::energy
