#include "train/store/safetensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tensor/base/files.h"
#include "tensor/base/json_parse.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "tensor/transfer.h"

namespace hg {
namespace {

using Header = nlohmann::json;  // sorted: a file may hold any number of names

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

constexpr std::size_t kPrefixBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // as the reference implementation has it
constexpr const char* kMetadata = "__metadata__";

enum class Encoding { f32, f64, i64, f16, bf16 };
constexpr std::pair<const char*, Encoding> kEncodings[] = {{"F32", Encoding::f32},
                                                           {"F64", Encoding::f64},
                                                           {"I64", Encoding::i64},
                                                           {"F16", Encoding::f16},
                                                           {"BF16", Encoding::bf16}};

std::uint64_t size_of(Encoding e) {
  return e == Encoding::f16 || e == Encoding::bf16 ? 2 : e == Encoding::f32 ? 4 : 8;
}

struct Entry {
  std::string name;
  Encoding encoding;
  Shape shape;
  std::uint64_t begin, end;
};

float float_from_half(std::uint16_t half) {
  const float sign = half & 0x8000 ? -1.0f : 1.0f;
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  if (exponent < 31) return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return fraction != 0 ? std::nanf("") : sign * INFINITY;
}

float float_from_bfloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// The header as JSON, which nests no deeper than the lists of an entry.
Header parse_header(std::string_view text, const std::string& source) {
  constexpr int kDeepest = 3;
  Header header = parse_json<Header>(text, source + ": header", kDeepest);
  usage_require(header.is_object(), source, "header: expected a JSON object of {} bytes",
                text.size());
  return header;
}

const Header& member(const Header& entry, const char* name, const std::string& who) {
  const auto it = entry.find(name);
  usage_require(it != entry.end(), who, "expected {} in the header", name);
  return *it;
}

Encoding parse_encoding(const Header& dtype, const std::string& who) {
  usage_require(dtype.is_string(), who, "expected a string as dtype");
  const auto& name = dtype.get_ref<const std::string&>();
  for (const auto& [known, encoding] : kEncodings)
    if (name == known) return encoding;
  usage_fail(who, "expected dtype F32, F64, I64, F16 or BF16, got {}", printable(name));
}

std::vector<std::uint64_t> parse_counts(const Header& list, const char* what,
                                        const std::string& who) {
  usage_require(list.is_array(), who, "expected a list as {}", what);
  std::vector<std::uint64_t> counts;
  for (const Header& item : list) {
    usage_require(item.is_number_unsigned(), who, "expected integers of at least 0 in {}", what);
    counts.push_back(item.get<std::uint64_t>());
  }
  return counts;
}

// The shape, whose elements fill `bytes` exactly.
Shape parse_shape(const Header& list, std::uint64_t bytes, Encoding encoding,
                  const std::string& who) {
  const std::vector<std::uint64_t> extents = parse_counts(list, "shape", who);
  usage_require(extents.size() <= Shape::kMaxRank, who, "expected at most {} axes, got {}",
                Shape::kMaxRank, extents.size());
  constexpr std::uint64_t kMost = std::uint64_t{1} << 48;  // elements; far beyond any file
  const bool empty = std::find(extents.begin(), extents.end(), 0) != extents.end();
  std::uint64_t elements = empty ? 0 : 1;
  Shape shape;
  for (const std::uint64_t extent : extents) {
    usage_require(extent <= kMost && elements <= kMost / std::max<std::uint64_t>(extent, 1), who,
                  "shape [{}] is too large", fmt::join(extents, ","));
    elements *= extent;
    shape.push_back(static_cast<std::int64_t>(extent));
  }
  usage_require(elements * size_of(encoding) == bytes, who,
                "expected {} bytes for shape {}, got {} by its data_offsets",
                elements * size_of(encoding), shape, bytes);
  return shape;
}

Entry parse_entry(const std::string& name, const Header& json, std::uint64_t data_bytes,
                  const std::string& source) {
  const std::string who = fmt::format("{}: {}", source, printable(name));
  usage_require(json.is_object() && json.size() == 3, who,
                "expected dtype, shape and data_offsets in the header");
  const Encoding encoding = parse_encoding(member(json, "dtype", who), who);
  const auto offsets = parse_counts(member(json, "data_offsets", who), "data_offsets", who);
  usage_require(offsets.size() == 2 && offsets[0] <= offsets[1] && offsets[1] <= data_bytes, who,
                "expected data_offsets within {} bytes of data, got [{}]", data_bytes,
                fmt::join(offsets, ","));
  return {name, encoding,
          parse_shape(member(json, "shape", who), offsets[1] - offsets[0], encoding, who),
          offsets[0], offsets[1]};
}

// Sorted by place, the tensors follow one another from the first byte to the last.
void check_cover(std::vector<Entry>& entries, std::uint64_t data_bytes, const std::string& source) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t at = 0;
  for (const Entry& entry : entries) {
    usage_require(entry.begin == at, fmt::format("{}: {}", source, printable(entry.name)),
                  "expected data from offset {}, got {}: tensors {}", at, entry.begin,
                  entry.begin < at ? "overlap" : "leave a gap");
    at = entry.end;
  }
  usage_require(at == data_bytes, source, "expected {} bytes of data, got {}", at, data_bytes);
}

std::map<std::string, std::string> parse_metadata(const Header& json, const std::string& source) {
  const std::string who = fmt::format("{}: {}", source, kMetadata);
  usage_require(json.is_object(), who, "expected an object of strings");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : json.items()) {
    usage_require(value.is_string(), who, "expected a string as {}", printable(key));
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// Data may start at any byte: it is copied, never read in place.
Tensor make_tensor(const Entry& entry, std::string_view data) {
  const DType dtype = entry.encoding == Encoding::i64   ? DType::i64
                      : entry.encoding == Encoding::f64 ? DType::f64
                                                        : DType::f32;
  const Tensor tensor = Tensor::empty(entry.shape, dtype);
  const char* from = data.data() + entry.begin;
  if (entry.begin == entry.end) return tensor;
  if (size_of(entry.encoding) != 2) {
    std::memcpy(tensor.raw(), from, entry.end - entry.begin);
    return tensor;
  }
  float* to = tensor.data<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, from + 2 * i, 2);
    to[i] = entry.encoding == Encoding::f16 ? float_from_half(bits) : float_from_bfloat(bits);
  }
  return tensor;
}

