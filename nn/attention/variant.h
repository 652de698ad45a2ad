// For the file of a variant: its class, with a static traits(options), stands in an unnamed
// namespace, and the function that variants.inc declares hands it to the factory.
#pragma once

#include <functional>

#include "nn/attention/attention.h"

namespace hg::nn {

struct AttentionVariant {
  std::function<std::unique_ptr<Attention>(const Builder&, const AttentionOptions&)> make;
  AttentionTraits (*traits)(const AttentionOptions&);
};

// more: further arguments of the class's constructor.
template <class Variant, class... More>
AttentionVariant variant(More... more) {
  return {[=](const Builder& self, const AttentionOptions& o) -> std::unique_ptr<Attention> {
            return std::make_unique<Variant>(self, o, more...);
          },
          &Variant::traits};
}

#define HG_ATTENTION(name) AttentionVariant name##_attention();
#include "nn/attention/variants.inc"
#undef HG_ATTENTION

}  // namespace hg::nn
