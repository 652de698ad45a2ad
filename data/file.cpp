#include "data/file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "tensor/base/error.h"

namespace hg {
namespace fs = std::filesystem;
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// The run of digits at s[i], without leading zeros; i moves past it.
std::string_view number_at(std::string_view s, std::size_t& i) {
  while (i < s.size() && s[i] == '0') ++i;
  const std::size_t first = i;
  while (i < s.size() && is_digit(s[i])) ++i;
  return s.substr(first, i - first);
}

bool natural_less(const std::string& a, const std::string& b) {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const std::string_view x = number_at(a, i), y = number_at(b, j);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
    }
  }
  const std::size_t rest_a = a.size() - i, rest_b = b.size() - j;
  return rest_a != rest_b ? rest_a < rest_b : a < b;
}

template <class Wanted>
std::vector<std::string> list(const Path& folder, Wanted wanted) {
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    std::string name = it->path().filename().string();
    if (name[0] != '.' && wanted(*it, name)) names.push_back(std::move(name));
  }
  require(!error, folder.string(), "cannot list this folder: {}", error.message());
  std::sort(names.begin(), names.end(), natural_less);
  return names;
}

bool has_image_extension(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) return false;
  std::string extension = name.substr(dot + 1);
  std::transform(extension.begin(), extension.end(), extension.begin(), lower);
  return extension == "png" || extension == "jpg" || extension == "jpeg" || extension == "bmp";
}

bool regular(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.is_regular_file(error);
}

struct Close {
  void operator()(std::FILE* f) const { std::fclose(f); }
};

std::size_t size_to_read(const Path& path, std::uint64_t max_bytes) {
  const std::uint64_t size = size_of_file(path);
  require(size <= max_bytes, path.string(), "{} bytes, expected at most {}", size, max_bytes);
  return static_cast<std::size_t>(size);
}

}  // namespace

bool is_file(const Path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool is_folder(const Path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

std::uint64_t size_of_file(const Path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  require(fs::exists(status), path.string(), "no such file");
  require(fs::is_regular_file(status), path.string(), "not a regular file");
  const std::uint64_t size = fs::file_size(path, error);
  require(!error, path.string(), "cannot read its size: {}", error.message());
  return size;
}

void read_exactly(const Path& path, std::uint8_t* to, std::size_t bytes) {
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
  require(file != nullptr, path.string(), "cannot open: {}", std::strerror(errno));
  const std::size_t got = std::fread(to, 1, bytes, file.get());
  require(got == bytes, path.string(), "expected {} bytes, could read only {}", bytes, got);
}

void read_file(const Path& path, std::uint64_t max_bytes, Bytes& bytes) {
  bytes.resize(size_to_read(path, max_bytes));
  read_exactly(path, bytes.data(), bytes.size());
}

std::string read_text(const Path& path, std::uint64_t max_bytes) {
  std::string text(size_to_read(path, max_bytes), '\0');
  read_exactly(path, reinterpret_cast<std::uint8_t*>(text.data()), text.size());
  return text;
}

std::vector<std::string> read_lines(const Path& path, std::uint64_t max_bytes) {
  const std::string text = read_text(path, max_bytes);
  std::vector<std::string> lines;
  for (std::string_view line : split_fields(text, '\n')) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    lines.emplace_back(line);
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

std::vector<std::string> list_folders(const Path& folder) {
  return list(folder, [](const fs::directory_entry& entry, const std::string&) {
    std::error_code error;
    return entry.is_directory(error);
  });
}

std::vector<std::string> list_images(const Path& folder) {
  return list(folder, [](const fs::directory_entry& entry, const std::string& name) {
    return has_image_extension(name) && regular(entry);
  });
}

std::vector<std::string> list_files(const Path& folder) {
  return list(folder,
              [](const fs::directory_entry& entry, const std::string&) { return regular(entry); });
}

std::vector<std::string_view> split_fields(std::string_view line, char separator) {
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t end = line.find(separator);
    fields.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return fields;
    line.remove_prefix(end + 1);
  }
}

std::string excerpt(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::string shown(text.substr(0, kLongest));
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return '"' + shown + (text.size() > kLongest ? "...\"" : "\"");
}

}  // namespace hg
