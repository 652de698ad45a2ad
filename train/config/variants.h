// Variants of attention in one argument: "softmax,mgk:heads=2:dim_head=16,linformer:rows=32". Each
// is a name with options, which are keys of [attention] or [model], or of any section with its
// name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hg {

// For the help of an option that takes them.
inline constexpr const char* kVariantsType = "ATTENTION,...";
std::string variants_help();

struct AttentionVariant {
  std::string label;                  // as it was given
  std::vector<std::string> settings;  // "section.key=value", as --set takes them
};

// Throws UsageError, naming the option of the command line, where the list cannot be read; names
// and values are checked with the configuration that they are set in.
std::vector<AttentionVariant> parse_variants(std::string_view list, const std::string& option);

}  // namespace hg
