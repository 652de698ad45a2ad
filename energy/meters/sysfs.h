// Small files of the kernel: one value each, written as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tensor/base/files.h"
#include "tensor/base/text.h"

namespace hg::energy {

// A file that stays open and is read again and again.
class OpenFile {
 public:
  OpenFile() = default;
  ~OpenFile() { close(); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int open(const char* path);  // 0 or errno
  void close();
  // The bytes read, at most `size`; -errno when reading failed.
  long read(char* to, std::size_t size) const;

 private:
  int fd_ = -1;
};

// None if the file cannot be read or holds anything but a number.
std::optional<std::uint64_t> read_number(const std::string& path);

}  // namespace hg::energy
