// Reading and writing files. Faults of what a user gave are UsageErrors, others Errors; all begin
// with the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "tensor/base/no_copy.h"

namespace hg {

inline constexpr const char* kTemporary = ".tmp";

// A file that appears under its final name only when it is whole: it is written beside, under a
// name of this process's own that ends in kTemporary, synced, then renamed. Whatever fails or is
// killed before leaves the old file.
class AtomicFile : NoCopy {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();  // without commit(): removes what was written beside

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  [[noreturn]] void fail_with_errno(const char* doing);
  void discard() noexcept;

  std::string path_, temporary_;
  int fd_ = -1;
};

void write_file(const std::string& path, std::string_view contents);

// A regular file, open for reading.
class InputFile : NoCopy {
 public:
  explicit InputFile(std::string path);
  ~InputFile();

  std::uint64_t size() const { return size_; }
  void read(void* to, std::size_t bytes);  // its next bytes
  int descriptor() const { return fd_; }

 private:
  const std::string path_;
  std::uint64_t size_ = 0;
  int fd_ = -1;
};

// The same with its contents mapped into memory.
class MappedFile : NoCopy {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();

  std::string_view bytes() const { return {data_, size_}; }

 private:
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

std::string read_text(const std::string& path, std::uint64_t most_bytes = UINT64_MAX);
// Of a file of the kernel, whose size is not known: its first 4 KB, trimmed; none if it cannot be
// read.
std::optional<std::string> read_small_file(const std::string& path);

bool is_file(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

// Makes the folder, parents included, and makes sure that files can be written in it.
void make_folder(const std::string& path);

// Makes parent/name, or parent/name-2, -3, ... where that exists: two runs never share a folder.
std::string make_fresh_folder(const std::string& parent, const std::string& name);

}  // namespace hg
