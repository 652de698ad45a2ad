// hgtrain forward: logits, loss and gradients of given weights on given images, for comparison with
// other programs. Nothing random happens.
#include "autograd/tape.h"
#include "train/commands/commands.h"
#include "train/loss.h"
#include "train/model.h"
#include "train/usage_error.h"

namespace hg {
namespace {

const Tensor& required(const Safetensors& file, const std::string& name,
                       const std::string& source) {
  const auto found = file.tensors.find(name);
  usage_require(found != file.tensors.end(), source, "{} is missing", name);
  return found->second;
}

Tensor images_of(const Safetensors& file, const Config& config, const std::string& source) {
  const Tensor& images = required(file, "images", source);
  const std::int64_t size = config.model.img_size;
  usage_require(images.rank() == 4 && images.dim(0) > 0 &&
                    images.dim(1) == config.model.in_channels && images.dim(2) == size &&
                    images.dim(3) == size && is_float(images.dtype()),
                source, "images is {}, expected f32[B,{},{},{}]", images, config.model.in_channels,
                size, size);
  return images.dtype() == DType::f32 ? images : images.to(DType::f32);
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

NamedTensors with_gradients(const nn::Vit& model, const Tensor& images, const Tensor& labels,
                            const LossConfig& options) {
  Tape tape;
  for (const nn::Parameter& p : model.parameters().all()) tape.watch(p.value);
  nn::PassRecord record = record_for(options);
  const Tensor logits = model.logits(images, {nullptr, &record});
  const Tensor loss = training_loss(logits, labels, record, options);
  const Gradients grads = tape.backward(loss);
  NamedTensors out{{"logits", logits}, {"loss", loss}};
  for (const nn::Parameter& p : model.parameters().all())
    out.emplace_back("grad." + p.name,
                     grads.has(p.value) ? grads[p.value] : Tensor::zeros(p.value.shape()));
  return out;
}

}  // namespace

int forward_command(const ForwardOptions& options) {
  const Config config = options.load();
  const Safetensors weights = read_safetensors(options.weights);
  const nn::Vit model(vit_options(config, weights, options.weights),
                      static_cast<std::uint64_t>(config.run.seed));
  load_weights(model, weights, options.weights);
  const Safetensors input = read_safetensors(options.input);
  require_finite(input, options.input);
  for (const auto& [name, tensor] : input.tensors)
    usage_require(name == "images" || name == "labels", options.input,
                  "{} {} is not used by this configuration", name, tensor);
  const Tensor images = images_of(input, config, options.input);
  const auto labels = input.tensors.find("labels");
  const NamedTensors out = labels == input.tensors.end()
                               ? NamedTensors{{"logits", model.logits(images, {})}}
                               : with_gradients(model, images,
                                                labels_of(labels->second, images,
                                                          config.model.num_classes, options.input),
                                                config.loss);
  write_safetensors(options.output, out);
  return 0;
}

}  // namespace hg
