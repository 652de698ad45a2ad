// The variants by name.
#include <algorithm>

#include "nn/attention/variant.h"

namespace hg::nn {
namespace {

struct Named {
  std::string name;
  AttentionVariant variant;
};

const std::vector<Named>& variants() {
#define HG_ATTENTION(name) {#name, name##_attention()},
  static const std::vector<Named> all{
#include "nn/attention/variants.inc"
  };
#undef HG_ATTENTION
  return all;
}

const AttentionVariant& variant_of(const AttentionOptions& o) {
  const auto found = std::ranges::find(variants(), o.variant, &Named::name);
  require(found != variants().end(), "attention", "no variant is called \"{}\"", o.variant);
  return found->variant;
}

}  // namespace

std::vector<std::string> attention_names() {
  std::vector<std::string> names;
  for (const Named& v : variants()) names.push_back(v.name);
  return names;
}

std::unique_ptr<Attention> make_attention(const Builder& parent, const AttentionOptions& options) {
  return variant_of(options).make(parent.child("attn"), options);
}

AttentionTraits attention_traits(const AttentionOptions& options) {
  return variant_of(options).traits(options);
}

}  // namespace hg::nn
