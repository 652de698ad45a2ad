// Models without a configuration: bare safetensors files, and folders by Hugging Face.
#include <doctest/doctest.h>

#include <cstring>

#include "tensor/base/files.h"
#include "tests/support/program.h"
#include "train/store/safetensors.h"

namespace {

using namespace hg;
using namespace hg::testing;

NamedTensors named_in(const Safetensors& file) {
  return {file.tensors.begin(), file.tensors.end()};
}

// Rows [first, first + n) of the tensor.
Tensor rows_of(const Tensor& t, std::int64_t first, std::int64_t n) {
  const std::int64_t row = t.numel() / t.dim(0);
  const Tensor part = t.rank() == 1 ? Tensor::empty({n}) : Tensor::empty({n, row});
  std::copy_n(t.data<float>() + first * row, static_cast<std::size_t>(n * row), part.data<float>());
  return part;
}

// As transformers' ViTForImageClassification names them.
NamedTensors as_transformers(const Safetensors& file) {
  const std::pair<const char*, const char*> names[] = {
      {"cls_token", "vit.embeddings.cls_token"},
      {"pos_embed", "vit.embeddings.position_embeddings"},
      {"patch_embed.proj.", "vit.embeddings.patch_embeddings.projection."},
      {"blocks.0.norm1.", "vit.encoder.layer.0.layernorm_before."},
      {"blocks.0.attn.proj.", "vit.encoder.layer.0.attention.output.dense."},
      {"blocks.0.norm2.", "vit.encoder.layer.0.layernorm_after."},
      {"blocks.0.mlp.fc1.", "vit.encoder.layer.0.intermediate.dense."},
      {"blocks.0.mlp.fc2.", "vit.encoder.layer.0.output.dense."},
      {"norm.", "vit.layernorm."},
      {"head.", "classifier."}};
  NamedTensors theirs;
  for (const auto& [name, tensor] : file.tensors)
    for (const auto& [ours, other] : names)
      if (name.starts_with(ours))
        theirs.emplace_back(other + name.substr(std::strlen(ours)), tensor);
  for (const std::string kind : {"weight", "bias"}) {
    const Tensor& qkv = file.tensors.at("blocks.0.attn.qkv." + kind);
    const std::int64_t n = qkv.dim(0) / 3;
    std::int64_t first = 0;
    for (const char* part : {"query", "key", "value"}) {
      theirs.emplace_back(
          "vit.encoder.layer.0.attention.attention." + std::string(part) + "." + kind,
          rows_of(qkv, first, n));
      first += n;
    }
  }
  return theirs;
}

struct BareFiles {
  BareFiles() {
    REQUIRE(hgtrain(tiny_train(folder / "run", set({"train.epochs=1"}))).code == 0);
    weights = read_safetensors(folder / "run/model.safetensors");
    write_safetensors(file, named_in(weights));
    make_folder(hf);
    write_safetensors(hf + "/model.safetensors", as_transformers(weights));
    put(hf + "/config.json", R"({"architectures": ["ViTForImageClassification"],
                                 "num_attention_heads": 2, "hidden_size": 16})");
  }
  const TempFolder folder;
  const std::string file = folder / "bare.safetensors", hf = folder / "hf";
  Safetensors weights;
};

Json info_of(const Arguments& arguments) {
  const Outcome done = hgtrain(Arguments{"info"} + arguments + Arguments{"--json"});
  INFO(done.err);
  REQUIRE(done.code == 0);
  return Json::parse(done.out);
}

}  // namespace

TEST_CASE("info takes a model's shape from its file, or from a folder by Hugging Face") {
  const BareFiles files;
  const Json known =
      info_of(Arguments{"shapes"} + tiny_model() + set({"model.pool=cls", "train.batch_size=256"}));
  CHECK(info_of(Arguments{files.file} + set({"model.heads=2"})) == known);
  CHECK(info_of({files.hf}) == known);
  CHECK(info_of({files.folder / "run"}) == info_of({files.folder / "run/config.toml"}));
}

