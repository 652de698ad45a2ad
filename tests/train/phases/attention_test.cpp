// Attention variants as users meet them: configuration, training, weights in and out, resume.
#include <doctest/doctest.h>
#include <signal.h>

#include <map>

#include "tests/support/resume.h"
#include "train/store/safetensors.h"

namespace {

using namespace hg;
using namespace hg::testing;

using Settings = std::vector<std::string>;

// A variant, its settings, and the tensors it adds under blocks.0.attn., as nn/METHODS.md, appendix
// D names them; the model has width 16, 2 heads of 8 and 17 tokens.
struct Variant {
  std::string name;
  Settings options;
  std::map<std::string, Shape> tensors;
};

std::vector<Variant> variants() {
  const std::map<std::string, Shape> second{{"k2.weight", {16, 16}}, {"k2.bias", {16}}};
  const auto with = [&](std::map<std::string, Shape> tensors) {
    tensors.insert(second.begin(), second.end());
    return tensors;
  };
  return {{"softmax", {"attention.dropout=0.1"}, {}},
          {"softmax",
           {"attention.gate=head", "attention.gate_keep=0.5", "loss.gate_budget=0.1"},
           {{"gate.weight", {2, 16}}, {"gate.bias", {2}}, {"gate.mean", {2}}}},
          {"fiak",
           {"attention.gate=token", "attention.gate_keep=0.5", "loss.sparsity=0.1",
            "loss.sparsity_kind=hoyer"},
           {{"pi", {2, 17, 17}}}},
          {"rbf", {"loss.mle=0.01"}, {}},
          {"mgk", {}, with({{"pi", {2, 2}}})},
          {"mgk",
           {"attention.components=3", "attention.keys=shift", "attention.pi_shape=head_pos",
            "attention.sigma2_scale=[1,0.5,0.3]", "attention.norm_const=true", "loss.mle=0.01"},
           {{"shift", {2, 2, 8}}, {"pi", {2, 17, 3}}}},
          {"mgk", {"attention.mode=hard_e"}, with({{"pi", {2, 2}}})},
          {"mgk",
           {"attention.mode=soft_e", "attention.pi_shape=layer", "attention.pi_param=clamp"},
           with({{"pi", {2}}})},
          {"mlk", {"attention.feature_norm=true"}, with({{"pi", {2, 2}}})},
          {"gmm", {"attention.score=rbf", "loss.mle=0.01"}, {{"pi", {2, 17}}}},
          {"fiak", {"attention.dropout=0.2"}, {{"pi", {2, 17, 17}}}},
          {"prob", {"attention.steps=2", "attention.theta=0.5", "attention.stop_grad_em=true"}, {}},
          {"prob", {"attention.magnitude_prior=true"}, {}},
          {"linear_elu", {}, {}},
          {"efficient", {}, {}},
          {"kerformer",
           {"attention.reduction=4"},
           {{"se.fc1.weight", {4, 17}},
            {"se.fc1.bias", {4}},
            {"se.fc2.weight", {17, 4}},
            {"se.fc2.bias", {17}}}},
          {"kerformer", {"attention.se=false", "attention.axis=feature"}, {}},
          {"favor", {"attention.redraw=2"}, {{"omega", {16, 8}}}},
          {"favor", {"attention.features=5"}, {{"omega", {5, 8}}}},
          {"cosformer", {}, {}},
          {"linformer", {"attention.rows=6"}, {{"proj_k", {6, 17}}, {"proj_v", {6, 17}}}},
          {"xca", {"attention.dropout=0.1"}, {{"temperature", {2}}}},
          {"sparsemax", {}, {}},
          {"entmax15", {}, {}},
          {"ref_gmm", {}, {}},
          {"softmax", {"model.pool=cls", "merge.method=tome", "merge.per_block=5"}, {}},
          {"softmax",
           {"model.pool=cls", "model.depth=2", "merge.method=pool", "merge.keep=[9, 4]",
            "model.last_block=cls"},
           {}},
          {"window", {"attention.window=2", "attention.dropout=0.1"}, {}},
          {"axial", {"model.pool=cls", "model.last_block=cls"}, {}},
          {"hash",
           {"attention.buckets=4", "attention.gate=head", "attention.gate_keep=0.5"},
           {{"qv.weight", {32, 16}},
            {"qv.bias", {32}},
            {"rotations", {2, 8, 2}},
            {"gate.weight", {2, 16}},
            {"gate.bias", {2}},
            {"gate.mean", {2}}}},
          {"fnet", {}, {}},
          {"mixer",
           {"attention.tokens_hidden=6"},
           {{"tokens.fc1.weight", {6, 17}},
            {"tokens.fc1.bias", {6}},
            {"tokens.fc2.weight", {17, 6}},
            {"tokens.fc2.bias", {17}}}}};
}

Arguments settings_of(const Variant& v) {
  return set({"model.attention=" + v.name, "model.patch_size=4"}) + set(v.options);
}

bool is_base(const std::string& name) {
  return name.starts_with("qkv.") || name.starts_with("proj.");
}

}  // namespace

