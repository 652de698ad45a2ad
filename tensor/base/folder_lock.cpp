#include "tensor/base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "tensor/base/files.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"

namespace hg {
namespace {

std::string this_process() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return fmt::format("process {} on {}", ::getpid(), host);
}

void remove_temporary_files(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == kTemporary) std::filesystem::remove(entry.path(), error);
}

// The lock is the kernel's, on the open file; its text is for whoever finds it locked.
void sign(int fd) {
  const std::string text = this_process() + "\n";
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, text.data(), text.size(), 0) < 0) return;
}

}  // namespace

FolderLock::FolderLock(const std::string& folder, Held held) {
  const std::string path = fmt::format("{}/{}", folder, kFile);
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  usage_require(fd_ >= 0, path, "cannot write: {}", std::strerror(errno));
  if (::flock(fd_, LOCK_EX | (held == Held::refuse ? LOCK_NB : 0)) != 0) {
    const int code = errno;
    if (code == EWOULDBLOCK) {
      const std::string holder = read_small_file(path).value_or("");
      ::close(fd_);
      usage_fail(folder, "is in use by {}", holder.empty() ? "another process" : printable(holder));
    }
    fmt::print(stderr, "{}: not locked, so no other process may use it ({})\n", folder,
               std::strerror(code));
  }
  sign(fd_);
  remove_temporary_files(folder);
}

FolderLock::~FolderLock() { ::close(fd_); }

}  // namespace hg
