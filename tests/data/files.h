// What the data tests share: small files in each format, and damaged ones.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <initializer_list>
#include <string>

#include "data/dataset.h"
#include "data/file.h"
#include "tensor/base/error.h"
#include "tests/support/temp_folder.h"

namespace hg::testing {

std::string big_endian(std::uint32_t v);
std::string gzipped(const std::string& bytes);
void write(const Path& path, const std::string& bytes);  // makes the folders above it

// Images of a value that depends on channel, place and `salt`.
Image patterned(int channels, int height, int width, int salt = 0);
std::string png(const Image& image);
std::string bmp(const Image& image);
std::string jpeg(const Image& image);
extern const std::string kWebp;             // 7x5, byte i of its RGB is 37 i
extern const std::string kGrayJpeg;         // 8x8, one component
extern const std::string kProgressiveJpeg;  // the same, progressive

std::string idx_images(int count, int height, int width);
std::string idx_labels(std::initializer_list<int> labels);
std::string cifar_records(int label_bytes, std::initializer_list<int> labels);

// The message of the hg::Error that f throws; fails the test if it throws none.
std::string fault_of(const std::function<void()>& f);
bool contains(const std::string& text, const std::string& part);

// f on `count` mutations; it may throw hg::Error and nothing else. Returns how many passed.
int survivors(const std::string& bytes, int count,
              const std::function<void(const std::string&)>& f);

}  // namespace hg::testing
