// Images of any kind, sorted into one folder a class.
#pragma once

#include "data/dataset.h"
#include "data/file.h"

namespace hg {

// Either <root>/train/<class>/ with <root>/test/<class>/ (or val), or <root>/<class>/ alone: then
// every fifth image of a class, by name, is for testing. Classes are the training folders by name;
// images (.png, .jpg, .jpeg, .bmp) lie directly in them.
std::unique_ptr<Dataset> open_folder(const Path& root, Split split, int img_size);
bool holds_folder(const Path& root);

}  // namespace hg
