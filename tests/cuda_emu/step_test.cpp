// A small transformer trained side by side on the CPU and on the CUDA device, real or emulated:
// forward, backward, clipping and AdamW take the same course.
#include <doctest/doctest.h>

#include <cmath>

#include "autograd/tape.h"
#include "tensor/figure.h"
#include "tensor/ops/attention.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/cross_entropy.h"
#include "tensor/ops/dropout.h"
#include "tensor/ops/embed.h"
#include "tensor/ops/layer_norm.h"
#include "tensor/ops/linear.h"
#include "tensor/ops/optimizer.h"
#include "tensor/ops/patchify.h"
#include "tensor/ops/reduce.h"
#include "tensor/random.h"
#include "tensor/transfer.h"

namespace hg {
namespace {

constexpr std::int64_t kWidth = 12, kHeads = 3, kHidden = 20, kClasses = 5, kPatch = 4;

struct Model {
  Tensors values, first, second;  // parameters and AdamW's moments
};

Model make_model(Device device) {
  RandomStream stream(7, "model");
  Model model;
  for (const Shape& shape :
       {Shape{kWidth, 3 * kPatch * kPatch}, Shape{kWidth}, Shape{1, 1, kWidth}, Shape{1, 7, kWidth},
        Shape{kWidth}, Shape{kWidth}, Shape{3 * kWidth, kWidth}, Shape{3 * kWidth},
        Shape{kWidth, kWidth}, Shape{kWidth}, Shape{kWidth}, Shape{kWidth}, Shape{kHidden, kWidth},
        Shape{kHidden}, Shape{kWidth, kHidden}, Shape{kWidth}, Shape{kClasses, kWidth},
        Shape{kClasses}}) {
    const Tensor p = Tensor::empty(shape);
    fill_uniform(p, stream, -0.4, 0.4);
    model.values.push_back(to_device(p, device));
    model.first.push_back(Tensor::zeros(shape, DType::f32, device));
    model.second.push_back(Tensor::zeros(shape, DType::f32, device));
  }
  return model;
}

// images [B,3,8,12], labels [B] -> loss [1]
Tensor loss_of(const Tensors& p, const Tensor& images, const Tensor& labels, RandomStream& drops) {
  Tensor x = embed_tokens(linear(patchify(images, kPatch), p[0], p[1]), p[2], p[3]);
  x = dropout(x, 0.1, drops);
  const Tensor mixed = attention(linear(layer_norm(x, p[4], p[5]), p[6], p[7]), kHeads);
  x = add(x, linear(mixed, p[8], p[9]));
  const Tensor hidden = linear_gelu(layer_norm(x, p[10], p[11]), p[12], p[13]);
  x = add(x, linear(hidden, p[14], p[15]));
  return cross_entropy(linear(mean(x, 1), p[16], p[17]), labels, 0.1);
}

double train_step(Model& model, const Tensor& images, const Tensor& labels, std::int64_t step,
                  RandomStream& drops) {
  Tape tape;
  for (const Tensor& p : model.values) tape.watch(p);
  const Tensor loss = loss_of(model.values, images, labels, drops);
  const Gradients grads = tape.backward(loss);
  Tensors all;
  for (const Tensor& p : model.values) all.push_back(grads[p]);
  AdamWOptions options{.lr = 0.02, .step = step};
  options.grad_scale = clip_scale(Figure::of(grad_norm(all)), 1.0);
  for (std::size_t i = 0; i < all.size(); ++i)
    adamw_step(options, model.values[i], model.first[i], model.second[i], In(&all[i], 1));
  return Figure::of(loss);
}

TEST_CASE("twenty steps of training take the course that they take on the CPU") {
  Model cpu = make_model(Device::cpu), cuda = make_model(Device::cuda);
  RandomStream images_stream(3, "images"), labels_stream(3, "labels");
  RandomStream cpu_drops(5, "drops"), cuda_drops(5, "drops");
  const Tensor images = Tensor::empty({4, 3, 8, 12}), labels = Tensor::empty({4}, DType::i64);
  fill_uniform(images, images_stream, -1, 1);
  for (int i = 0; i < 4; ++i)
    labels.data<std::int64_t>()[i] = static_cast<std::int64_t>(labels_stream.below(kClasses));
  const Tensor cuda_images = to_device(images, Device::cuda);
  const Tensor cuda_labels = to_device(labels, Device::cuda);
  double first = 0, last = 0;
  for (std::int64_t step = 1; step <= 20; ++step) {
    INFO("step " << step);
    last = train_step(cpu, images, labels, step, cpu_drops);
    if (step == 1) first = last;
    CHECK(train_step(cuda, cuda_images, cuda_labels, step, cuda_drops) ==
          doctest::Approx(last).epsilon(1e-3));
  }
  CHECK(last < 0.8 * first);
  for (std::size_t i = 0; i < cpu.values.size(); ++i) {
    INFO("parameter " << i);
    const auto a = cpu.values[i].to_vector<float>();
    const auto b = to_device(cuda.values[i], Device::cpu).to_vector<float>();
    double worst = 0;
    for (std::size_t k = 0; k < a.size(); ++k)
      worst = std::max(worst, std::abs(static_cast<double>(a[k]) - b[k]));
    CHECK(worst < 2e-3);
  }
}

}  // namespace
}  // namespace hg
