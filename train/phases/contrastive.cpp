// contrastive: embeddings of images of a class, or of two views of an image, are drawn together and
// those of others apart (nn/METHODS.md, section 6). The loss is over a whole batch; the projector
// that makes embeddings of features is left behind at the end.
#include <algorithm>
#include <cmath>

#include "nn/projector.h"
#include "tensor/base/enum_names.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "tensor/observer.h"
#include "tensor/ops/label_pairs.h"
#include "train/phases/learner.h"
#include "train/phases/registry.h"
#include "train/step/contrastive_loss.h"
#include "train/step/non_finite.h"

namespace hg {
namespace {

bool has_two_views(const PhaseConfig& phase) { return phase.views == PhaseConfig::Views::two_view; }

class ContrastiveLearner final : public Learner {
 public:
  explicit ContrastiveLearner(const LearnerSetting& s)
      : Learner(s),
        projector_(model_.heads(), model_.options().width),
        train_loss_(s.phase(), "train"),
        test_loss_(s.phase(), "test") {
    take_up(s, frozen_with_head(s.phase()));
  }

  Batchwise learn_from(const Batch& batch) override {
    return forward_backward(
        step_on(batch),
        [&](const Batch& part, const nn::Context& context) { return embed(part, context); },
        [&](const Tensor& z) { return train_loss_(z, batch); });
  }

  // The loss on test images in a fixed random order, in batches as in training.
  std::optional<EpochReport> judge(Loader& test, const std::function<bool()>& stop) override;

 private:
  Tensor embed(const Batch& part, const nn::Context& context) const {  // [b,128]
    return projector_(model_.features(part.images, context, part.keep));
  }
  double test_loss(const Batch& batch) const {
    const Tensor z = joined_outputs(plan_evaluation(model_, batch), batch,
                                    [&](const Batch& part) { return embed(part, {}); });
    return Figure::of(test_loss_(z, batch));
  }

  const nn::Projector projector_;
  const ContrastiveLoss train_loss_, test_loss_;
};

std::optional<EpochReport> ContrastiveLearner::judge(Loader& test,
                                                     const std::function<bool()>& stop) {
  const PhaseScope phase(Phase::eval);
  EpochReport report;
  double total = 0;
  std::int64_t anchors = 0;
  test.start_epoch(0);
  for (Batch batch; test.next(batch);) {
    if (stop()) return std::nullopt;
    const double loss = test_loss(batch);
    if (!std::isfinite(loss)) explain_non_finite(model_, [&] { test_loss(batch); });
    const std::int64_t used = count_pairs(test_loss_.labels_of(batch)).anchors;
    total += loss * static_cast<double>(used);
    anchors += used;
    report.data_flops += batch.selection.flops;
  }
  if (anchors > 0) report.test_loss = total / static_cast<double>(anchors);
  report.note = trained_note();
  return report;
}

ClassBalance balance_of(const PhaseConfig& phase, std::size_t index, const RunData& data) {
  return blame_input(fmt::format("phase.{}.train.batch_size", index), [&] {
    return balance_classes(*data.train, phase.train.batch_size, phase.classes_per_batch);
  });
}

// What is left over of an epoch is left out, so that all batches have as many negatives.
LoaderOptions training_batches(const PhaseSetting& s) {
  LoaderOptions options = s.loading(Split::train);
  if (!has_two_views(s.phase())) {
    options.balance = balance_of(s.phase(), s.index, s.data);
    return options;
  }
  options.views = 2;
  options.drop_last = options.batch_size <= s.data.train->size();
  return options;
}

// Of about the same size as in training, but without choosing: a data set may be short of a class.
LoaderOptions test_batches(const PhaseSetting& s) {
  LoaderOptions options = s.loading(Split::test);
  if (has_two_views(s.phase()))
    options.views = 2, options.augment = true;
  else
    options.batch_size = balance_of(s.phase(), s.index, s.data).batch();
  options.shuffle = true;  // some data sets come class by class
  options.drop_last = options.batch_size <= s.data.test->size();
  return options;
}

// As many images of each class, or two views of each image.
BatchShape shape_of(const Config& config, const PhaseConfig& phase) {
  const std::int64_t batch = phase.train.batch_size;
  if (has_two_views(phase)) return {2 * batch, batch, 2};
  const std::int64_t classes = phase.classes_per_batch > 0
                                   ? phase.classes_per_batch
                                   : std::min(config.model.num_classes, batch / 2);
  return {batch / classes * classes, classes};
}

void check_keys(Config& config, std::size_t index, const Origins& origins) {
  const PhaseConfig& p = config.phases[index];
  const std::string prefix = fmt::format("phase.{}", index);
  const PhaseConfig usual;
  const std::string_view loss = enum_name(p.loss);
  const auto only_with = [&](std::string_view losses, const char* key, bool as_usual) {
    const std::vector<std::string_view> names = words(losses);
    usage_require(as_usual || std::find(names.begin(), names.end(), loss) != names.end(),
                  origins.who(fmt::format("{}.{}", prefix, key)),
                  "not an option with loss = \"{}\" (but with {})", loss, fmt::join(names, ", "));
  };
  only_with("hscl hcl", "beta", p.beta == usual.beta);
  only_with("hcl", "tau_plus", p.tau_plus == usual.tau_plus);
  only_with("triplet", "margin", p.margin == usual.margin);
  only_with("triplet", "negatives", p.negatives == usual.negatives);
  only_with("hscl hcl ntxent supcon", "temperature", p.temperature == usual.temperature);
  const bool two_view = has_two_views(p),
             pairs = p.loss == PhaseConfig::Loss::hcl || p.loss == PhaseConfig::Loss::ntxent;
  usage_require(two_view || !pairs, origins.who(prefix + ".views"),
                "expected \"two_view\" with loss = \"{}\", whose one positive is the other view, "
                "got \"{}\"",
                loss, enum_name(p.views));
  usage_require(!two_view || p.data.augment, origins.who(prefix + ".data.augment"),
                "expected true with views = \"two_view\", else both views are the same");
  const std::int64_t least = two_view ? 2 : 4;
  usage_require(p.train.batch_size >= least, origins.who(prefix + ".train.batch_size"),
                "expected at least {} with views = \"{}\", got {}", least, enum_name(p.views),
                p.train.batch_size);
  const std::int64_t classes = p.classes_per_batch;
  usage_require(classes == 0 || (!two_view && classes >= 2 && 2 * classes <= p.train.batch_size),
                origins.who(prefix + ".classes_per_batch"),
                "expected 0 with \"two_view\", else 2 to batch_size / 2, got {}", classes);
}

void check_balance(const Config& config, std::size_t index, const RunData& data) {
  const PhaseConfig& phase = config.phases[index];
  if (!has_two_views(phase)) balance_of(phase, index, data);
}

}  // namespace

const PhaseKind kContrastive{.name = "contrastive",
                             .heads = "projector",
                             .resolve = check_keys,
                             .check_data = check_balance,
                             .loading =
                                 [](const PhaseSetting& s, Split split) {
                                   return split == Split::train ? training_batches(s)
                                                                : test_batches(s);
                                 },
                             .shape = shape_of,
                             .learner = [](const LearnerSetting& s) -> std::unique_ptr<Learner> {
                               return std::make_unique<ContrastiveLearner>(s);
                             }};

}  // namespace hg
