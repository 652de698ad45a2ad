#include "tensor/base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"

namespace hg {
namespace {

namespace fs = std::filesystem;

// A rename is on disk once its folder is. Some file systems cannot sync a folder; there the rename
// is as safe as the system makes it.
void sync_folder_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  const int fd = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)), temporary_(fmt::format("{}.{}{}", path_, ::getpid(), kTemporary)) {
  struct stat info;
  if (::stat(path_.c_str(), &info) == 0)  // renaming onto /dev/null would replace it
    require(S_ISREG(info.st_mode), path_, "cannot write: not a regular file");
  // Without O_NONBLOCK, opening a pipe would wait for its reader.
  fd_ = ::open(temporary_.c_str(),
               O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  if (fd_ < 0) fail(path_, "cannot write: {}", std::strerror(errno));
  if (::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode)) return;
  ::close(fd_);
  fd_ = -1;
  fail(temporary_, "cannot write: not a regular file");
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
  fd_ = -1;
}

void AtomicFile::fail_with_errno(const char* doing) {
  const int code = errno;
  discard();
  fail(path_, "{}: {}", doing, std::strerror(code));
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  require(fd_ >= 0, path_, "written to after it was closed");
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd_, p, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_with_errno("cannot write");
    p += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void AtomicFile::commit() {
  require(fd_ >= 0, path_, "committed twice");
  if (::fsync(fd_) != 0) fail_with_errno("cannot write");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_with_errno("cannot rename into place");
  ::close(fd_);
  fd_ = -1;
  sync_folder_of(path_);
}

void write_file(const std::string& path, std::string_view contents) {
  AtomicFile file(path);
  file.write(contents);
  file.commit();
}

// Without O_NONBLOCK, opening a pipe would wait for its writer.
InputFile::InputFile(std::string path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (fd_ < 0) usage_fail(path_, "cannot read: {}", std::strerror(errno));
  struct stat info;
  const bool regular = ::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode);
  if (!regular) ::close(fd_);
  usage_require(regular, path_, "cannot read: not a regular file");
  size_ = static_cast<std::uint64_t>(info.st_size);
}

InputFile::~InputFile() { ::close(fd_); }

void InputFile::read(void* to, std::size_t bytes) {
  std::size_t got = 0;
  while (got < bytes) {
    const ssize_t n = ::read(fd_, static_cast<char*>(to) + got, bytes - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path_, "cannot read: {}", std::strerror(errno));
    require(n > 0, path_, "expected {} bytes, could read only {}", bytes, got);
    got += static_cast<std::size_t>(n);
  }
}

MappedFile::MappedFile(const std::string& path) {
  const InputFile file(path);
  if (file.size() == 0) return;
  size_ = static_cast<std::size_t>(file.size());
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (data == MAP_FAILED) fail(path, "cannot read: {}", std::strerror(errno));
  data_ = static_cast<const char*>(data);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
}

std::string read_text(const std::string& path, std::uint64_t most_bytes) {
  InputFile file(path);
  usage_require(file.size() <= most_bytes, path, "{} bytes, expected at most {}", file.size(),
                most_bytes);
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(text.data(), text.size());
  return text;
}

std::optional<std::string> read_small_file(const std::string& path) {
  char text[4096];
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  const ssize_t n = ::read(fd, text, sizeof text);
  ::close(fd);
  if (n < 0) return std::nullopt;
  return std::string(trimmed({text, static_cast<std::size_t>(n)}));
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

void make_folder(const std::string& path) {
  usage_require(!path.empty(), "folder", "expected a path, got \"\"");
  std::error_code error;
  fs::create_directories(path, error);
  if (error) usage_fail(path, "cannot make the folder: {}", error.message());
  usage_require(fs::is_directory(path, error), path, "cannot make the folder: a file is there");
  if (::access(path.c_str(), W_OK | X_OK) != 0)
    usage_fail(path, "cannot write in the folder: {}", std::strerror(errno));
}

std::string make_fresh_folder(const std::string& parent, const std::string& name) {
  make_folder(parent);
  for (int number = 1;; ++number) {
    const std::string path = number == 1 ? fmt::format("{}/{}", parent, name)
                                         : fmt::format("{}/{}-{}", parent, name, number);
    if (::mkdir(path.c_str(), 0777) == 0) return path;
    if (errno != EEXIST) usage_fail(path, "cannot make the folder: {}", std::strerror(errno));
  }
}

}  // namespace hg
