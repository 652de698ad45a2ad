#include "train/phases/sample_batch.h"

#include "tensor/random.h"
#include "train/config/selection.h"

namespace hg {
namespace {

Tensor random_choice(const Config& config, std::int64_t images, std::int64_t kept) {
  const std::vector<double> equal(static_cast<std::size_t>(patches_of(config.model)), 1.0);
  const Tensor keep = Tensor::empty({images, kept}, DType::i64);
  const std::uint64_t key = selection_key(static_cast<std::uint64_t>(config.run.seed), 0);
  PatchChooser chooser;
  for (std::int64_t i = 0; i < images; ++i)
    chooser.draw(equal, key, static_cast<std::uint64_t>(i),
                 {keep.data<std::int64_t>() + i * kept, static_cast<std::size_t>(kept)});
  return keep;
}

void fill_pixels(Batch& batch, RandomStream& stream) {
  auto* const pixels = batch.images.data<std::uint8_t>();
  for (std::int64_t i = 0; i < batch.images.numel(); ++i)
    pixels[i] = static_cast<std::uint8_t>(256 * stream.uniform());
  const std::vector<float> half(static_cast<std::size_t>(batch.images.dim(1)), 0.5f);
  batch.norm = Normalizer({half, half}).as_tensor();
}

}  // namespace

Batch sample_batch(const Config& config, const BatchShape& shape,
                   const std::optional<PatchSelection>& selection, Contents contents) {
  const ModelConfig& m = config.model;
  Batch batch;
  batch.seed = static_cast<std::uint64_t>(config.run.seed);
  batch.lanes = config.run.lanes;
  TensorSpec images{DType::u8, {shape.images, m.in_channels, m.img_size, m.img_size}};
  TensorSpec norm{DType::f32, {2, m.in_channels}};
  const bool filtered = selection && selection->keep < patches_of(m);
  if (filtered) images.dtype = DType::f32;
  if (filtered && selection->mode == PatchSelection::Mode::drop) {
    batch.keep = random_choice(config, shape.images, selection->keep);
    images.shape = {shape.images, selection->keep, m.in_channels * m.patch_size * m.patch_size};
  }
  batch.images = Tensor::hollow_of(images);
  if (!filtered) batch.norm = Tensor::hollow_of(norm);
  batch.boxes = Tensor::hollow_of({DType::f32, {shape.images, 4}});
  if (contents == Contents::random) {
    RandomStream stream(batch.seed, "bench");
    batch.images = Tensor::empty(images.shape, images.dtype);
    if (filtered)
      fill_normal(batch.images, stream, 0, 1);
    else
      fill_pixels(batch, stream);
    batch.boxes = Tensor::empty({shape.images, 4});
    fill_uniform(batch.boxes, stream, 0.2f, 0.8f);
  }
  batch.has_box = Tensor::full({shape.images}, 1, DType::i64);
  batch.labels = Tensor::empty({shape.images}, DType::i64);
  for (std::int64_t i = 0; i < shape.images; ++i) {
    batch.indices.push_back(i / shape.views);
    batch.labels.data<std::int64_t>()[i] = i / shape.views % shape.classes;
  }
  return batch;
}

}  // namespace hg
