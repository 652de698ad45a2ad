// Phase contrastive, as users run it: every loss, what its files hold, resuming, costs, refusals.
#include <doctest/doctest.h>
#include <signal.h>

#include <cmath>

#include "tests/support/resume.h"
#include "train/step/contrastive_loss.h"
#include "train/store/safetensors.h"

namespace {

using namespace hg;
using namespace hg::testing;

constexpr std::int64_t kWidth = 16, kImages = 120, kBatch = 20, kClasses = 5, kEpochs = 4;
constexpr std::int64_t kSteps = kEpochs * kImages / kBatch;

std::string config_text(const std::string& phases) {
  return fmt::format(R"(
[run]
threads = 1
[data]
name = "shapes"
train_limit = {}
test_limit = 45
[model]
img_size = 16
patch_size = 4
emb_size = {}
depth = 1
heads = 2
num_classes = {}
[train]
batch_size = {}
epochs = {}
warmup_epochs = 0
learning_rate = 3e-3
)",
                     kImages, kWidth, kClasses, kBatch, kEpochs) +
         phases;
}

// A phase with these options.
std::string contrastive(const std::string& options = "") {
  return "[[phase]]\nkind = \"contrastive\"\n" + options + "\n";
}

struct Run {
  TempFolder folder;
  std::string config = folder / "config.toml";

  explicit Run(const std::string& phases) { put(config, config_text(phases)); }
  Arguments train(const std::string& name, const Arguments& more = {}) const {
    return Arguments{"train", config, "--out", folder / name} + more;
  }
  std::string done(const std::string& name, const Arguments& more = {}) const {
    const Outcome outcome = hgtrain(train(name, more));
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    return folder / name;
  }
  void refused(const Arguments& more, const std::vector<std::string>& parts) const {
    check_refused(hgtrain(train("refused", more)), 2, parts);
    CHECK(!exists(folder / "refused"));
  }
};

std::vector<double> column(const std::string& run, std::size_t index) {
  std::vector<double> values;
  const auto rows = timeless_metrics(run);
  for (std::size_t i = 1; i < rows.size(); ++i) values.push_back(std::stod(rows[i].at(index)));
  return values;
}
constexpr std::size_t kTrainLoss = 3, kTestLoss = 4;

Safetensors model_of(const std::string& run) {
  return read_safetensors(run + "/model.safetensors");
}

std::vector<float> values_of(const Safetensors& file, const std::string& name) {
  return file.tensors.at(name).to_vector<float>();
}

}  // namespace

TEST_CASE("contrastive training lowers the loss on images it has not seen") {
  const Run r(contrastive("temperature = 0.1"));
  const std::string run =
      r.done("run", {"--set", "data.train_limit=300", "--set", "data.test_limit=100", "--set",
                     "train.batch_size=50", "--set", "train.epochs=25"});
  const std::vector<double> train = column(run, kTrainLoss), test = column(run, kTestLoss);
  REQUIRE(test.size() == 25);
  CHECK(train.back() < train.front() - 0.05);  // of 0.095
  CHECK(test.back() < test.front() - 0.03);    // of 0.058
  for (const std::string& line : lines_of(contents_of(run + "/metrics.csv")))
    CHECK((line.starts_with("phase,") || line.find(",,,") != std::string::npos));  // no accuracy
}

TEST_CASE("every contrastive loss trains, on the batches it is made for") {
  const Run r(contrastive());
  for (const std::string loss : {"hscl", "supcon", "triplet", "ntxent", "hcl"})
    for (const std::string views : {"class_balanced", "two_view"}) {
      INFO(loss << " " << views);
      const bool pairs = loss == "ntxent" || loss == "hcl";
      if (pairs && views == "class_balanced") continue;
      const std::string run =
          r.done(loss + views, {"--set", "phase.0.loss=" + loss, "--set", "phase.0.views=" + views,
                                "--set", "train.epochs=2"});
      for (const std::size_t index : {kTrainLoss, kTestLoss})
        for (const double value : column(run, index)) CHECK(value > 0);
      const int views_of_image = views == "two_view" ? 2 : 1;
      CHECK(summary_of(run)["images"] == 2 * kImages * views_of_image);
    }
}

