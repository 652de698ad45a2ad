#include "energy/meters/sysfs.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <utility>

namespace hg::energy {

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

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

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::optional<std::uint64_t> parse_unsigned(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::string> read_small_file(const std::string& path) {
  OpenFile file;
  char text[4096];
  if (file.open(path.c_str()) != 0) return std::nullopt;
  const long n = file.read(text, sizeof text);
  if (n < 0) return std::nullopt;
  return std::string(trimmed({text, static_cast<std::size_t>(n)}));
}

std::optional<std::uint64_t> read_number(const std::string& path) {
  const auto text = read_small_file(path);
  return text ? parse_unsigned(*text) : std::nullopt;
}

}  // namespace hg::energy
