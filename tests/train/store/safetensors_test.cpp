#include "train/store/safetensors.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tensor/base/usage_error.h"
#include "tensor/ops/permute.h"
#include "tests/support/mutate.h"
#include "tests/support/temp_folder.h"

namespace hg::testing {
namespace {

std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t size = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &size, 8);
  return bytes + header + data;
}

std::string fault(const std::string& header, const std::string& data = std::string(8, '\0')) {
  return message_of<UsageError>([&] { parse_safetensors(file_of(header, data), "f"); });
}

std::string bytes_of(std::initializer_list<std::uint16_t> halves) {
  std::string bytes;
  for (const std::uint16_t h : halves) bytes += {static_cast<char>(h), static_cast<char>(h >> 8)};
  return bytes;
}

NamedTensors example() {
  return {{"head.weight", Tensor::of<float>({2, 3}, {1, -2, 3.5f, 1e-38f, 5, 6})},
          {"scalar", Tensor::of<double>({}, {M_PI})},
          {"labels", Tensor::of<std::int64_t>({3}, {0, -1, std::int64_t{1} << 62})},
          {"none", Tensor::empty({0, 4})},
          {"bias", Tensor::of<float>({1}, {7})}};
}

}  // namespace

TEST_CASE("safetensors written are read back") {
  TempFolder folder;
  const std::string path = folder / "m.safetensors";
  write_safetensors(path, example(), {{"format", "pt"}, {"note", "a \"b\"\n\u00fc"}});
  const Safetensors file = read_safetensors(path);
  CHECK(file.metadata.at("format") == "pt");
  CHECK(file.metadata.at("note") == "a \"b\"\n\u00fc");
  REQUIRE(file.tensors.size() == 5);
  CHECK(file.tensors.at("head.weight").shape() == Shape{2, 3});
  CHECK(file.tensors.at("head.weight").to_vector<float>() ==
        std::vector<float>{1, -2, 3.5f, 1e-38f, 5, 6});
  CHECK(file.tensors.at("scalar").item<double>() == M_PI);
  CHECK(file.tensors.at("labels").to_vector<std::int64_t>()[2] == std::int64_t{1} << 62);
  CHECK(file.tensors.at("none").shape() == Shape{0, 4});
}

TEST_CASE("safetensors have a padded header and aligned data") {
  TempFolder folder;
  write_safetensors(folder / "m", example());
  const std::string bytes = contents_of(folder / "m");
  std::uint64_t header;
  std::memcpy(&header, bytes.data(), 8);
  CHECK(header % 8 == 0);
  CHECK(bytes[8] == '{');
  double scalar;  // the first of the 8-byte tensors, which stand before the others
  std::memcpy(&scalar, bytes.data() + 8 + header, 8);
  CHECK(scalar == M_PI);
  write_safetensors(folder / "empty", {});
  CHECK(read_safetensors(folder / "empty").tensors.empty());
}

TEST_CASE("safetensors hold what a view shows, not its storage") {
  TempFolder folder;
  const Tensor t = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  write_safetensors(folder / "m", {{"t", permute(t, {1, 0})}});
  CHECK(read_safetensors(folder / "m").tensors.at("t").to_vector<float>() ==
        std::vector<float>{1, 4, 2, 5, 3, 6});
}

TEST_CASE("names that appear twice are not written") {
  TempFolder folder;
  const Tensor t = Tensor::zeros({1});
  CHECK_THROWS_AS(write_safetensors(folder / "m", {{"a", t}, {"a", t}}), Error);
  CHECK_THROWS_AS(write_safetensors(folder / "m", {{"__metadata__", t}}), Error);
  CHECK_THROWS_AS(write_safetensors(folder / "m", {{"\xff", t}}), Error);
  CHECK(!std::filesystem::exists(folder / "m"));
  CHECK(!leftovers_in(folder.path()));
}

TEST_CASE("16-bit floats become f32") {
  const std::string half =
      bytes_of({0x3c00, 0xc000, 0x0001, 0x83ff, 0x7bff, 0x7c00, 0xfc00, 0x7e00});
  const Safetensors f16 = parse_safetensors(
      file_of(R"({"h":{"dtype":"F16","shape":[8],"data_offsets":[0,16]}})", half), "f");
  const std::vector<float> h = f16.tensors.at("h").to_vector<float>();
  CHECK(h[0] == 1);
  CHECK(h[1] == -2);
  CHECK(h[2] == 0x1p-24f);
  CHECK(h[3] == -0x1.ff8p-15f);
  CHECK(h[4] == 65504);
  CHECK(h[5] == std::numeric_limits<float>::infinity());
  CHECK(h[6] == -std::numeric_limits<float>::infinity());
  CHECK(std::isnan(h[7]));
  const Safetensors bf16 =
      parse_safetensors(file_of(R"({"b":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})",
                                bytes_of({0x3f80, 0xc049})),
                        "f");
  CHECK(bf16.tensors.at("b").to_vector<float>() == std::vector<float>{1, -3.140625f});
}

TEST_CASE("data need not be aligned") {
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  for (int blanks = 0; blanks < 4; ++blanks)
    CHECK(fault(header + std::string(static_cast<std::size_t>(blanks), ' ')) == "");
}