TEST_CASE("the projector is left behind and the head is left alone") {
  const Run r(contrastive() + contrastive() + "[phase.train]\nlearning_rate = 0.0\n" +
              "[[phase]]\nkind = \"supervised\"");
  const std::string all = r.done("all");
  CHECK(!model_of(all).tensors.contains("projector.0.weight"));

  const Run two(contrastive() + contrastive() + "[phase.train]\nlearning_rate = 0.0");
  const Run none(contrastive() + "[phase.train]\nlearning_rate = 0.0");
  const Safetensors second = model_of(two.done("two")), start = model_of(none.done("none"));
  for (const std::string part : {"0", "2"})
    for (const std::string& name : {"projector." + part + ".weight", "projector." + part + ".bias"})
      CHECK(values_of(second, name) == values_of(start, name));  // begun anew
  CHECK(second.tensors.at("projector.0.weight").shape() == Shape{kWidth, kWidth});
  CHECK(second.tensors.at("projector.2.weight").shape() == Shape{128, kWidth});
  CHECK(values_of(second, "head.weight") == values_of(start, "head.weight"));
  CHECK(values_of(second, "blocks.0.mlp.fc1.weight") !=
        values_of(start, "blocks.0.mlp.fc1.weight"));
  // A file with a projector in it still is a model.
  CHECK(hgtrain({"eval", two.folder / "two"}).code == 0);
}

TEST_CASE("a contrastive phase resumes bit for bit in its middle") {
  for (const std::string options :
       {"", "loss = \"triplet\"\nviews = \"two_view\"\nnegatives = \"random\"",
        "loss = \"hcl\"\nviews = \"two_view\""}) {
    INFO(options);
    const Run r(contrastive(options) + "[phase.train]\nepochs = 8\n[[phase]]\n");
    const Arguments more{"--set", "model.dropout=0.1", "--set", "select.heuristic=variance"};
    const std::string whole = r.done("whole", more), run = r.folder / "run";
    stop_at("epoch 1/8", SIGINT, r.train("run", more));
    const Safetensors state = read_safetensors(run + "/state.safetensors");
    CHECK(state.metadata.at("phase") == "0");
    CHECK(state.tensors.contains("model.projector.2.bias"));
    CHECK(state.tensors.contains("adamw.m.projector.2.bias"));
    r.done("run", more + Arguments{"--resume"});
    check_same_end(run, whole);
  }
}

TEST_CASE("the loss of a batch has the same bits with any thread count") {
  const Run r(contrastive() + "[phase.train]\nlearning_rate = 0.0\nepochs = 1");
  const std::string one = r.done("one"), three = r.done("three", {"--threads", "3"});
  for (const std::size_t index : {kTrainLoss, kTestLoss})
    CHECK(column(one, index) == column(three, index));
}

