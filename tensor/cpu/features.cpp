#include "tensor/cpu/features.h"

#include <unistd.h>

#include <cstring>

namespace hg::cpu {
namespace {

struct Feature {
  const char* name;
  bool (*there)();
};
#define HG_X86(name, id)                                 \
  {                                                      \
    name, [] { return __builtin_cpu_supports(id) != 0; } \
  }

constexpr Feature kUsed[] = {
#ifdef __AVX2__
    HG_X86("AVX2", "avx2"),
#endif
#ifdef __FMA__
    HG_X86("FMA", "fma"),
#endif
#ifdef __AVX512F__
    HG_X86("AVX-512", "avx512f"),
#endif
#ifdef __ARM_NEON
    {"NEON", [] { return true; }},
#endif
#ifdef __ARM_FEATURE_SVE
    {"SVE", [] { return true; }},
#endif
    {nullptr, nullptr}};

void say(const char* text) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
}

}  // namespace

void require_features() {
#ifdef __x86_64__
  __builtin_cpu_init();
#endif
  for (const Feature* feature = kUsed; feature->name; ++feature) {
    if (feature->there()) continue;
    say("this program was built for CPUs with ");
    say(feature->name);
    say(", which this one lacks: build it on this machine\n");
    _exit(1);
  }
}

std::vector<std::string> features() {
  std::vector<std::string> names;
  for (const Feature* feature = kUsed; feature->name; ++feature) names.emplace_back(feature->name);
  return names;
}

}  // namespace hg::cpu