TEST_CASE("a model whose heads are not told has heads of 64, or must be told") {
  const BareFiles files;
  check_refused(hgtrain({"info", files.file}), 2, {"model.heads"});
  Safetensors wide;
  const auto zeros = [&](const std::string& name, const Shape& shape) {
    wide.tensors[name] = Tensor::zeros(shape);
  };
  zeros("cls_token", {1, 1, 128});
  zeros("pos_embed", {1, 5, 128});
  zeros("patch_embed.proj.weight", {128, 3, 8, 8});
  zeros("patch_embed.proj.bias", {128});
  for (const char* norm : {"blocks.0.norm1", "blocks.0.norm2", "norm"})
    for (const char* kind : {".weight", ".bias"}) zeros(std::string(norm) + kind, {128});
  zeros("blocks.0.attn.qkv.weight", {384, 128});  // without a bias
  zeros("blocks.0.attn.proj.weight", {128, 128});
  zeros("blocks.0.attn.proj.bias", {128});
  zeros("blocks.0.mlp.fc1.weight", {192, 128});
  zeros("blocks.0.mlp.fc1.bias", {192});
  zeros("blocks.0.mlp.fc2.weight", {128, 192});
  zeros("blocks.0.mlp.fc2.bias", {128});
  zeros("head.weight", {7, 128});
  zeros("head.bias", {7});
  const std::string path = files.folder / "wide.safetensors";
  write_safetensors(path, named_in(wide));
  const Outcome done = hgtrain({"info", path, "--json"});
  INFO(done.err);
  REQUIRE(done.code == 0);
  CHECK(done.err.find("2 of width 64") != std::string::npos);
  std::int64_t parameters = 0;
  for (const auto& [name, tensor] : wide.tensors) parameters += tensor.numel();
  CHECK(Json::parse(done.out)["parameters"] == parameters);

  wide.tensors.erase("pos_embed");
  write_safetensors(path, named_in(wide));
  check_refused(hgtrain({"info", path}), 2, {path, "pos_embed is missing"});
  zeros("pos_embed", {1, 7, 128});
  write_safetensors(path, named_in(wide));
  check_refused(hgtrain({"info", path}), 2, {path, "pos_embed", "square"});
  zeros("pos_embed", {1, 5, 128});
  zeros("blocks.0.attn.gate", {4});
  write_safetensors(path, named_in(wide));
  check_refused(hgtrain({"info", path, "--set", "model.heads=2"}), 2, {path, "blocks.0.attn.gate"});
}

TEST_CASE("weights by Hugging Face score as timm's do, and training begins with them") {
  const BareFiles files;
  const Arguments data =
      set({"data.name=shapes", "data.test_limit=32", "data.train_limit=64", "train.batch_size=16",
           "train.epochs=1", "run.threads=1", "model.num_classes=5", "model.pool=mean"});
  const Outcome ours = hgtrain({"eval", files.folder / "run", "--json"});
  const Outcome theirs = hgtrain(Arguments{"eval", files.hf, "--json"} + data);
  INFO(theirs.err);
  REQUIRE(theirs.code == 0);
  CHECK(Json::parse(theirs.out)["loss"] == Json::parse(ours.out)["loss"]);

  const std::string a = files.folder / "a", b = files.folder / "b";
  const Outcome trained = hgtrain(Arguments{"train", files.hf, "--out", a} + data);
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  REQUIRE(
      hgtrain(Arguments{"train", files.file, "--out", b} + data + set({"model.heads=2"})).code ==
      0);
  CHECK(column_of(a, "train_loss") == column_of(b, "train_loss"));
}

TEST_CASE("a model by Hugging Face that lacks a part is refused by its name") {
  const BareFiles files;
  NamedTensors parts = as_transformers(files.weights);
  std::erase_if(parts, [](auto& p) { return p.first.ends_with("attention.key.bias"); });
  write_safetensors(files.hf + "/model.safetensors", parts);
  check_refused(hgtrain({"info", files.hf}), 2,
                {files.hf, "attention.attention.key.bias", "missing"});
  put(files.hf + "/config.json", "{\"num_attention_heads\": \"two\"}");
  write_safetensors(files.hf + "/model.safetensors", as_transformers(files.weights));
  check_refused(hgtrain({"info", files.hf}), 2, {"config.json", "num_attention_heads"});
}

TEST_CASE("a file of torch.save gets the line that converts it, wherever it is named") {
  const TempFolder folder;
  const std::string zip = "PK\x03\x04" + std::string(2000, 'x');
  for (const std::string name : {"a.pth", "a.pt", "a.bin"}) {
    const std::string path = folder / name;
    put(path, zip);
    const std::string line = "torch.load('" + path + "', weights_only=True)";
    for (const Arguments& command :
         {Arguments{"info", path},
          {"train", path},
          {"eval", path, "--config", "shapes"},
          {"train", "shapes", "--out", folder / "run", "--set", "run.init_from=" + path}})
      check_refused(hgtrain(command), 2, {path, "file of torch.save", line});
  }
  const std::string hf = folder / "hf";
  make_folder(hf);
  put(hf + "/config.json", R"({"num_attention_heads": 2})");
  put(hf + "/pytorch_model.bin", zip);
  check_refused(hgtrain({"info", hf}), 2, {hf + "/pytorch_model.bin", "file of torch.save"});
  check_refused(
      hgtrain({"train", "shapes", "--out", folder / "run", "--set", "run.init_from=" + hf}), 2,
      {hf + "/pytorch_model.bin", "file of torch.save"});
  CHECK(!exists(folder / "run"));
}
