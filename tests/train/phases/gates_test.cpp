// Sparsity terms and gates as users meet them: training, files, messages; and what a step of
// training leaves alone.
#include <doctest/doctest.h>

#include "tensor/cpu/parallel.h"
#include "tests/support/program.h"
#include "train/config/config.h"
#include "train/eval/weight_spread.h"
#include "train/step/class_step.h"
#include "train/step/optimizer.h"
#include "train/store/model.h"

namespace {

using namespace hg;
using namespace hg::testing;

using Settings = std::vector<std::string>;

const Settings kHalfOfHeads{"attention.gate=head", "attention.gate_keep=0.5"};

Config small_config(const Settings& settings) {
  return parse_config(
      "[data]\nname = 'shapes'\n[model]\nin_channels = 1\nimg_size = 16\npatch_size = 4\n"
      "emb_size = 16\ndepth = 2\nheads = 4\nnum_classes = 4\n[train]\nweight_decay = 0.1\n",
      "small.toml", settings);
}

Batch random_input(std::int64_t batch, std::uint64_t seed) {
  Batch input;
  input.lanes = 4;
  RandomStream stream(seed, "images");
  input.images = Tensor::empty({batch, 1, 16, 16});
  fill_normal(input.images, stream, 0, 1);
  input.labels = Tensor::empty({batch}, DType::i64);
  for (std::int64_t i = 0; i < batch; ++i) input.labels.data<std::int64_t>()[i] = i % 4;
  return input;
}

Batchwise step_on(const nn::Vit& model, const std::vector<nn::Parameter>& trained,
                  const Batch& batch, const LossConfig& loss) {
  return learn_classes({model, trained, batch, plan_groups(model, batch)}, {loss});
}

const Tensor& buffer(const nn::Vit& model, const std::string& name) {
  for (const nn::Buffer& b : model.parameters().buffers())
    if (b.name == name) return b.value;
  FAIL("no buffer " << name);
  return model.parameters().buffers()[0].value;
}

// The head that element i of a parameter belongs to; -1: to no single one. Heads are 4 wide.
std::int64_t head_of(const std::string& name, std::int64_t i) {
  if (name.ends_with("attn.qkv.weight")) return i / 16 / 4 % 4;
  if (name.ends_with("attn.qkv.bias")) return i / 4 % 4;
  if (name.ends_with("attn.proj.weight")) return i % 16 / 4;
  if (name.ends_with("gate.weight")) return i / 16;
  if (name.ends_with("gate.bias")) return i;
  return -1;
}

// Trains for a few steps; the term's mean on fresh images.
double entropy_after_training(double weight) {
  Config config = small_config({});
  config.loss.sparsity = weight;
  const nn::Vit model(vit_options(config), 1);
  const std::vector<nn::Parameter>& all = model.parameters().all();
  Optimizer optimizer(all, config.train);
  for (int step = 0; step < 40; ++step)
    optimizer.step(step_on(model, all, random_input(16, 7), config.loss).gradients, 1e-2);
  config.loss.sparsity = 1;
  return step_on(model, all, random_input(16, 8), config.loss).sparsity;
}

}  // namespace

TEST_CASE("a step leaves heads that do not work as they are, weights and moments") {
  for (const int threads : {1, 2}) {
    const cpu::ThreadLimit limit(threads);
    for (const char* optimizer_name : {"adamw", "sgd"}) {
      INFO(threads << " threads, " << optimizer_name);
      const Config config = small_config(
          {kHalfOfHeads[0], kHalfOfHeads[1], fmt::format("train.optimizer={}", optimizer_name)});
      const nn::Vit model(vit_options(config), 1);
      const std::vector<nn::Parameter>& all = model.parameters().all();
      Optimizer optimizer(all, config.train);
      const auto one_step = [&](std::uint64_t seed) {
        const Batchwise done = step_on(model, all, random_input(8, seed), config.loss);
        CHECK(optimizer.step(done.gradients, 1e-2, done.ranges));
        return done;
      };
      one_step(1);  // all moments of the heads at work are set now
      // other heads, so that those which stop working have moments
      for (int block = 0; block < 2; ++block) {
        const Tensor& mean = buffer(model, fmt::format("blocks.{}.attn.gate.mean", block));
        for (int h = 0; h < 4; ++h) mean.data<float>()[h] = 1 - mean.data<float>()[h];
      }
      one_step(2);
      for (int block = 0; block < 2; ++block) {
        float* const mean =
            buffer(model, fmt::format("blocks.{}.attn.gate.mean", block)).data<float>();
        std::fill_n(mean, 4, 0.1f);
        mean[1] = mean[3] = 0.9f;
      }
      std::map<std::string, std::vector<float>> before;
      for (const auto& [name, t] : weights_of(model)) before[name] = t.to_vector<float>();
      for (const auto& [name, t] : optimizer.state()) before[name] = t.to_vector<float>();
      const Batchwise done = one_step(3);
      NamedTensors after = weights_of(model);
      for (const auto& one : optimizer.state()) after.push_back(one);
      for (const auto& [name, t] : after) {
        if (name.ends_with("gate.mean")) continue;
        std::int64_t changed = 0, still = 0;
        for (std::int64_t i = 0; i < t.numel(); ++i) {
          const std::int64_t head = head_of(name, i);
          const bool same = t.data<float>()[i] == before[name][static_cast<std::size_t>(i)];
          if (head == 0 || head == 2) {
            CHECK(same);
            ++still;
          } else {
            changed += !same;
          }
        }
        INFO(name);
        CHECK(changed > 0);
        CHECK((still > 0) == (head_of(name, 0) >= 0));
      }
      for (const Tensors& half : done.gradients)
        for (std::size_t p = 0; p < all.size(); ++p)
          for (std::int64_t i = 0; i < half[p].numel(); ++i)
            if (const std::int64_t head = head_of(all[p].name, i); head == 0 || head == 2)
              REQUIRE(half[p].data<float>()[i] == 0);
    }
  }
}

