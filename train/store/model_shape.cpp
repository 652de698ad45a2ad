#include "train/store/model_shape.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tensor/base/json_value.h"
#include "tensor/base/usage_error.h"
#include "train/store/model.h"
#include "train/store/run_folder.h"

namespace hg {
namespace {

constexpr std::int64_t kUsualHead = 64;

class ShapeReader {
 public:
  explicit ShapeReader(const std::string& path)
      : path_(model_file(path)), weights_(read_model(path_)) {}

  ModelShape read(bool heads_told);

 private:
  const Tensor& tensor(const std::string& name, std::size_t rank) const;
  bool has(const std::string& name) const { return weights_.tensors.contains(name); }
  std::int64_t blocks() const;
  std::int64_t heads(std::int64_t width);
  template <class T>
  void set(const char* key, const T& value) {
    shape_.settings.push_back({fmt::format("{}={}", key, value), path_});
  }

  std::string path_;
  Safetensors weights_;
  ModelShape shape_;
};

const Tensor& ShapeReader::tensor(const std::string& name, std::size_t rank) const {
  const auto found = weights_.tensors.find(name);
  usage_require(found != weights_.tensors.end(), path_,
                "{} is missing: no Vision Transformer with the names of timm or Hugging Face",
                name);
  usage_require(found->second.rank() == static_cast<int>(rank) && found->second.numel() > 0, path_,
                "{} is {}, expected {} axes", name, found->second, rank);
  return found->second;
}

std::int64_t ShapeReader::blocks() const {
  std::int64_t n = 0;
  while (has(fmt::format("blocks.{}.attn.qkv.weight", n))) ++n;
  return n;
}

std::int64_t ShapeReader::heads(std::int64_t width) {
  const std::string json = (std::filesystem::path(path_).parent_path() / "config.json").string();
  if (is_file(json)) {
    const JsonValue config = JsonValue::read(json);
    if (config.has("num_attention_heads"))
      return static_cast<std::int64_t>(config["num_attention_heads"].number(1, 1024));
  }
  usage_require(width % kUsualHead == 0, path_,
                "does not tell its heads, of {} in width together; expected --set model.heads=N",
                width);
  shape_.notes.push_back(
      fmt::format("{}: does not tell its heads: {} of width {}, unless --set model.heads says "
                  "otherwise",
                  path_, width / kUsualHead, kUsualHead));
  return width / kUsualHead;
}

ModelShape ShapeReader::read(bool heads_told) {
  const Tensor& patch = tensor("patch_embed.proj.weight", 4);  // [D,C,P,P]
  const Tensor& positions = tensor("pos_embed", 3);            // [1,N+1,D]
  const Tensor& qkv = tensor("blocks.0.attn.qkv.weight", 2);   // [3*H*Dh,D]
  const Tensor& fc1 = tensor("blocks.0.mlp.fc1.weight", 2);
  const std::int64_t width = patch.dim(0), side = patch.dim(2);
  const auto grid = std::llround(std::sqrt(static_cast<double>(positions.dim(1) - 1)));
  usage_require(grid > 0 && grid * grid + 1 == positions.dim(1), path_,
                "pos_embed is {}, expected a class token and a square of patches", positions);
  set("run.init_from", path_);
  set("model.in_channels", patch.dim(1));
  set("model.img_size", grid * side);
  set("model.patch_size", side);
  set("model.emb_size", width);
  set("model.depth", blocks());
  set("model.mlp_ratio", static_cast<double>(fc1.dim(0)) / static_cast<double>(width));
  set("model.qkv_bias", has("blocks.0.attn.qkv.bias"));
  if (!heads_told) {
    const std::int64_t all = qkv.dim(0) / 3, n = heads(all);
    set("model.heads", n);
    set("model.dim_head", all / n);
  }
  if (has("head.weight")) set("model.num_classes", tensor("head.weight", 2).dim(0));
  return shape_;
}

}  // namespace

bool holds_model(const std::string& path) {
  constexpr const char* kEndings[] = {".safetensors", ".pth", ".pt", ".bin", ".ckpt"};
  if (is_folder(path)) return is_file(model_file(path));
  return std::ranges::any_of(kEndings, [&](const char* ending) { return path.ends_with(ending); });
}

ModelShape shape_of_model(const std::string& path, bool heads_told) {
  return ShapeReader(path).read(heads_told);
}

}  // namespace hg
