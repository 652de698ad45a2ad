// Parts of a model that stay as they are. What comes first in it and is frozen runs without a tape
// and without dropout, each layer's memory freed after the next, and its output may be stored.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "nn/vit.h"

namespace hg {

struct FrozenParts {
  // Embedding and so many first blocks have nothing that is trained; none: the embedding has.
  std::optional<std::int64_t> front;
  std::vector<char> blocks;  // whether all of block i is frozen: its layers draw and learn nothing
};
FrozenParts frozen_parts(const nn::Vit& model, const std::vector<nn::Parameter>& trained);

// images, keep as for Vit::logits() -> the output [B, N, E] of embedding and first blocks.
Tensor front_output(const nn::Vit& model, std::int64_t blocks, const Tensor& images,
                    const Tensor& keep);
// From there to the pooled output, as Vit::features().
Tensor features_behind(const nn::Vit& model, std::int64_t blocks, const Tensor& front,
                       const nn::Context& context, const Tensor& keep);

// The front's output for each image of a data set, made once. Threads may ask at the same time for
// different images.
class FeatureCache {
 public:
  // Throws UsageError, naming `key`, if it would take more than half of the machine's memory.
  FeatureCache(std::int64_t images, std::int64_t tokens, std::int64_t width, const std::string& key,
               Device device = Device::cpu);
  // Of these images [b, N, E]; `make` is asked for it unless all are there.
  Tensor of(std::span<const std::int64_t> images, const std::function<Tensor()>& make);

 private:
  const std::int64_t tokens_, width_;
  const Device device_;      // of the model
  const Tensor features_;    // [images, N, E], on the host
  std::vector<char> there_;  // [images]
};

}  // namespace hg
