#include "nn/patch_embed.h"

#include <cmath>

#include "tensor/observer.h"
#include "tensor/ops/linear.h"
#include "tensor/ops/patchify.h"
#include "tensor/ops/view.h"

namespace hg::nn {

PatchEmbed::PatchEmbed(const Builder& parent, std::int64_t channels, std::int64_t patch,
                       std::int64_t width)
    : patch_(patch) {
  const Builder proj = parent.child("patch_embed").child("proj");
  const auto inputs = static_cast<double>(channels * patch * patch);
  weight_ =
      proj.make("weight", {width, channels, patch, patch}, Init::uniform(1 / std::sqrt(inputs)));
  bias_ = proj.make("bias", {width}, Init::constant(0));
}

Tensor PatchEmbed::operator()(const Tensor& images, const Tensor& keep) const {
  const Scope scope("patch_embed");
  const Tensor patches = images.rank() == 3 ? images
                         : keep.defined()   ? patchify(images, patch_, keep)
                                            : patchify(images, patch_);
  const Scope leaf("proj", Scope::kLeaf);
  return linear(patches, reshape(weight_, {weight_.dim(0), -1}), bias_);
}

}  // namespace hg::nn