TEST_CASE("every variant trains and saves its tensors and gives gradients of its parameters") {
  for (const Variant& v : variants()) {
    INFO(v.name << " " << fmt::format("{}", fmt::join(v.options, " ")));
    const TempFolder folder;
    const std::string run = folder / "run";
    const Outcome trained =
        hgtrain(tiny_train(run, settings_of(v) + set({"train.epochs=1", "data.train_limit=32"})));
    INFO(trained.err);
    REQUIRE(trained.code == 0);

    const Safetensors weights = read_safetensors(run + "/model.safetensors");
    std::map<std::string, Shape> found;
    const std::string prefix = "blocks.0.attn.";
    for (const auto& [name, tensor] : weights.tensors)
      if (name.starts_with(prefix) && !is_base(name.substr(prefix.size())))
        found.emplace(name.substr(prefix.size()), tensor.shape());
    CHECK(found == v.tensors);

    const Tensor images = Tensor::full({2, 3, 16, 16}, 0.3);
    for (std::int64_t i = 0; i < images.numel(); ++i)
      images.data<float>()[i] = static_cast<float>(i % 13) / 13;
    write_safetensors(folder / "i",
                      {{"images", images}, {"labels", Tensor::of<std::int64_t>({2}, {1, 3})}});
    const Arguments forward{"forward", "shapes",     "--weights", run + "/model.safetensors",
                            "--input", folder / "i", "--output",  folder / "o"};
    const Outcome done = hgtrain(forward + tiny_model() + settings_of(v));
    INFO(done.err);
    REQUIRE(done.code == 0);
    const Safetensors out = read_safetensors(folder / "o");
    for (const auto& [name, tensor] : weights.tensors) {
      INFO(name);
      const bool buffer =
          name.ends_with("omega") || name.ends_with("gate.mean") || name.ends_with("rotations") ||
          (name.ends_with("pi") && v.options.size() > 0 && v.options[0] == "attention.mode=soft_e");
      REQUIRE(out.tensors.contains("grad." + name) == !buffer);
      if (!buffer) CHECK(out.tensors.at("grad." + name).shape() == tensor.shape());
    }
    const Outcome evaluated = hgtrain({"eval", run, "--json"});
    CHECK(evaluated.code == 0);
  }
}

TEST_CASE("an interrupted run goes on with its drawn and learnt buffers bit for bit") {
  for (const Settings& variant :
       {Settings{"model.attention=favor", "attention.redraw=3"},
        Settings{"model.attention=mgk", "attention.mode=soft_e", "attention.pi_shape=head_pos"},
        Settings{"attention.gate=head", "attention.gate_keep=0.5", "loss.sparsity=0.1"}}) {
    INFO(variant[0]);
    const TempFolder folder;
    const Arguments longer =
        set(variant) + set({"train.epochs=8", "data.train_limit=128", "train.batch_size=8"});
    const std::string whole = folder / "whole", cut = folder / "cut";
    REQUIRE(hgtrain(tiny_train(whole, longer)).code == 0);
    stop_at("epoch 2/8", SIGINT, tiny_train(cut, longer));
    REQUIRE(hgtrain(tiny_train(cut, longer) + Arguments{"--resume"}).code == 0);
    check_same_end(cut, whole);
  }
}

