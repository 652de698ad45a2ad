// Reading files and folders. Whatever fails throws hg::Error that begins with the path.
#pragma once

#include "data/dataset.h"
#include "tensor/base/files.h"
#include "tensor/base/text.h"

namespace hg {

using Path = std::filesystem::path;

void read_file(const Path& path, std::uint64_t max_bytes, Bytes& bytes);
// The contents of a file, unpacked if it is gzip.
Bytes read_maybe_gzip(const Path& path, std::uint64_t max_bytes);
// Without line ends (LF or CR LF) and without empty lines at the end.
std::vector<std::string> read_lines(const Path& path, std::uint64_t max_bytes);

const std::vector<std::string>& image_extensions();  // of files that load_image() reads
std::string expected_images();                       // "expected .png, ... files in it"

// Names in a folder, hidden ones left out; numbers in names sort by value: img2 before img10.
std::vector<std::string> list_folders(const Path& folder);
std::vector<std::string> list_images(const Path& folder);  // by image_extensions(), any case
std::vector<std::string> list_files(const Path& folder);

}  // namespace hg