TEST_CASE("safetensors that lie are refused") {
  const auto entry = [](const std::string& name, const std::string& shape,
                        const std::string& offsets, const std::string& dtype = "F32") {
    return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape,
                       offsets);
  };
  const auto with = [&](const std::string& entries) { return fault("{" + entries + "}"); };
  CHECK(with(entry("a", "[2]", "[0,8]")) == "");
  CHECK(with(entry("a", "[3]", "[0,8]")) ==
        "f: a: expected 12 bytes for shape [3], got 8 by its data_offsets");
  CHECK(with(entry("a", "[3]", "[0,12]")) ==
        "f: a: expected data_offsets within 8 bytes of data, got [0,12]");
  CHECK(with(entry("a", "[1]", "[8,4]")).find("data_offsets within") != std::string::npos);
  CHECK(with(entry("a", "[1]", "[0,4]")) == "f: expected 4 bytes of data, got 8");
  CHECK(with(entry("a", "[1]", "[4,8]")).ends_with("tensors leave a gap"));
  CHECK(with(entry("a", "[2]", "[0,8]") + "," + entry("b", "[1]", "[4,8]"))
            .ends_with("tensors overlap"));
  CHECK(with(entry("a", "[2]", "[0,8]") + "," + entry("b", "[0]", "[4,4]"))
            .ends_with("tensors overlap"));
  CHECK(with(entry("a", "[1]", "[0,4]") + "," + entry("a", "[1]", "[4,8]")) ==
        "f: header: a appears twice");
  CHECK(with(entry("a", "[-2]", "[0,8]")).find("integers of at least 0") != std::string::npos);
  CHECK(with(entry("a", "[2.0]", "[0,8]")).find("integers of at least 0") != std::string::npos);
  CHECK(with(entry("a", "[4294967296,4294967296,2]", "[0,8]")).ends_with("is too large"));
  CHECK(with(entry("a", "[9223372036854775808,0]", "[0,0]")).ends_with("is too large"));
  CHECK(with(entry("a", "[1,1,1,1,1,1,2]", "[0,8]")).find("axes") != std::string::npos);
  CHECK(with(entry("a", "[2]", "[0,4,8]")).find("data_offsets") != std::string::npos);
  CHECK(with(entry("a", "2", "[0,8]")).find("expected a list as shape") != std::string::npos);
  CHECK(with(entry("a", "[2]", "[0,8]", "I32")).ends_with("F16 or BF16, got I32"));
  CHECK(with(R"("a":{"dtype":"F32","shape":[2]})").find("a: expected dtype") != std::string::npos);
  CHECK(with(R"("a":{"dtype":"F32","dtype":"F64","shape":[2],"data_offsets":[0,8]})") ==
        "f: header: dtype appears twice");
  CHECK(with(R"("a":[1])").find("a: expected dtype") != std::string::npos);
  CHECK(with(R"("__metadata__":{"n":1})").find("expected a string as n") != std::string::npos);
  CHECK(with(R"("__metadata__":"x")").find("an object of strings") != std::string::npos);
  CHECK(fault("[]").find("expected a JSON object") != std::string::npos);
  CHECK(fault("{").starts_with("f: header: no JSON: the fault is at byte"));
  CHECK(fault("{} x").starts_with("f: header: no JSON: the fault is at byte"));
  CHECK(fault(std::string(100000, '[')).find("nested deeper") != std::string::npos);
  std::string deep;
  for (int i = 0; i < 500; ++i) deep += R"({"a":)";
  CHECK(fault(deep).find("nested deeper") != std::string::npos);
}

TEST_CASE("safetensors cut off or missing are refused") {
  TempFolder folder;
  write_safetensors(folder / "m", example());
  const std::string whole = contents_of(folder / "m");
  for (std::size_t n = 0; n < whole.size(); ++n)
    CHECK_THROWS_AS(parse_safetensors(std::string_view(whole).substr(0, n), "f"), UsageError);
  CHECK_THROWS_AS(parse_safetensors(whole + "x", "f"), UsageError);
  CHECK_THROWS_AS(read_safetensors(folder / "absent"), UsageError);
  CHECK_THROWS_AS(read_safetensors(folder.path()), UsageError);
  put(folder / "empty", "");
  CHECK(message_of<UsageError>([&] { read_safetensors(folder / "empty"); }) ==
        folder / "empty" + ": expected a header length of 8 bytes, got a file of 0");
}

TEST_CASE("files of torch.save are refused with the line that converts them") {
  for (const char* start : {"PK\x03\x04\x2d\x2d\x08\x08", "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46"})
    CHECK(message_of<UsageError>([&] {
            parse_safetensors(std::string(start) + "more", "m.pth");
          }).find("torch.load('m.pth', weights_only=True)") != std::string::npos);
}

TEST_CASE("values that are not finite are found") {
  Safetensors file;
  file.tensors.emplace("a", Tensor::of<std::int64_t>({1}, {3}));
  file.tensors.emplace("b", Tensor::of<float>({2}, {1, 2}));
  require_finite(file, "f");
  file.tensors.emplace("c", Tensor::of<float>({2}, {1, NAN}));
  CHECK(message_of<UsageError>([&] { require_finite(file, "f"); }) ==
        "f: c: expected finite values, got nan at element 1");
}

TEST_CASE("damaged safetensors raise nothing but UsageError") {
  TempFolder folder;
  write_safetensors(folder / "m", example(), {{"format", "pt"}});
  const std::string whole = contents_of(folder / "m");
  RandomStream random(1, "damage");
  int accepted = 0;
  for (int i = 0; i < 500; ++i) {
    try {
      parse_safetensors(mutate(whole, random), "f");
      ++accepted;
    } catch (const UsageError& error) {
      CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
    }
  }
  CHECK(accepted > 5);
}

}  // namespace hg::testing