TEST_CASE("a contrastive phase counts every pass it makes") {
  const Run r(contrastive() + "[phase.train]\nepochs = 4");
  const Run other("[[phase]]\nkind = \"supervised\"");
  const std::string run = r.done("run"), supervised = other.done("supervised");
  const std::string two = r.done("two", {"--set", "phase.0.views=two_view"});
  const auto u = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  constexpr std::int64_t kEmbedding = 128;
  // Forward all groups to embeddings, then each group again with its gradient.
  for (const std::string layer : {"patch_embed", "blocks.0.mlp"}) {
    const std::uint64_t once = flops_of(supervised, "forward", layer);
    CHECK(once > 0);
    CHECK(flops_of(run, "forward", layer) == 2 * once);
    CHECK(flops_of(two, "forward", layer) == 4 * once);
    CHECK(flops_of(run, "backward", layer) == flops_of(supervised, "backward", layer));
  }
  const std::int64_t passes = 2 * kEpochs * kImages;
  CHECK(flops_of(run, "forward", "projector", "0") ==
        u(passes * (2 * kWidth * kWidth + kWidth + 5 * kWidth)));
  CHECK(flops_of(run, "forward", "projector", "2") ==
        u(passes * (2 * kWidth * kEmbedding + kEmbedding)));
  CHECK(flops_of(run, "forward", "projector", "l2_normalize") == u(passes * 4 * kEmbedding));
  // 2 M^2 d, twice that for its gradient; M is 2 B with two views
  const std::int64_t products = kSteps * 2 * kBatch * kBatch * kEmbedding;
  CHECK(flops_of(run, "forward", "loss", "matmul") == u(products));
  CHECK(flops_of(run, "backward", "loss", "matmul") == u(2 * products));
  CHECK(flops_of(two, "forward", "loss", "matmul") == u(4 * products));
  // hscl: 9 for each pair of an anchor with a negative, 10 with a positive
  const std::int64_t of_class = kBatch / kClasses;
  const std::int64_t pairs = kBatch * (9 * (kBatch - of_class) + 10 * (of_class - 1));
  CHECK(flops_of(run, "forward", "loss", "contrastive") == u(kSteps * pairs));
  CHECK(flops_of(run, "backward", "loss", "contrastive") == u(kSteps * pairs));
  CHECK(flops_of(run, "eval", "loss", "matmul") == u(kEpochs * 2 * 2 * kBatch * kBatch * 128));
  CHECK(flops_of(run, "forward", "head") == 0);
}

TEST_CASE("pretraining, contrastive training and fine-tuning hand on what the next one needs") {
  const std::string first = "[[phase]]\nkind = \"pretrain\"\n" + contrastive();
  const Run r(first + "[[phase]]\nkind = \"finetune\"\n"), before(first);
  const std::string run = r.done("run");
  const auto rows = timeless_metrics(run);
  REQUIRE(rows.size() == 1 + 3 * kEpochs);
  CHECK(rows[kEpochs].at(0) == "pretrain");
  CHECK(rows[2 * kEpochs].at(0) == "contrastive");
  CHECK(rows[3 * kEpochs].at(0) == "finetune");
  CHECK(summary_of(run)["accuracy"].is_number());
  const Safetensors tuned = model_of(run), left = model_of(before.done("before"));
  CHECK(left.tensors.contains("projector.0.weight"));
  CHECK(!left.tensors.contains("mask_token"));
  CHECK(!tuned.tensors.contains("projector.0.weight"));
  for (const std::string name : {"cls_token", "pos_embed", "patch_embed.proj.weight"})
    CHECK(values_of(tuned, name) == values_of(left, name));  // frozen
  CHECK(values_of(tuned, "head.weight") != values_of(left, "head.weight"));
}

TEST_CASE("a contrastive phase leaves alone what is frozen") {
  const Run still(contrastive() + "[phase.train]\nlearning_rate = 0.0");
  const Run r(contrastive("freeze = [\"patch_embed\", \"blocks.0.attn\"]"));
  const Outcome outcome = hgtrain({"train", r.config, "--out", r.folder / "run"});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  const Safetensors start = model_of(still.done("still")), end = model_of(r.folder / "run");
  std::int64_t frozen = 0;
  for (const auto& [name, tensor] : start.tensors) {
    INFO(name);
    const bool stays = name.starts_with("patch_embed.") || name.starts_with("blocks.0.attn.") ||
                       name.starts_with("head.");
    CHECK((values_of(end, name) == tensor.to_vector<float>()) == stays);
    if (stays) frozen += tensor.numel();
  }
  std::int64_t all = 0;
  for (const auto& [name, tensor] : end.tensors) all += tensor.numel();
  CHECK(outcome.err.find(fmt::format("{} of {} parameters trained", all - frozen, all)) !=
        std::string::npos);
}

