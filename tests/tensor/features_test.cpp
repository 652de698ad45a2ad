#include "tensor/cpu/features.h"

#include <doctest/doctest.h>

#include <cctype>
#include <fstream>
#include <sstream>

using namespace hg;

TEST_CASE("the instructions that this build uses are the CPU's") {
  std::ifstream file("/proc/cpuinfo");
  std::ostringstream text;
  text << file.rdbuf();
  for (const std::string& feature : cpu::features()) {
    std::string flag = feature == "AVX-512" ? "avx512f" : feature;
    for (char& c : flag) c = static_cast<char>(std::tolower(c));
    if (flag == "neon") flag = "asimd";
    CHECK_MESSAGE(text.str().find(" " + flag) != std::string::npos, feature);
  }
}
