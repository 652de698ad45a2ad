// Files of a run folder. A file appears under its final name only when it is whole: it is written
// beside (NAME.tmp), synced, then renamed. Whatever fails or is killed before leaves the old file.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hg {

class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();  // without commit(): removes what was written beside
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

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

// A regular file's contents mapped into memory, for reading.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {data_, size_}; }

 private:
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

// Makes the folder, parents included, and makes sure that files can be written in it.
void make_folder(const std::string& path);

// Makes parent/name, or parent/name-2, -3, ... where that exists: two runs never share a folder.
std::string make_fresh_folder(const std::string& parent, const std::string& name);

}  // namespace hg
