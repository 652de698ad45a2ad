#include "train/store/foreign_names.h"

#include <algorithm>
#include <array>

#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"

namespace hg {
namespace {

struct Renamed {
  std::string_view theirs, ours;
};
// The first that a name begins with; what follows it stays.
constexpr Renamed kTheirNames[] = {{"embeddings.cls_token", "cls_token"},
                                   {"embeddings.position_embeddings", "pos_embed"},
                                   {"embeddings.patch_embeddings.projection.", "patch_embed.proj."},
                                   {"layernorm.", "norm."},
                                   {"classifier.", "head."}};
constexpr Renamed kNamesInBlock[] = {{"layernorm_before.", "norm1."},
                                     {"layernorm_after.", "norm2."},
                                     {"attention.output.dense.", "attn.proj."},
                                     {"intermediate.dense.", "mlp.fc1."},
                                     {"output.dense.", "mlp.fc2."}};
constexpr std::string_view kTheirBlock = "encoder.layer.", kPrefix = "vit.";
constexpr std::string_view kEmbedding = "embeddings.position_embeddings";
constexpr std::array<std::string_view, 3> kThreeParts = {"query", "key", "value"};

template <std::size_t N>
std::string renamed(std::string_view name, const Renamed (&names)[N]) {
  for (const auto& [theirs, ours] : names)
    if (name.starts_with(theirs)) return fmt::format("{}{}", ours, name.substr(theirs.size()));
  return std::string(name);
}

std::string_view without(std::string_view name, std::string_view start) {
  return name.starts_with(start) ? name.substr(start.size()) : name;
}

// encoder.layer.3.output.dense.bias -> blocks.3.mlp.fc2.bias
std::string timm_name(std::string_view name) {
  name = without(name, kPrefix);
  if (!name.starts_with(kTheirBlock)) return renamed(name, kTheirNames);
  name.remove_prefix(kTheirBlock.size());
  const std::size_t dot = std::min(name.find('.'), name.size() - 1);
  return fmt::format("blocks.{}.{}", name.substr(0, dot),
                     renamed(name.substr(dot + 1), kNamesInBlock));
}

// [n, ...] three times -> [3n, ...]
Tensor stacked(const std::array<Tensor, 3>& parts) {
  Shape shape;
  for (int axis = 0; axis < parts[0].rank(); ++axis)
    shape.push_back(axis == 0 ? 3 * parts[0].dim(0) : parts[0].dim(axis));
  Tensor all = Tensor::empty(shape, parts[0].dtype());
  float* to = all.data<float>();
  for (const Tensor& part : parts)
    to = std::copy_n(part.data<float>(), static_cast<std::size_t>(part.numel()), to);
  return all;
}

// blocks.I.attention.attention.{query,key,value}.weight -> blocks.I.attn.qkv.weight
void join_parts(Safetensors& file, const std::string& source) {
  constexpr std::string_view kQuery = ".attention.attention.query.";
  std::vector<std::string> queries;
  for (const auto& [name, tensor] : file.tensors)
    if (name.find(kQuery) != std::string::npos) queries.push_back(name);
  for (const std::string& query : queries) {
    const std::size_t at = query.find(kQuery);
    const std::string block = query.substr(0, at), kind = query.substr(at + kQuery.size());
    std::array<Tensor, 3> parts;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string name =
          fmt::format("{}.attention.attention.{}.{}", block, kThreeParts[i], kind);
      const auto found = file.tensors.find(name);
      usage_require(found != file.tensors.end(), source, "{} is missing", name);
      parts[i] = found->second;
      usage_require(parts[i].rank() > 0 && parts[i].dtype() == DType::f32 &&
                        parts[i].shape() == parts[0].shape(),
                    source, "{} is {}, expected {} as of the query", name, parts[i], parts[0]);
      file.tensors.erase(found);
    }
    file.tensors.emplace(fmt::format("{}.attn.qkv.{}", block, kind), stacked(parts));
  }
}

bool is_of_transformers(const Safetensors& file) {
  return file.tensors.contains(std::string(kEmbedding)) ||
         file.tensors.contains(fmt::format("{}{}", kPrefix, kEmbedding));
}

}  // namespace

void take_timm_names(Safetensors& file, const std::string& source) {
  if (!is_of_transformers(file)) return;
  std::map<std::string, Tensor> tensors;
  for (auto& [name, tensor] : file.tensors) {
    const std::string ours = timm_name(name);
    usage_require(tensors.emplace(ours, tensor).second, source, "{} appears twice, as {}",
                  printable(name), printable(ours));
  }
  file.tensors = std::move(tensors);
  join_parts(file, source);
}

}  // namespace hg