TEST_CASE("options of another variant and values that make no sense are refused in one line") {
  const auto merging = [](const Settings& more) {  // two blocks, 16 patches
    Settings all{"model.pool=cls", "model.patch_size=4", "model.depth=2"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::vector<std::pair<Settings, std::vector<std::string>>> faults{
      {{"model.attention=fiack"}, {"model.attention", "fiack", "fiak"}},
      {{"model.attention=kerfomer"}, {"model.attention", "did you mean \"kerformer\""}},
      {{"attention.components=2"}, {"attention.components", "softmax", "mgk"}},
      {{"model.attention=gmm", "attention.steps=2"}, {"attention.steps", "gmm", "prob"}},
      {{"model.attention=xca", "attention.rows=2"}, {"attention.rows", "xca", "linformer"}},
      {{"model.attention=mgk", "attention.feature_norm=true"}, {"attention.feature_norm", "mgk"}},
      {{"model.attention=mgk", "attention.mode=softe"}, {"attention.mode", "soft_e"}},
      {{"model.attention=mgk", "attention.components=0"}, {"attention.components", "1"}},
      {{"model.attention=mgk", "attention.sigma2_scale=[1,0]"}, {"attention.sigma2_scale"}},
      {{"model.attention=mgk", "attention.sigma2_scale=[1]"}, {"attention.sigma2_scale", "2"}},
      {{"model.attention=mgk", "attention.pi_shape=token"}, {"attention.pi_shape", "head_pos"}},
      {{"model.attention=mlk", "attention.mode=hard_e"}, {"attention.mode", "mlk"}},
      {{"model.attention=mlk", "attention.norm_const=true"}, {"attention.norm_const", "mlk"}},
      {{"model.attention=mlk", "attention.sigma2_scale=[1,2]"}, {"attention.sigma2_scale", "mlk"}},
      {{"model.attention=prob", "attention.theta=-1.0"}, {"attention.theta"}},
      {{"model.attention=kerformer", "attention.axis=row"}, {"attention.axis", "token"}},
      {{"model.attention=kerformer", "attention.dropout=0.1"}, {"attention.dropout", "kerformer"}},
      {{"model.attention=favor", "attention.redraw=0"}, {"attention.redraw"}},
      {{"model.attention=linformer", "attention.rows=0"}, {"attention.rows"}},
      {{"model.attention=ref_gmm", "model.heads=1"}, {"model.heads", "ref_gmm"}},
      {{"model.attention=prob", "attention.beta=2.0"},
       {"attention.beta", "attention.value_propagation"}},
      {{"attention.value_propagation=true"}, {"attention.value_propagation", "prob"}},
      {{"loss.mle=0.1"}, {"loss.mle", "softmax"}},
      {{"model.attention=fiak", "loss.mle=0.1"}, {"loss.mle", "fiak"}},
      {{"attention.dropout=1.0"}, {"attention.dropout"}},
      {{"attention.window=2"}, {"attention.window", "softmax", "window"}},
      {{"model.attention=window", "attention.window=0"}, {"attention.window"}},
      {{"model.attention=axial", "attention.shift=false"}, {"attention.shift", "window"}},
      {{"model.attention=axial", "loss.sparsity=0.1"}, {"loss.sparsity_kind", "axial"}},
      {{"model.attention=hash", "attention.buckets=5"}, {"attention.buckets", "even"}},
      {{"model.attention=hash", "attention.rounds=0"}, {"attention.rounds"}},
      {{"model.attention=fnet", "attention.dropout=0.1"}, {"attention.dropout", "fnet"}},
      {{"model.attention=fnet", "attention.gate=head"}, {"attention.gate", "fnet"}},
      {{"model.attention=mixer", "attention.gate=token"}, {"attention.gate", "mixer"}},
      {{"model.pool=cls", "model.attention=mixer", "model.last_block=cls"},
       {"model.last_block", "mixer"}},
      {{"model.attention=mixer", "attention.tokens_hidden=-1"}, {"attention.tokens_hidden"}},
      {{"merge.per_block=2"}, {"merge.per_block", "merge.method"}},
      {{"merge.keep=[3, 2]"}, {"merge.keep", "merge.method"}},
      {{"merge.method=tomes"}, {"merge.method", "tome"}},
      {merging({"merge.method=tome"}), {"merge.method", "merge.per_block", "merge.keep"}},
      {merging({"merge.method=tome", "merge.per_block=2", "merge.keep=[9, 9]"}),
       {"merge.method", "either"}},
      {merging({"merge.method=tome", "merge.per_block=9"}),
       {"merge.per_block", "block 0", "got 7"}},
      {merging({"merge.method=pool", "merge.per_block=8"}),
       {"merge.per_block", "block 1", "got 0"}},
      {merging({"merge.method=pool", "merge.keep=[9]"}), {"merge.keep", "blocks, 2", "got 1"}},
      {merging({"merge.method=pool", "merge.keep=[9, 10]"}), {"merge.keep", "block 1", "got 10"}},
      {merging({"merge.method=pool", "merge.per_block=2", "model.attention=rbf"}),
       {"merge.method", "rbf"}},
      {{"merge.method=pool", "merge.per_block=2", "model.pool=mean"}, {"merge.method", "mean"}},
      {merging({"merge.method=pool", "merge.per_block=2", "attention.gate=token"}),
       {"merge.method", "attention.gate"}},
      {merging({"merge.method=pool", "merge.per_block=2", "phase.0.kind=pretrain"}),
       {"merge.method", "pretrain"}},
      {merging({"merge.method=pool", "merge.per_block=2", "phase.0.freeze=[\"patch_embed\"]"}),
       {"merge.method", "freeze"}},
  };
  for (const auto& [settings, parts] : faults) {
    const TempFolder folder;
    check_refused(hgtrain(tiny_train(folder / "run", set(settings))), 2, parts);
    CHECK(!exists(folder / "run"));
  }
}

TEST_CASE("info counts what appendix A says of each variant in DeiT-tiny") {
  const std::map<std::string, std::pair<std::int64_t, std::int64_t>> known{
      {"softmax", {0, 29805312}},
      {"mgk", {12 * (192 * 192 + 192 + 6), 44707968}},
      {"prob", {0, 59610624}},
      {"linear_elu", {0, 9682944}},
      {"efficient", {0, 9682944}},
      {"xca", {12 * 3, 9682944}},
      {"cosformer", {0, 19365888}},
      {"linformer", {12 * 2 * 64 * 197, 19365888}},
      {"favor", {0, 80489472}},
      {"kerformer", {12 * 4937, 9682944 + 28368}},
      {"gmm", {12 * 3 * 197, 29805312}},
      {"window", {0, 4 * 192 * (2704 + 2 * 196 + 1)}},
      {"axial", {0, 4 * 192 * (14 * 196 + 2 * 196 + 1)}},
      {"fnet", {-12 * 4 * 192 * 193, 2 * 197 * 192 * (197 + 192)}},
      {"mixer", {12 * (-4 * 192 * 193 + 2 * 197 * 98 + 98 + 197), 4 * 197 * 98 * 192}}};
  for (const auto& [name, figures] : known) {
    INFO(name);
    const Outcome done =
        hgtrain({"info", "deit-tiny", "--json", "--set", "model.attention=" + name});
    REQUIRE(done.code == 0);
    const Json info = Json::parse(done.out);
    CHECK(info["parameters"] == 5717416 + figures.first);
    std::int64_t core = 0, listed = 0;
    for (const Json& row : info["layers"]) {
      listed += row["parameters"].get<std::int64_t>();
      const std::string layer = row["layer"], op = row["op"];
      if (layer.starts_with("blocks.3.attn") && op != "qkv" && op != "proj" && op != "k2")
        core += row["flops_forward_matmul"].get<std::int64_t>();
    }
    CHECK(core == figures.second);
    CHECK(listed == info["parameters"]);
  }
  const Outcome fiak = hgtrain({"info", "deit-tiny", "--json", "--set", "model.attention=fiak",
                                "--set", "model.heads=4", "--set", "model.dim_head=48"});
  CHECK(Json::parse(fiak.out)["parameters"] == 5717416 + 1862832);
}
