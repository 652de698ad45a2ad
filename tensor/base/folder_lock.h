// A folder that one process at a time may write.
#pragma once

#include <string>

#include "tensor/base/no_copy.h"

namespace hg {

// Holds the lock on a folder that exists, through its file .lock, until it is destroyed or the
// process ends, however that may be. Removes temporary files that a killed process left. Throws
// UsageError that names the process which holds it. Where the file system knows no locks, it says
// so on standard error and goes on.
class FolderLock : NoCopy {
 public:
  static constexpr const char* kFile = ".lock";

  enum class Held { refuse, wait };  // where another process has it
  explicit FolderLock(const std::string& folder, Held held = Held::refuse);
  ~FolderLock();

 private:
  int fd_;
};

}  // namespace hg
