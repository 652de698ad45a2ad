#include "train/config/variants.h"

#include <algorithm>

#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "train/config/key.h"

namespace hg {
namespace {

// The parts between separators; those inside [brackets] belong to a value.
std::vector<std::string> split_outside_brackets(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == separator && depth <= 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::string full_key(const std::string& key) {
  if (key.find('.') != std::string::npos) return key;
  const auto& own = keys_of<AttentionConfig>();
  const bool of_attention =
      std::any_of(own.begin(), own.end(), [&](const auto& k) { return k.name == key; });
  return (of_attention ? "attention." : "model.") + key;
}

AttentionVariant parse_variant(const std::string& text, const std::string& option) {
  const std::vector<std::string> parts = split_outside_brackets(text, ':');
  const auto malformed = [&](const std::string& part) {
    usage_fail(option, "expected NAME[:KEY=VALUE]..., got \"{}\" in \"{}\"", printable(part),
               printable(text));
  };
  if (parts[0].empty() || parts[0].find('=') != std::string::npos) malformed(parts[0]);
  AttentionVariant variant{text, {"model.attention=" + parts[0]}};
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t equals = parts[i].find('=');
    if (equals == 0 || equals == std::string::npos) malformed(parts[i]);
    variant.settings.push_back(full_key(parts[i].substr(0, equals)) + parts[i].substr(equals));
  }
  return variant;
}

}  // namespace

std::string variants_help() {
  return fmt::format(
      "variants of attention ({}), each with options if any: a KEY of [attention], else of "
      "[model], "
      "or SECTION.KEY, as in softmax,mgk:heads=2:dim_head=16",
      fmt::join(nn::attention_names(), ", "));
}

std::vector<AttentionVariant> parse_variants(std::string_view list, const std::string& option) {
  std::vector<AttentionVariant> variants;
  for (const std::string& text : split_outside_brackets(list, ','))
    variants.push_back(parse_variant(text, option));
  return variants;
}

}  // namespace hg
