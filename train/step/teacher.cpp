#include "train/step/teacher.h"

#include "autograd/tape.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "tensor/observer.h"
#include "train/config/selection.h"
#include "train/store/run_folder.h"

namespace hg {
namespace {

constexpr const char* kKey = "loss.teacher";

Config config_of(const Config& student) {
  const std::string& folder = student.loss.teacher;
  usage_require(is_folder(folder), kKey, "expected the folder of a trained run, got \"{}\"",
                printable(folder));
  Config config = load_config(RunFolder{folder}.config());
  const auto same = [&](const char* name, std::int64_t own, std::int64_t expected) {
    usage_require(own == expected, kKey, "{} has model.{} = {}, expected {}", folder, name, own,
                  expected);
  };
  same("in_channels", config.model.in_channels, student.model.in_channels);
  same("img_size", config.model.img_size, student.model.img_size);
  same("num_classes", config.model.num_classes, student.model.num_classes);
  if (drops_patches(student)) same("patch_size", config.model.patch_size, student.model.patch_size);
  config.run.device = student.run.device;
  return config;
}

}  // namespace

Teacher::Teacher(const Config& config)
    : folder_(config.loss.teacher),
      loaded_(load_model(RunFolder{folder_}.model(), config_of(config))) {}

Tensor Teacher::logits(const Tensor& images, const Tensor& keep) const {
  const NoRecording off;
  const Scope scope("teacher");
  return loaded_.model.logits(images, {}, keep);
}

void Teacher::require_knows(const Dataset& set) const {
  const ModelCard& card = loaded_.card;
  usage_require(card.class_names == set.class_names(), kKey,
                "{} was trained on other classes than those of {}", folder_, set.info().name);
  const auto channels = static_cast<int>(loaded_.model.options().channels);
  usage_require(card.normalization == set.normalization().for_channels(channels), kKey,
                "{} was trained on pixels of another mean or deviation than those of {}", folder_,
                set.info().name);
}

std::unique_ptr<const Teacher> teacher_of(const Config& config) {
  return config.loss.teacher.empty() ? nullptr : std::make_unique<const Teacher>(config);
}

Tensor teacher_logits(const Teacher* teacher, const Tensor& images, const Tensor& keep) {
  return teacher ? teacher->logits(images, keep) : Tensor();
}

}  // namespace hg
