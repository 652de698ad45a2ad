#include "tensor/base/files.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "tensor/base/usage_error.h"
#include "tests/support/temp_folder.h"

namespace hg::testing {
namespace {

// While alive, files of this process end at so many bytes: a full disk for whoever writes more.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

std::size_t count_of_files(const std::string& folder) {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++n;
  return n;
}

}  // namespace

TEST_CASE("a file appears at commit and not before") {
  TempFolder folder;
  const std::string path = folder / "f";
  put(path, "old");
  {
    AtomicFile file(path);
    file.write("new");
    CHECK(contents_of(path) == "old");
    file.commit();
    CHECK(contents_of(path) == "new");
    CHECK_THROWS_AS(file.commit(), Error);
    CHECK_THROWS_AS(file.write("x"), Error);
  }
  CHECK(contents_of(path) == "new");
  { AtomicFile(path).write("dropped"); }
  CHECK(contents_of(path) == "new");
  CHECK(count_of_files(folder.path()) == 1);
}

TEST_CASE("two processes that write the same file do not share what is written beside") {
  TempFolder folder;
  AtomicFile ours(folder / "f");
  ours.write("ours");
  const pid_t child = fork();
  if (child == 0) {
    write_file(folder / "f", "theirs");
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(contents_of(folder / "f") == "theirs");
  ours.commit();
  CHECK(contents_of(folder / "f") == "ours");
  CHECK(count_of_files(folder.path()) == 1);
}

TEST_CASE("a full disk leaves the old file and nothing beside") {
  TempFolder folder;
  const std::string path = folder / "f";
  put(path, "old");
  std::string message;
  {
    FullDisk disk(1000);
    message = message_of<Error>([&] { write_file(path, std::string(5000, 'x')); });
  }
  CHECK(message == path + ": cannot write: File too large");
  CHECK(contents_of(path) == "old");
  CHECK(count_of_files(folder.path()) == 1);
}

TEST_CASE("places that cannot be written are errors that name the path") {
  TempFolder folder;
  CHECK(message_of<Error>([&] { write_file(folder / "no/f", "x"); }) ==
        folder / "no/f" + ": cannot write: No such file or directory");
  CHECK(message_of<Error>([&] { write_file(folder.path(), "x"); }) ==
        folder.path() + ": cannot write: not a regular file");
  CHECK(message_of<Error>([] { write_file("/dev/null", "x"); }) ==
        "/dev/null: cannot write: not a regular file");
  put(folder / "file", "");
  CHECK_THROWS_AS(make_folder(folder / "file"), UsageError);
  CHECK_THROWS_AS(make_folder(folder / "file/below"), UsageError);
  CHECK_THROWS_AS(make_folder(""), UsageError);
  CHECK_THROWS_AS(make_folder("/proc/hg_test/run"), UsageError);
}

TEST_CASE("folders are made, fresh where asked for") {
  TempFolder folder;
  make_folder(folder / "a/b");
  make_folder(folder / "a/b");
  CHECK(std::filesystem::is_directory(folder / "a/b"));
  CHECK(make_fresh_folder(folder / "runs", "shapes") == folder / "runs/shapes");
  CHECK(make_fresh_folder(folder / "runs", "shapes") == folder / "runs/shapes-2");
  CHECK(make_fresh_folder(folder / "runs", "shapes") == folder / "runs/shapes-3");
}

TEST_CASE("reading says what is wrong with a file") {
  TempFolder folder;
  put(folder / "f", "0123456789");
  CHECK(read_text(folder / "f") == "0123456789");
  CHECK(MappedFile(folder / "f").bytes() == "0123456789");
  CHECK(message_of<UsageError>([&] { read_text(folder / "f", 9); }) ==
        folder / "f" + ": 10 bytes, expected at most 9");
  char bytes[20];
  CHECK(message_of<Error>([&] { InputFile(folder / "f").read(bytes, 20); }) ==
        folder / "f" + ": expected 20 bytes, could read only 10");
  CHECK(message_of<UsageError>([&] { read_text(folder / "none"); }) ==
        folder / "none" + ": cannot read: No such file or directory");
  CHECK(message_of<UsageError>([] { read_text("/dev/null"); }) ==
        "/dev/null: cannot read: not a regular file");
  CHECK(read_small_file("/proc/self/comm").has_value());
  CHECK_FALSE(read_small_file(folder / "none"));
  CHECK(is_file(folder / "f"));
  CHECK_FALSE(is_folder(folder / "f"));
  CHECK(is_folder(folder.path()));
}

}  // namespace hg::testing
