#include "energy/meters/sysfs.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace hg::energy {

int OpenFile::open(const char* path) {
  close();
  fd_ = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not make us wait
  return fd_ >= 0 ? 0 : errno;
}

void OpenFile::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

long OpenFile::read(char* to, std::size_t size) const {
  if (fd_ < 0) return -EBADF;
  const ssize_t n = ::pread(fd_, to, size, 0);
  return n >= 0 ? n : -errno;
}

std::optional<std::uint64_t> read_number(const std::string& path) {
  const auto text = read_small_file(path);
  return text ? parse_number<std::uint64_t>(*text) : std::nullopt;
}

}  // namespace hg::energy
