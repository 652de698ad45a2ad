// Damage to a file, for parsers to survive: a few random changes drawn from a seeded stream.
#pragma once

#include <string>

#include "tensor/random.h"

namespace hg::testing {

inline std::string mutate(std::string bytes, RandomStream& random) {
  const auto position = [&] { return static_cast<std::size_t>(random.below(bytes.size() + 1)); };
  const auto length = [&] { return static_cast<std::size_t>(random.below(16)); };
  const auto noise = [&](std::size_t n) {
    std::string s(n, ' ');
    for (char& c : s) c = static_cast<char>(random.bits());
    return s;
  };
  const char* numbers[] = {
      "0", "-1", "1e999", "nan", "18446744073709551615", "9223372036854775807"};
  for (std::uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
    const std::size_t at = position();
    switch (random.below(7)) {
      case 0:
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ 1 << random.below(8));
        break;
      case 1:
        bytes.resize(at);
        break;
      case 2:
        bytes.insert(at, noise(length()));
        break;
      case 3:
        bytes.erase(at, length());
        break;
      case 4:  // a copy of another part
        bytes.insert(at, std::string(bytes, position(), length() * 4));
        break;
      case 5:  // a number that lies, as text
        bytes.replace(at, std::min<std::size_t>(1, bytes.size() - at), numbers[random.below(6)]);
        break;
      default: {  // a length field that lies
        const std::uint64_t lie =
            random.below(2) ? random.bits() : ~std::uint64_t{0} >> random.below(64);
        std::string field(8, '\0');
        for (std::size_t i = 0; i < 8; ++i) field[i] = static_cast<char>(lie >> 8 * i);
        const std::size_t where = random.below(2) ? 0 : at;
        bytes.replace(std::min(where, bytes.size()), 8, field);
      }
    }
  }
  return bytes;
}

}  // namespace hg::testing