TEST_CASE("layers without attention get no gradient and stay as they are") {
  const Config config = small_config({"attention.gate=layer", "attention.gate_layers=[1]"});
  const nn::Vit model(vit_options(config), 1);
  const std::vector<nn::Parameter>& all = model.parameters().all();
  Optimizer optimizer(all, config.train);
  std::map<std::string, std::vector<float>> before;
  for (const auto& [name, t] : weights_of(model)) before[name] = t.to_vector<float>();
  const Batchwise done = step_on(model, all, random_input(4, 1), config.loss);
  CHECK(optimizer.step(done.gradients, 1e-2, done.ranges));
  for (const auto& [name, t] : weights_of(model)) {
    INFO(name);
    const bool skipped = name.starts_with("blocks.1.attn.") || name.starts_with("blocks.1.norm1.");
    CHECK((t.to_vector<float>() == before[name]) == skipped);
  }
}

TEST_CASE("a term on all gates moves those of heads that do not work") {
  Config config = small_config(kHalfOfHeads);
  config.loss.gate_budget = 1;
  const nn::Vit model(vit_options(config), 1);
  const std::vector<nn::Parameter>& all = model.parameters().all();
  const Batchwise done = step_on(model, all, random_input(4, 1), config.loss);
  for (std::size_t p = 0; p < all.size(); ++p)
    if (all[p].name.ends_with("gate.bias")) {
      CHECK(done.ranges[p].all());
      for (int h = 0; h < 4; ++h) CHECK(done.gradients[0][p].data<float>()[h] != 0);
    }
}

TEST_CASE("an image's evaluation is the same alone and in any batch") {
  for (const Settings& settings :
       {kHalfOfHeads, Settings{"attention.gate=token", "attention.gate_keep=0.4"},
        Settings{"attention.gate=head", "attention.gate_keep=0.5", "attention.per_batch=false"}}) {
    INFO(settings[0]);
    const Config config = small_config(settings);
    const nn::Vit model(vit_options(config), 1);
    for (const nn::Parameter& p : model.parameters().all())
      if (p.name.ends_with("gate.weight")) {  // images should not agree on heads
        RandomStream stream(5, p.name);
        fill_normal(p.value, stream, 0, 2);
      }
    step_on(model, model.parameters().all(), random_input(8, 1), config.loss);
    const Batch all = random_input(6, 2);
    const std::vector<float> together = evaluate_logits(model, all).to_vector<float>();
    for (std::int64_t b = 0; b < 6; ++b) {
      const Batch one = GroupPlan{6, 6}.part_of(all, b);
      const std::vector<float> alone = evaluate_logits(model, one).to_vector<float>();
      for (std::size_t c = 0; c < 4; ++c)
        CHECK(std::abs(alone[c] - together[static_cast<std::size_t>(b) * 4 + c]) < 1e-6f);
    }
  }
}

TEST_CASE("a sparsity term lowers the entropy of attention") {
  CHECK(entropy_after_training(5) < entropy_after_training(0) - 0.05);
}

TEST_CASE("weights equal for all keys have full support and are not small") {
  const Config config = small_config({});
  const nn::Vit model(vit_options(config), 1);
  for (const nn::Parameter& p : model.parameters().all())
    if (p.name.find("qkv") != std::string::npos)
      std::fill_n(p.value.data<float>(), p.value.numel(), 0.0f);
  const auto spread = weight_spread(model, random_input(3, 1));
  REQUIRE(spread.has_value());
  CHECK(spread->small_share == 0);
  CHECK(spread->effective_support == doctest::Approx(17));
}

