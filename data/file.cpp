#include "data/file.h"

#include <algorithm>

#include "data/webp.h"
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
  return std::ranges::find(image_extensions(), extension) != image_extensions().end();
}

bool regular(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.is_regular_file(error);
}

}  // namespace

const std::vector<std::string>& image_extensions() {
  static const std::vector<std::string> known = [] {
    std::vector<std::string> names{"png", "jpg", "jpeg", "bmp"};
    if (kReadsWebp) names.emplace_back("webp");
    return names;
  }();
  return known;
}

std::string expected_images() {
  return fmt::format("expected .{} files in it", fmt::join(image_extensions(), ", ."));
}

void read_file(const Path& path, std::uint64_t max_bytes, Bytes& bytes) {
  InputFile file(path);
  require(file.size() <= max_bytes, path.string(), "{} bytes, expected at most {}", file.size(),
          max_bytes);
  bytes.resize(static_cast<std::size_t>(file.size()));
  file.read(bytes.data(), bytes.size());
}

std::vector<std::string> read_lines(const Path& path, std::uint64_t max_bytes) {
  const std::string text = read_text(path, max_bytes);
  std::vector<std::string> lines;
  for (std::string_view line : split(text, '\n')) {
    if (line.ends_with('\r')) line.remove_suffix(1);
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

}  // namespace hg
