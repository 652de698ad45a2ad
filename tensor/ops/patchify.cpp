#include "tensor/ops/patchify.h"

#include <algorithm>

#include "tensor/cpu/elementwise.h"
#include "tensor/ops/gather.h"

namespace hg::ops {
namespace {

void check_division(const Op& op, std::int64_t patch, const Shape& images) {
  require(patch > 0, op.name(), "patch side {} must be positive", patch);
  require(images[2] % patch == 0 && images[3] % patch == 0, op.name(),
          "patch side {} does not divide images of {}", patch, images);
}

// copy(a, b) for each run of `patch` pixels that lies at a in images [B,C,H,W] and at b in patches;
// a chunk of the parallel loop is a few rows of patches.
void for_each_run(const Shape& images, std::int64_t patch, auto copy) {
  const std::int64_t channels = images[1], height = images[2], width = images[3];
  const std::int64_t down = height / patch, across = width / patch;
  const std::int64_t row_size = channels * patch * width;  // elements in a row of patches
  cpu::parallel_for(
      images[0] * down, cpu::row_grain(row_size), [&](std::int64_t i, std::int64_t end) {
        for (; i < end; ++i) {
          const std::int64_t image = i / down * channels * height * width, y = i % down * patch;
          std::int64_t b = i * row_size;
          for (std::int64_t x = 0; x < across * patch; x += patch)
            for (std::int64_t c = 0; c < channels; ++c)
              for (std::int64_t line = y; line < y + patch; ++line, b += patch)
                copy(image + (c * height + line) * width + x, b);
        }
      });
}

// A run of constant length is a few moves instead of a call.
template <std::int64_t kRun, class T>
void copy_runs(const Shape& images, const T* from, T* to, bool from_images) {
  for_each_run(images, kRun, [=](std::int64_t a, std::int64_t b) {
    std::copy_n(from + (from_images ? a : b), kRun, to + (from_images ? b : a));
  });
}

void move_patches(const Shape& images, std::int64_t patch, const Tensor& from, const Tensor& to,
                  bool from_images) {
  dispatch_any(from.dtype(), [&]<class T>() {
    const T* x = from.data<T>();
    T* y = to.data<T>();
    if (patch == 4) return copy_runs<4>(images, x, y, from_images);
    if (patch == 8) return copy_runs<8>(images, x, y, from_images);
    if (patch == 16) return copy_runs<16>(images, x, y, from_images);
    for_each_run(images, patch, [&](std::int64_t a, std::int64_t b) {
      std::copy_n(x + (from_images ? a : b), patch, y + (from_images ? b : a));
    });
  });
}

std::int64_t patches_of(const Shape& images, std::int64_t patch) {
  return (images[2] / patch) * (images[3] / patch);
}

// The patch whose first pixel is at `from`, for each of its C p lines one run of p pixels.
template <class T>
T* copy_patch(const Shape& images, std::int64_t patch, const T* from, T* to) {
  for (std::int64_t c = 0; c < images[1]; ++c, from += images[2] * images[3])
    for (std::int64_t y = 0; y < patch; ++y) {
      const T* const line = from + y * images[3];
      to = patch == 16 ? std::copy_n(line, 16, to) : std::copy_n(line, patch, to);
    }
  return to;
}

}  // namespace

TensorSpecs Patchify::infer(In in) const {
  expect_inputs(*this, in, 1);
  expect_rank(*this, in, 0, 4);
  const Shape& x = in[0].shape();
  check_division(*this, patch, x);
  return {in[0].spec({x[0], patches_of(x, patch), x[1] * patch * patch})};
}

CostParts Patchify::cost(In in, In out) const { return elementwise_cost(in, out, 0); }

void Patchify::cpu(In in, Out out) const {
  move_patches(in[0].shape(), patch, in[0], out[0], true);
}

Tensors Patchify::grad(const GradArgs& args) const {
  const Shape& x = args.in[0].shape();
  return {unpatchify(args.grad_out[0], patch, x[1], x[2], x[3])};
}

Samples Patchify::samples() {
  return {sample(Patchify(1), {S::uniform({1, 3, 1, 197})}),
          sample(Patchify(4), {S::uniform({2, 3, 8, 12})}),
          sample(Patchify(8), {S::uniform({1, 1, 16, 8})}),
          sample(Patchify(16), {S::uniform({2, 1, 32, 16})}),
          sample(Patchify(3), {S::uniform({5, 2, 6, 9})}),
          sample(Patchify(2), {S::uniform({0, 3, 4, 4})}),
          sample(Patchify(2), {S::integers({2, 1, 4, 6}, 100)})};
}

TensorSpecs PatchifyKept::infer(In in) const {
  expect_inputs(*this, in, 2);
  expect_rank(*this, in, 0, 4);
  expect_dtype(*this, in, 1, DType::i64);
  const Shape& x = in[0].shape();
  check_division(*this, patch, x);
  require(in[1].rank() == 2 && in[1].dim(0) == x[0], name(), "keep {} does not fit {}", in[1],
          in[0]);
  return {in[0].spec({x[0], in[1].dim(1), x[1] * patch * patch})};
}

// a patch kept twice is read once
CostParts PatchifyKept::cost(In in, In out) const {
  const Shape& x = in[0].shape();
  const std::uint64_t patches = distinct_rows(in[1], x[0], patches_of(x, patch));
  const std::uint64_t bytes = static_cast<std::uint64_t>(out[0].dim(2)) * size_of(in[0].dtype());
  return Cost{.bytes_read = patches * bytes + in[1].bytes(), .bytes_written = bytes_of(out)};
}

void PatchifyKept::cpu(In in, Out out) const {
  const Shape& x = in[0].shape();
  check_ids(*this, in[1], patches_of(x, patch));
  const std::int64_t picks = in[1].dim(1), across = x[3] / patch, size = out[0].dim(2);
  const std::int64_t* keep = in[1].data<std::int64_t>();
  dispatch_any(in[0].dtype(), [&]<class T>() {
    const auto copy = [&](std::int64_t i, std::int64_t end) {
      for (; i < end; ++i) {
        const T* const image = in[0].data<T>() + i / picks * x.product(1, 4);
        const std::int64_t y = keep[i] / across * patch, left = keep[i] % across * patch;
        copy_patch(x, patch, image + y * x[3] + left, out[0].data<T>() + i * size);
      }
    };
    cpu::parallel_for(x[0] * picks, cpu::row_grain(size), copy);
  });
}

Tensors PatchifyKept::grad(const GradArgs& args) const {
  const Shape& x = args.in[0].shape();
  const Tensor all = scatter_add_rows(args.grad_out[0], args.in[1], patches_of(x, patch));
  return {unpatchify(all, patch, x[1], x[2], x[3]), Tensor()};
}

Samples PatchifyKept::samples() {
  return {sample(PatchifyKept(1), {S::uniform({1, 3, 1, 197}), S::integers({1, 138}, 197)}),
          sample(PatchifyKept(4), {S::uniform({2, 3, 8, 12}), S::integers({2, 4}, 6)}),
          sample(PatchifyKept(16), {S::uniform({2, 1, 32, 16}), S::integers({2, 1}, 2)}),
          sample(PatchifyKept(3), {S::uniform({5, 2, 6, 9}), S::integers({5, 9}, 6)}),
          sample(PatchifyKept(2), {S::uniform({2, 1, 4, 4}), S::integers({2, 0}, 4)}),
          sample(PatchifyKept(2), {S::uniform({0, 3, 4, 4}), S::integers({0, 3}, 4)}),
          sample(PatchifyKept(2), {S::integers({2, 1, 4, 6}, 100), S::integers({2, 3}, 6)})};
}

TensorSpecs Unpatchify::infer(In in) const {
  expect_inputs(*this, in, 1);
  expect_rank(*this, in, 0, 3);
  require(channels >= 0 && height >= 0 && width >= 0, name(),
          "negative extent of images [{},{},{}]", channels, height, width);
  TensorSpec spec = in[0].spec();
  spec.shape = {in[0].dim(0), channels, height, width};
  check_division(*this, patch, spec.shape);
  const Shape patches{in[0].dim(0), (height / patch) * (width / patch), channels * patch * patch};
  expect_shape(*this, in, 0, patches);
  return {spec};
}

CostParts Unpatchify::cost(In in, In out) const { return elementwise_cost(in, out, 0); }

void Unpatchify::cpu(In in, Out out) const {
  move_patches(out[0].shape(), patch, in[0], out[0], false);
}

Tensors Unpatchify::grad(const GradArgs& args) const { return {patchify(args.grad_out[0], patch)}; }

Samples Unpatchify::samples() {
  return {sample(Unpatchify(1, 3, 1, 197), {S::uniform({1, 197, 3})}),
          sample(Unpatchify(4, 3, 8, 12), {S::uniform({2, 6, 48})}),
          sample(Unpatchify(8, 1, 16, 8), {S::uniform({1, 2, 64})}),
          sample(Unpatchify(16, 1, 32, 16), {S::uniform({2, 2, 256})}),
          sample(Unpatchify(3, 2, 6, 9), {S::uniform({5, 6, 18})}),
          sample(Unpatchify(2, 3, 4, 4), {S::uniform({0, 4, 12})}),
          sample(Unpatchify(2, 1, 4, 6), {S::integers({2, 6, 4}, 100)})};
}

}  // namespace hg::ops