TEST_CASE("a weight of 0 leaves every bit as it is, whatever the kind") {
  const TempFolder folder;
  REQUIRE(hgtrain(tiny_train(folder / "a", {"--quiet"})).code == 0);
  REQUIRE(hgtrain(tiny_train(folder / "b", set({"loss.sparsity_kind=gini", "loss.sparsity=0.0"}) +
                                               Arguments{"--quiet"}))
              .code == 0);
  for (const char* file : {"/model.safetensors"})
    CHECK(contents_of(folder / "a" + file) == contents_of(folder / "b" + file));
  CHECK(timeless_metrics(folder / "a") == timeless_metrics(folder / "b"));
}

TEST_CASE("a run reports its sparsity term and what it achieved") {
  const TempFolder folder;
  const Outcome done = hgtrain(tiny_train(folder / "run", set({"loss.sparsity=0.5"})));
  REQUIRE(done.code == 0);
  CHECK(done.err.find("  sparsity 0.9") != std::string::npos);
  const auto rows = timeless_metrics(folder / "run");
  REQUIRE(rows[0].size() == 17);  // "seconds", blanked here, is the one before them
  CHECK(std::vector<std::string>(rows[0].begin() + 14, rows[0].end()) ==
        std::vector<std::string>{"sparsity", "small_weights", "effective_support"});
  const Json sparsity = summary_of(folder / "run")["sparsity"];
  CHECK(sparsity["kind"] == "entropy");
  CHECK(sparsity["weight"] == 0.5);
  CHECK(sparsity["term"].get<double>() == std::stod(rows.back()[14]));
  CHECK(sparsity["term"].get<double>() > 0.5);
  CHECK(sparsity["small_weights"] == 0);
  CHECK(sparsity["effective_support"].get<double>() > 3);
  CHECK(sparsity["effective_support"].get<double>() <= 5.001);
  const Outcome plain = hgtrain(tiny_train(folder / "plain", {"--quiet"}));
  CHECK(summary_of(folder / "plain")["sparsity"].is_null());
}

