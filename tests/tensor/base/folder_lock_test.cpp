#include "tensor/base/folder_lock.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "tensor/base/usage_error.h"
#include "tests/support/temp_folder.h"

namespace hg::testing {

TEST_CASE("one lock on a folder at a time, and the message names its holder") {
  TempFolder folder;
  const auto lock = [&] { FolderLock second(folder.path()); };
  {
    const FolderLock held(folder.path());
    const std::string message = message_of<UsageError>(lock);
    CHECK(message.starts_with(folder.path() + ": is in use by process " + std::to_string(getpid()) +
                              " on "));
  }
  CHECK(message_of<Error>(lock) == "");
  CHECK(message_of<UsageError>([&] {
          FolderLock none(folder / "none");
        }).starts_with(folder / "none/.lock: cannot write"));
}

TEST_CASE("what a killed process left half written goes when the folder is locked") {
  TempFolder folder;
  put(folder / "model.safetensors.123.tmp", "half");
  put(folder / "kept", "whole");
  const FolderLock lock(folder.path());
  CHECK_FALSE(leftovers_in(folder.path()));
  CHECK(contents_of(folder / "kept") == "whole");
}

}  // namespace hg::testing
