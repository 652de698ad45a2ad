// fuzz PARSER [option or folder of libFuzzer]...: begins with the parser's own seeds and its kept
// inputs (tests/fuzz/corpus/PARSER). New inputs go to the first folder given, or are not kept.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tensor/base/error.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_folder.h"

namespace hg::fuzz {
namespace {

namespace fs = std::filesystem;

std::vector<Parser>& parsers() {
  static std::vector<Parser> all;
  return all;
}

const Parser* chosen = nullptr;

void choose(const std::string& name) {
  for (const Parser& parser : parsers())
    if (parser.name == name) chosen = &parser;
  if (chosen) return;
  std::fprintf(stderr, "usage: fuzz PARSER [options of libFuzzer]; parsers:");
  for (const Parser& parser : parsers()) std::fprintf(stderr, " %s", parser.name);
  std::fprintf(stderr, "\n");
  std::exit(2);
}

void check_message(const std::string& message) {
  must(!message.empty() && message.size() < 2000, "a message of some length");
  must(std::none_of(message.begin(), message.end(),
                    [](char c) { return static_cast<unsigned char>(c) < ' '; }),
       "a message of one line");
}

std::string seed_folder() {
  const std::string folder = working_folder() + "/seeds";
  fs::create_directory(folder);
  int number = 0;
  for (const std::string& seed : chosen->seeds())
    std::ofstream(folder + "/" + std::to_string(number++), std::ios::binary) << seed;
  return folder;
}

// Without files to try alone: what to begin with comes last.
void add_defaults(std::vector<std::string>& arguments) {
  for (std::size_t i = 1; i < arguments.size(); ++i)
    if (fs::is_regular_file(arguments[i])) return;
  arguments.push_back(seed_folder());
  const std::string here = HG_SOURCE_DIR "/tests/fuzz/", kept = here + "corpus/" + chosen->name;
  if (fs::is_directory(kept)) arguments.push_back(kept);
  arguments.push_back("-dict=" + here + "tokens.dict");
}

}  // namespace

Registration::Registration(const Parser& parser) { parsers().push_back(parser); }

void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "expected: %s\n", what);
  std::abort();
}

std::string file_with(const std::string& input) {
  static const int fd = memfd_create("input", MFD_CLOEXEC);
  must(ftruncate(fd, static_cast<off_t>(input.size())) == 0, "a file in memory");
  must(pwrite(fd, input.data(), input.size(), 0) == static_cast<ssize_t>(input.size()),
       "a file in memory");
  return "/proc/self/fd/" + std::to_string(fd);
}

const std::string& working_folder() {
  static const testing::TempFolder folder;
  return folder.path();
}

std::string put_file(const std::string& name, const std::string& contents) {
  const std::string path = working_folder() + "/" + name;
  fs::create_directories(fs::path(path).parent_path());
  testing::put(path, contents);
  return path;
}

std::string file_contents(const std::string& path) { return testing::contents_of(path); }

}  // namespace hg::fuzz

using namespace hg::fuzz;

// What g++ compiled does not tell of room at the end of a vector.
extern "C" const char* __asan_default_options() { return "detect_container_overflow=0"; }

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  std::vector<std::string> arguments(*argv, *argv + *argc);
  choose(arguments.size() > 1 ? arguments[1] : "");
  arguments.erase(arguments.begin() + 1);
  if (fs::is_directory("/dev/shm")) setenv("TMPDIR", "/dev/shm", 0);
  add_defaults(arguments);
  static std::vector<std::string> kept;
  static std::vector<char*> pointers;
  kept = arguments;
  for (std::string& argument : kept) pointers.push_back(argument.data());
  *argc = static_cast<int>(pointers.size());
  pointers.push_back(nullptr);
  *argv = pointers.data();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    chosen->take({reinterpret_cast<const char*>(data), size});
  } catch (const hg::Error& e) {
    check_message(e.what());
  }
  return 0;
}
