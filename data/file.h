// Reading files and folders. Whatever fails throws hg::Error that begins with the path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"

namespace hg {

using Path = std::filesystem::path;

bool is_file(const Path& path);
bool is_folder(const Path& path);
std::uint64_t size_of_file(const Path& path);  // of a regular file

void read_file(const Path& path, std::uint64_t max_bytes, Bytes& bytes);
void read_exactly(const Path& path, std::uint8_t* to, std::size_t bytes);  // its first bytes
std::string read_text(const Path& path, std::uint64_t max_bytes);
// Without line ends (LF or CR LF) and without empty lines at the end.
std::vector<std::string> read_lines(const Path& path, std::uint64_t max_bytes);

// Names in a folder, hidden ones left out; numbers in names sort by value: img2 before img10.
std::vector<std::string> list_folders(const Path& folder);
std::vector<std::string> list_images(const Path& folder);  // .png, .jpg, .jpeg, .bmp, any case
std::vector<std::string> list_files(const Path& folder);

std::vector<std::string_view> split_fields(std::string_view line, char separator);
// Text from a file, for a message: printable, quoted, at most 60 characters.
std::string excerpt(std::string_view text);

}  // namespace hg