TEST_CASE("which rows belong together follows from the loss") {
  Batch batch;
  batch.indices = {7, 7, 3, 3};
  batch.labels = Tensor::of<std::int64_t>({4}, {1, 1, 1, 1});
  sections::PhaseOptions phase;
  using Loss = sections::PhaseOptions::Loss;
  for (const Loss loss : {Loss::hscl, Loss::supcon, Loss::triplet, Loss::ntxent, Loss::hcl}) {
    phase.loss = loss;
    const auto labels = ContrastiveLoss(phase, "train").labels_of(batch);
    const bool pairs = loss == Loss::ntxent || loss == Loss::hcl;
    CHECK(labels.to_vector<std::int64_t>() ==
          (pairs ? std::vector<std::int64_t>{7, 7, 3, 3} : std::vector<std::int64_t>{1, 1, 1, 1}));
  }
}

TEST_CASE("random negatives are drawn anew each step and in streams of their own") {
  sections::PhaseOptions phase;
  phase.loss = sections::PhaseOptions::Loss::triplet;
  phase.negatives = TripletOptions::Negatives::random;
  phase.margin = 2;
  RandomStream stream(2, "points");
  const Tensor z = Tensor::empty({16, 8});
  fill_normal(z, stream, 0, 0.3);
  std::vector<std::int64_t> classes;
  for (std::int64_t i = 0; i < 16; ++i) classes.push_back(i % 4);
  Batch batch;
  batch.labels = Tensor::of({16}, classes);
  batch.seed = 1;
  const ContrastiveLoss train(phase, "train"), test(phase, "test"), again(phase, "train");
  const auto value = [&](const ContrastiveLoss& loss, std::int64_t step) {
    batch.step = step;
    return loss(z, batch).item<float>();
  };
  CHECK(value(train, 3) == value(again, 3));
  CHECK(value(train, 3) != value(train, 4));
  CHECK(value(train, 3) != value(test, 3));
}

TEST_CASE("settings that contradict a contrastive phase are refused before anything is written") {
  const Run r(contrastive());
  const auto phase = [](const std::vector<std::string>& settings) {
    return set(settings, "phase.0.");
  };
  r.refused(phase({"loss=ntxent"}), {"phase.0.views", "two_view", "ntxent"});
  r.refused(phase({"loss=hcl"}), {"phase.0.views", "two_view", "hcl"});
  r.refused(phase({"views=two_view", "data.augment=false"}),
            {"phase.0.data.augment", "two_view", "both views are the same"});
  r.refused(phase({"loss=triplet", "beta=2.0"}), {"phase.0.beta", "triplet", "hscl, hcl"});
  r.refused(phase({"tau_plus=0.2"}), {"phase.0.tau_plus", "hscl", "hcl"});
  r.refused(phase({"margin=0.5"}), {"phase.0.margin", "triplet"});
  r.refused(phase({"negatives=semi_hard"}), {"phase.0.negatives", "triplet"});
  r.refused(phase({"loss=triplet", "temperature=0.1"}), {"phase.0.temperature", "triplet"});
  r.refused(phase({"negatives=easy"}), {"phase.0.negatives", "hard, semi_hard, random"});
  r.refused(phase({"train.batch_size=3"}), {"phase.0.train.batch_size", "at least 4", "got 3"});
  r.refused(phase({"views=two_view", "train.batch_size=1"}),
            {"phase.0.train.batch_size", "at least 2", "got 1"});
  r.refused(phase({"classes_per_batch=11"}), {"phase.0.classes_per_batch", "got 11"});
  r.refused(phase({"views=two_view", "classes_per_batch=2"}), {"phase.0.classes_per_batch"});
  r.refused({"--set", "loss.sparsity=0.1"}, {"loss.sparsity", "learns classes", "got 0.1"});
  // Faults that only the data show, also in a later phase.
  r.refused(phase({"data.train_limit=2"}), {"phase.0.train.batch_size", "0 classes of 2 images"});
  r.refused(phase({"classes_per_batch=6"}),
            {"phase.0.train.batch_size", "6 classes", "such classes"});
  const Run later("[[phase]]\n" + contrastive() + "[phase.data]\ntrain_limit = 12");
  later.refused({}, {"phase.1.train.batch_size", "5 classes of 4 images each in a batch of 20"});
}
