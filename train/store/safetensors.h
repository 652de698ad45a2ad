// safetensors files: u64 header length, JSON header {name: {dtype, shape, data_offsets}}, data.
// Reading trusts nothing: a file is accepted only if every byte of it has exactly one meaning.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace hg {

struct Safetensors {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;  // "__metadata__"
};

// F32, F64 and I64 come as they are, F16 and BF16 as f32. Throws UsageError, naming the tensor.
Safetensors read_safetensors(const std::string& path);
// The same from memory; `source` names it in messages.
Safetensors parse_safetensors(std::string_view bytes, const std::string& source);

// Throws UsageError, naming tensor and element, if a float is not finite.
void require_finite(const Safetensors& file, const std::string& source);

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// In the order given, but 8-byte elements before 4-byte ones, so that all data are aligned. The
// file appears whole or not at all.
void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace hg
