#include "tensor/random.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace hg {
namespace {

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

// Philox itself mixes seed and name into a key: nearby seeds give unrelated keys.
std::uint64_t derive_key(std::uint64_t seed, std::uint64_t name) {
  const auto low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
  const auto high = [](std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); };
  const PhiloxBlock b =
      philox({low(name), high(name), 0x68756767u, 0x67726565u}, {low(seed), high(seed)});
  return (std::uint64_t{b[1]} << 32) | b[0];
}

}  // namespace

PhiloxBlock philox(PhiloxBlock c, std::array<std::uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(p0)};
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return c;
}

PhiloxBlock draw_block(std::uint64_t key, std::uint64_t block) {
  return philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0},
                {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)});
}

RandomStream::RandomStream(std::uint64_t seed, std::string_view name)
    : key_(derive_key(seed, fnv1a(name))) {}

std::uint64_t RandomStream::take(std::uint64_t n) {
  const std::uint64_t first = position_;
  position_ += n;
  return first;
}

std::uint32_t RandomStream::draw(std::uint64_t position) const {
  return draw_block(key_, position / 4)[position % 4];
}

std::uint64_t RandomStream::below(std::uint64_t n) {
  require(n > 0, "random", "an integer below 0 was asked for");
  const std::uint64_t tail = std::numeric_limits<std::uint64_t>::max() % n + 1;
  for (;;) {
    const std::uint64_t high = bits();
    const std::uint64_t v = high << 32 | bits();
    if (tail == n || v < std::numeric_limits<std::uint64_t>::max() - tail + 1) return v % n;
  }
}

double RandomStream::normal() {
  const double u = (bits() + 0.5) * 0x1p-32;
  const double angle = 2 * std::numbers::pi * uniform_from_bits(bits());
  return std::sqrt(-2 * std::log(u)) * std::cos(angle);
}

void fill_uniform(const Tensor& t, RandomStream& stream, double low, double high) {
  require(t.contiguous(), "fill_uniform", "{} is a strided view", t);
  dispatch_float(t.dtype(), "fill_uniform", [&]<class T>() {
    for (std::int64_t i = 0; i < t.numel(); ++i)
      t.data<T>()[i] = static_cast<T>(low + (high - low) * stream.uniform());
  });
}

void fill_normal(const Tensor& t, RandomStream& stream, double mean, double stddev) {
  require(t.contiguous(), "fill_normal", "{} is a strided view", t);
  dispatch_float(t.dtype(), "fill_normal", [&]<class T>() {
    for (std::int64_t i = 0; i < t.numel(); ++i)
      t.data<T>()[i] = static_cast<T>(mean + stddev * stream.normal());
  });
}

}  // namespace hg