TEST_CASE("forward works on gated weights, with and without a running mean; eval needs it") {
  const TempFolder folder;
  const std::string run = folder / "run";
  const Arguments gated = set({"attention.gate=head", "attention.gate_keep=0.5"});
  REQUIRE(hgtrain(tiny_train(run, gated + Arguments{"--quiet"})).code == 0);
  const Safetensors weights = read_safetensors(run + "/model.safetensors");
  CHECK(weights.tensors.at("blocks.0.attn.gate.weight").shape() == Shape{2, 16});
  CHECK(weights.tensors.at("blocks.0.attn.gate.bias").shape() == Shape{2});
  CHECK(weights.tensors.at("blocks.0.attn.gate.mean").shape() == Shape{2});
  const Tensor images = Tensor::empty({2, 3, 16, 16});
  for (std::int64_t i = 0; i < images.numel(); ++i)
    images.data<float>()[i] = static_cast<float>(i % 13) / 13;
  write_safetensors(folder / "i",
                    {{"images", images}, {"labels", Tensor::of<std::int64_t>({2}, {1, 3})}});
  // Without a mean the batch's own heads work: those of the one or the other mean.
  NamedTensors lacking(weights.tensors.begin(), weights.tensors.end());
  std::erase_if(lacking, [](auto& one) { return one.first.ends_with("gate.mean"); });
  write_safetensors(folder / "w", lacking);
  for (int h = 0; h < 2; ++h) {
    NamedTensors with = lacking;
    with.emplace_back("blocks.0.attn.gate.mean",
                      Tensor::of<float>({2}, {h == 0 ? 0.9f : 0.1f, h == 0 ? 0.1f : 0.9f}));
    write_safetensors(folder / fmt::format("w{}", h), with);
  }
  std::vector<std::vector<float>> logits;
  for (const std::string& from : {folder / "w", folder / "w0", folder / "w1"}) {
    const Outcome done = hgtrain(Arguments{"forward", "shapes", "--weights", from, "--input",
                                           folder / "i", "--output", folder / "o"} +
                                 tiny_model() + gated);
    INFO(done.err);
    REQUIRE(done.code == 0);
    const Safetensors out = read_safetensors(folder / "o");
    CHECK(out.tensors.contains("grad.blocks.0.attn.gate.weight"));
    CHECK(!out.tensors.contains("grad.blocks.0.attn.gate.mean"));
    logits.push_back(out.tensors.at("logits").to_vector<float>());
  }
  CHECK(logits[1] != logits[2]);
  CHECK((logits[0] == logits[1] || logits[0] == logits[2]));
  CHECK(hgtrain({"eval", run}).code == 0);
  std::filesystem::copy_file(folder / "w", run + "/model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  check_refused(hgtrain({"eval", run}), 2, {"blocks.0.attn.gate.mean", "missing"});
}

TEST_CASE("info counts gated models by what they do") {
  const auto forward = [](const Settings& settings, const std::string& op) {
    const Outcome done = hgtrain(Arguments{"info", "deit-tiny", "--json"} + set(settings));
    REQUIRE(done.code == 0);
    std::int64_t flops = 0;
    const Json info = Json::parse(done.out);
    for (const Json& row : info["layers"])
      if (row["layer"] == "blocks.3.attn" && row["op"] == op)
        flops += row["flops_forward_matmul"].get<std::int64_t>();
    return flops;
  };
  const Settings third{"attention.gate=head", "attention.gate_keep=0.33"};
  for (const char* op : {"qkv", "proj", "attention"})
    CHECK(3 * forward(third, op) == forward({}, op));
  CHECK(forward({}, "qkv") == 2 * 197 * 192 * 3 * 192);
  CHECK(forward(third, "gate") == 2 * 192 * 3);
  const Settings half{"attention.gate=token", "attention.gate_keep=0.5"};
  CHECK(197 * forward(half, "proj") == 99 * forward({}, "proj"));
  CHECK(197 * forward(half, "quadratic_attention") == 99 * forward({}, "attention"));
  CHECK(3 * 197 * forward(half, "qkv") == (99 + 2 * 197) * forward({}, "qkv"));
  CHECK(forward({"attention.gate=layer", "attention.gate_layers=[3]"}, "qkv") == 0);
  CHECK(forward({"attention.gate=layer", "attention.gate_layers=[2]"}, "qkv") ==
        forward({}, "qkv"));
}

TEST_CASE("gates and sparsity terms that cannot be are refused in one line") {
  const std::vector<std::pair<Settings, std::vector<std::string>>> faults{
      {{"attention.gate=heads"}, {"attention.gate", "head"}},
      {{"attention.gate_keep=0.5"}, {"attention.gate_keep", "none"}},
      {{"attention.gate=head", "attention.gate_keep=0.0"}, {"attention.gate_keep"}},
      {{"attention.gate=layer"}, {"attention.gate_layers", "one or more"}},
      {{"attention.gate_layers=[0]"}, {"attention.gate_layers", "none"}},
      {{"attention.gate=layer", "attention.gate_layers=[1]"}, {"attention.gate_layers", "depth"}},
      {{"attention.gate=layer", "attention.gate_layers=[0]", "attention.gate_keep=0.5"},
       {"attention.gate_keep", "layer"}},
      {{"attention.gate=token", "attention.per_batch=false"}, {"attention.per_batch", "token"}},
      {{"attention.gate=token", "model.attention=xca"}, {"attention.gate", "xca"}},
      {{"attention.gate=token", "model.attention=prob"}, {"attention.gate", "prob"}},
      {{"attention.gate=head", "model.attention=fiak_pruned"}, {"attention.gate", "fiak_pruned"}},
      {{"attention.gate=head", "model.attention=mgk", "attention.mode=soft_e"},
       {"attention.gate", "mgk"}},
      {{"attention.gate=head", "attention.gate_keep=0.5", "model.attention=ref_gmm"},
       {"attention.gate_keep", "ref_gmm"}},
      {{"loss.gate_budget=0.1"}, {"loss.gate_budget", "none"}},
      {{"loss.sparsity=-1.0"}, {"loss.sparsity"}},
      {{"loss.sparsity=0.1", "loss.sparsity_kind=l1"}, {"loss.sparsity_kind", "l1_pi"}},
      {{"loss.sparsity=0.1", "model.attention=linear_elu"},
       {"loss.sparsity_kind", "entropy", "linear_elu"}},
      {{"loss.sparsity=0.1", "loss.sparsity_kind=gini", "model.attention=xca"},
       {"loss.sparsity_kind", "gini", "xca"}},
      {{"loss.sparsity=0.1", "loss.sparsity_kind=hoyer"}, {"loss.sparsity_kind", "priors"}},
      {{"loss.sparsity=0.1", "loss.sparsity_kind=l1_pi", "model.attention=mgk"},
       {"loss.sparsity_kind", "mgk"}},
      {{"loss.sparsity=0.1", "loss.sparsity_kind=gate_l1"}, {"loss.sparsity_kind", "gates"}},
      {{"loss.sparsity=0.1", "loss.sparsity_kind=gate_l1", "model.attention=kerformer",
        "attention.se=false"},
       {"loss.sparsity_kind", "kerformer"}},
  };
  for (const auto& [settings, parts] : faults) {
    INFO(settings[0]);
    const TempFolder folder;
    check_refused(hgtrain(tiny_train(folder / "run", set(settings))), 2, parts);
    CHECK(!exists(folder / "run"));
  }
}
