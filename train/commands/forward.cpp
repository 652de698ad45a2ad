// hgtrain forward: logits (and boxes), loss and gradients of given weights on given images, for
// comparison with other programs. Nothing random happens.
#include <algorithm>
#include <cmath>

#include "autograd/tape.h"
#include "tensor/base/usage_error.h"
#include "tensor/transfer.h"
#include "train/commands/commands.h"
#include "train/config/selection.h"
#include "train/step/loss.h"
#include "train/step/non_finite.h"
#include "train/step/teacher.h"
#include "train/store/model.h"

namespace hg {
namespace {

const Tensor& required(const Safetensors& file, const std::string& name,
                       const std::string& source) {
  const auto found = file.tensors.find(name);
  usage_require(found != file.tensors.end(), source, "{} is missing", name);
  return found->second;
}

Tensor as(const Tensor& t, DType dtype) { return t.dtype() == dtype ? t : t.to(dtype); }

Tensor images_of(const Safetensors& file, const Config& config, const std::string& source) {
  const Tensor& images = required(file, "images", source);
  const std::int64_t size = config.model.img_size;
  usage_require(images.rank() == 4 && images.dim(0) > 0 &&
                    images.dim(1) == config.model.in_channels && images.dim(2) == size &&
                    images.dim(3) == size && is_float(images.dtype()),
                source, "images is {}, expected f32[B,{},{},{}]", images, config.model.in_channels,
                size, size);
  return as(images, DType::f32);
}

Tensor labels_of(const Tensor& labels, const Tensor& images, std::int64_t classes,
                 const std::string& source) {
  usage_require(labels.dtype() == DType::i64 && labels.shape() == Shape{images.dim(0)}, source,
                "labels is {}, expected i64[{}]", labels, images.dim(0));
  for (const std::int64_t label : labels.to_vector<std::int64_t>())
    usage_require(label >= 0 && label < classes, source, "label {} out of range for {} classes",
                  label, classes);
  return labels;
}

// The kept patches' indices, each image's in increasing order.
Tensor keep_of(const Tensor& keep, const Tensor& images, std::int64_t patches,
               const std::string& source) {
  usage_require(keep.dtype() == DType::i64 && keep.rank() == 2 && keep.dim(0) == images.dim(0) &&
                    keep.dim(1) >= 1 && keep.dim(1) <= patches,
                source, "keep is {}, expected i64[{},k] with k from 1 to {}", keep, images.dim(0),
                patches);
  const Tensor sorted = keep.clone();
  for (std::int64_t b = 0; b < keep.dim(0); ++b) {
    std::int64_t* const row = sorted.data<std::int64_t>() + b * keep.dim(1);
    std::sort(row, row + keep.dim(1));
    for (std::int64_t i = 0; i < keep.dim(1); ++i) {
      usage_require(row[i] >= 0 && row[i] < patches, source,
                    "keep holds patch {} for image {}, expected 0 to {}", row[i], b, patches - 1);
      usage_require(i == 0 || row[i] != row[i - 1], source,
                    "keep holds patch {} twice for image {}", row[i], b);
    }
  }
  return sorted;
}

struct Input {
  Tensor images, keep, labels;  // keep, labels undefined where not given
};

Input read_input(const std::string& source, const Config& config) {
  const Safetensors file = read_safetensors(source);
  require_finite(file, source);
  for (const auto& [name, tensor] : file.tensors)
    usage_require(name == "images" || name == "labels" || name == "keep", source,
                  "{} {} is not used by this configuration", name, tensor);
  Input input;
  input.images = images_of(file, config, source);
  if (const auto labels = file.tensors.find("labels"); labels != file.tensors.end())
    input.labels = labels_of(labels->second, input.images, config.model.num_classes, source);
  if (const auto keep = file.tensors.find("keep"); keep != file.tensors.end())
    input.keep = keep_of(keep->second, input.images, patches_of(config.model), source);
  return input;
}

// select.mode = "zero": the sequence stays whole, and patches that aren't kept become 0.
Input with_zeros(const Input& input, std::int64_t patch) {
  Input whole{input.images.clone(), {}, input.labels};
  const Shape& s = whole.images.shape();
  const auto k = static_cast<std::size_t>(input.keep.dim(1));
  for (std::int64_t b = 0; b < s[0]; ++b)
    blank_other_patches({input.keep.data<std::int64_t>() + static_cast<std::size_t>(b) * k, k},
                        s[1], s[2], s[3], patch, whole.images.data<float>() + b * s.product(1, 4));
  return whole;
}

// logits first; boxes of a model that has them
NamedTensors outputs_of(const nn::Vit& model, const Input& input, const nn::Context& context) {
  const Tensor features = model.features(input.images, context, input.keep);
  NamedTensors out{{"logits", model.classify(features)}};
  if (model.options().box_head) out.emplace_back("boxes", model.boxes(features));
  return out;
}

NamedTensors with_gradients(const nn::Vit& model, const Input& input, const Config& config) {
  Targets targets{input.labels};
  if (const auto teacher = teacher_of(config))
    targets.teacher =
        as(teacher->logits(as(input.images, DType::f32), input.keep), input.images.dtype());
  Tape tape;
  for (const nn::Parameter& p : model.parameters().all()) tape.watch(p.value);
  nn::PassRecord record = record_for(config.loss);
  NamedTensors out = outputs_of(model, input, {nullptr, &record});
  const Tensor loss = training_loss(out[0].second, targets, record, config.loss);
  const Gradients grads = tape.backward(loss);
  out.emplace_back("loss", loss);
  for (const nn::Parameter& p : model.parameters().all())
    out.emplace_back("grad." + p.name,
                     grads.has(p.value)
                         ? grads[p.value]
                         : Tensor::zeros(p.value.shape(), DType::f32, p.value.device()));
  return out;
}

// The precision of training, unless rounding would hide what a comparison looks for; on a GPU there
// is no other.
DType precision_of(const nn::VitOptions& options) {
  const bool wide =
      options.device == Device::cpu && nn::attention_traits(options.attention).ill_conditioned;
  return wide ? DType::f64 : DType::f32;
}

}  // namespace

int forward_command(const ForwardOptions& options) {
  const Config config = options.load();
  const Safetensors weights = read_model(options.weights);
  const nn::VitOptions made = vit_options(config, weights, options.weights);
  const nn::Vit model(made, static_cast<std::uint64_t>(config.run.seed), false, precision_of(made));
  load_weights(model, weights, options.weights, true);
  Input input = read_input(options.input, config);
  if (input.keep.defined() && config.select.mode == PatchSelection::Mode::zero)
    input = with_zeros(input, config.model.patch_size);
  input.images = as(input.images, precision_of(made));
  for (Tensor* t : {&input.images, &input.keep, &input.labels}) *t = to_device(*t, made.device);
  options.tell_device(config);
  NamedTensors out =
      input.labels.defined() ? with_gradients(model, input, config) : outputs_of(model, input, {});
  for (auto& [name, tensor] : out) tensor = as(tensor, DType::f32);
  write_safetensors(options.output, out);
  const auto bad = std::find_if(out.begin(), out.end(), [](const auto& named) {
    return !std::isfinite(first_non_finite(named.second));
  });
  if (bad != out.end())
    fmt::print(stderr, "{}: {} is not finite: it holds {}\n", options.output, bad->first,
               first_non_finite(bad->second));
  return 0;
}

}  // namespace hg
