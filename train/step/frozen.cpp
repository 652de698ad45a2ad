#include "train/step/frozen.h"

#include <algorithm>

#include "autograd/tape.h"
#include "tensor/backend.h"
#include "tensor/base/process.h"
#include "tensor/base/usage_error.h"
#include "tensor/transfer.h"

namespace hg {
namespace {

bool any_begins(const std::vector<nn::Parameter>& parameters, const std::string& start) {
  return std::any_of(parameters.begin(), parameters.end(),
                     [&](const nn::Parameter& p) { return p.name.starts_with(start); });
}

}  // namespace

FrozenParts frozen_parts(const nn::Vit& model, const std::vector<nn::Parameter>& trained) {
  FrozenParts parts;
  for (std::int64_t i = 0; i < model.options().depth; ++i)
    parts.blocks.push_back(!any_begins(trained, fmt::format("blocks.{}.", i)));
  const bool embedding = any_begins(trained, "patch_embed.") || any_begins(trained, "cls_token") ||
                         any_begins(trained, "pos_embed");
  if (!embedding)
    parts.front = std::find(parts.blocks.begin(), parts.blocks.end(), 0) - parts.blocks.begin();
  return parts;
}

Tensor front_output(const nn::Vit& model, std::int64_t blocks, const Tensor& images,
                    const Tensor& keep) {
  const NoRecording off;
  return model.encode(model.sequence(model.embed(images, keep), {}, keep), {},
                      model.token_ids(keep), 0, blocks);
}

Tensor features_behind(const nn::Vit& model, std::int64_t blocks, const Tensor& front,
                       const nn::Context& context, const Tensor& keep) {
  return model.read(front, context, model.token_ids(keep), blocks);
}

FeatureCache::FeatureCache(std::int64_t images, std::int64_t tokens, std::int64_t width,
                           const std::string& key, Device device)
    : tokens_(tokens),
      width_(width),
      device_(device),
      features_([&] {
        const double bytes =
            static_cast<double>(images * tokens) * static_cast<double>(width) * sizeof(float);
        usage_require(bytes <= machine_memory().total_bytes / 2, key,
                      "features of {} images take {:.1f} GB, more than half of this machine's "
                      "memory; expected false",
                      images, bytes * 1e-9);
        return Tensor::empty({images, tokens, width});
      }()),
      there_(static_cast<std::size_t>(images), 0) {}

Tensor FeatureCache::of(std::span<const std::int64_t> images, const std::function<Tensor()>& make) {
  const std::int64_t size = tokens_ * width_;
  const auto place = [&](std::int64_t image) { return features_.data<float>() + image * size; };
  const auto flag = [&](std::int64_t image) -> char& {
    return there_[static_cast<std::size_t>(image)];
  };
  const auto bytes = static_cast<std::size_t>(size) * sizeof(float);
  Backend& cpu = backend(Device::cpu);
  if (std::all_of(images.begin(), images.end(), flag)) {
    const Tensor all = Tensor::empty({static_cast<std::int64_t>(images.size()), tokens_, width_});
    for (std::size_t i = 0; i < images.size(); ++i)
      cpu.copy(all.data<float>() + static_cast<std::int64_t>(i) * size, place(images[i]), bytes);
    return to_device(all, device_);
  }
  const Tensor made = make(), here = on_host(made);
  for (std::size_t i = 0; i < images.size(); ++i) {
    cpu.copy(place(images[i]), here.data<float>() + static_cast<std::int64_t>(i) * size, bytes);
    flag(images[i]) = 1;
  }
  return made;
}

}  // namespace hg
