#include "tests/support/mutate.h"

#include <algorithm>
#include <string_view>

namespace hg::testing {
namespace {

std::string noise(std::size_t size, RandomStream& random) {
  std::string bytes(size, ' ');
  for (char& c : bytes) c = static_cast<char>(random.bits());
  return bytes;
}

// 0, the largest of some size, or anything, in 1 to 8 bytes of either order.
std::string lying_length(RandomStream& random) {
  const std::uint64_t lies[] = {0, ~std::uint64_t{0} >> random.below(64), random.bits()},
                      lie = lies[random.below(3)];
  std::string field;
  for (std::uint64_t i = 0, size = 1 + random.below(8); i < size; ++i)
    field += static_cast<char>(lie >> 8 * i);
  if (random.below(2)) std::reverse(field.begin(), field.end());
  return field;
}

void change(std::string& bytes, RandomStream& random) {
  constexpr const char* kNumbers[] = {
      "0", "-1", "1e999", "nan", "18446744073709551615", "9223372036854775807"};
  constexpr std::string_view kCommon = "0123456789\t\n -.";
  const auto length = [&] { return static_cast<std::size_t>(random.below(16)); };
  const auto place = [&](std::size_t reach) {
    return static_cast<std::size_t>(random.below(reach));
  };
  // Headers are short; half of the damage goes there.
  const std::size_t size = bytes.size(),
                    at = place(1 + (random.below(2) ? size : std::min<std::size_t>(size, 64)));
  switch (random.below(8)) {
    case 0:
      if (at < size) bytes[at] = static_cast<char>(bytes[at] ^ 1 << random.below(8));
      break;
    case 1:
      bytes.resize(at);
      break;
    case 2:
      bytes.insert(at, noise(length(), random));
      break;
    case 3:
      bytes.erase(at, length());
      break;
    case 4:  // a copy of another part
      bytes.insert(at, std::string(bytes, place(size + 1), length() * 4));
      break;
    case 5:
      bytes.replace(at, std::min<std::size_t>(1, size - at), kNumbers[random.below(6)]);
      break;
    case 6: {
      const std::string lie = lying_length(random);
      bytes.replace(at, lie.size(), lie);
      break;
    }
    default:
      if (at < size) bytes[at] = kCommon[random.below(kCommon.size())];
  }
}

}  // namespace

std::string mutate(std::string bytes, RandomStream& random) {
  for (std::uint64_t changes = 1 + random.below(4); changes > 0; --changes) change(bytes, random);
  return bytes;
}

}  // namespace hg::testing