const char* name_of(DType dtype) {
  require(dtype != DType::u8, "safetensors", "u8 tensors are not written");
  return dtype == DType::f32 ? "F32" : dtype == DType::f64 ? "F64" : "I64";
}

std::string dump(const nlohmann::ordered_json& json) {
  try {
    return json.dump();
  } catch (const nlohmann::ordered_json::exception&) {
    fail("safetensors", "a name or the metadata is not UTF-8");
  }
}

std::string make_header(const NamedTensors& tensors,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::size_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    require(name != kMetadata && !header.contains(name), "safetensors",
            "tensor name {} appears twice or is reserved", printable(name));
    header[name] = {{"dtype", name_of(tensor.dtype())},
                    {"shape", std::vector(tensor.shape().begin(), tensor.shape().end())},
                    {"data_offsets", {at, at + tensor.bytes()}}};
    at += tensor.bytes();
  }
  std::string text = dump(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

// torch.save writes zip archives, and wrote pickles before version 1.6. Read as a length, their
// first 8 bytes are far too large.
void refuse_torch_file(std::string_view bytes, const std::string& source) {
  usage_require(!bytes.starts_with("PK\x03\x04") && !bytes.starts_with("\x80\x02"), source,
                "is a file of torch.save, expected safetensors; to convert it: python -c \"import "
                "torch, safetensors.torch as s; s.save_file(torch.load('{}', weights_only=True), "
                "'model.safetensors')\"",
                source);
}

}  // namespace

Safetensors parse_safetensors(std::string_view bytes, const std::string& source) {
  usage_require(bytes.size() >= kPrefixBytes, source,
                "expected a header length of 8 bytes, got a file of {}", bytes.size());
  std::uint64_t header_bytes;
  std::memcpy(&header_bytes, bytes.data(), kPrefixBytes);
  const std::uint64_t longest =
      std::min<std::uint64_t>(bytes.size() - kPrefixBytes, kLongestHeader);
  if (header_bytes > longest) refuse_torch_file(bytes, source);
  bytes.remove_prefix(kPrefixBytes);
  usage_require(
      header_bytes <= longest, source,
      "header length {} exceeds the {} bytes after it: not a safetensors file, or cut off",
      header_bytes, bytes.size());
  const Header header = parse_header(bytes.substr(0, header_bytes), source);
  const std::string_view data = bytes.substr(header_bytes);

  Safetensors file;
  std::vector<Entry> entries;
  for (const auto& [name, json] : header.items()) {
    if (name == kMetadata)
      file.metadata = parse_metadata(json, source);
    else
      entries.push_back(parse_entry(name, json, data.size(), source));
  }
  check_cover(entries, data.size(), source);
  for (const Entry& entry : entries) file.tensors.emplace(entry.name, make_tensor(entry, data));
  return file;
}

Safetensors read_safetensors(const std::string& path) {
  const MappedFile file(path);
  return parse_safetensors(file.bytes(), path);
}

void require_finite(const Safetensors& file, const std::string& source) {
  for (const auto& [name, tensor] : file.tensors) {
    if (!is_float(tensor.dtype())) continue;
    dispatch_float(tensor.dtype(), source, [&, &name = name, &tensor = tensor]<class T>() {
      const T* values = tensor.data<T>();
      const T* bad =
          std::find_if_not(values, values + tensor.numel(), [](T v) { return std::isfinite(v); });
      if (bad == values + tensor.numel()) return;
      usage_fail(fmt::format("{}: {}", source, printable(name)),
                 "expected finite values, got {} at element {}", *bad, bad - values);
    });
  }
}

void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  NamedTensors ordered = tensors;
  std::stable_partition(ordered.begin(), ordered.end(),
                        [](const auto& t) { return size_of(t.second.dtype()) == 8; });
  const std::string header = make_header(ordered, metadata);
  const std::uint64_t header_bytes = header.size();
  AtomicFile file(path);
  file.write(&header_bytes, kPrefixBytes);
  file.write(header);
  for (const auto& [name, tensor] : ordered) {
    const Tensor here = on_host(tensor), whole = here.contiguous() ? here : here.clone();
    file.write(whole.raw(), whole.bytes());
  }
  file.commit();
}

}  // namespace hg
