// Where a tensor lives.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/base/error.h"

namespace hg {

enum class Device : std::uint8_t { cpu, cuda };

constexpr std::string_view to_string(Device d) { return d == Device::cpu ? "cpu" : "cuda"; }

}  // namespace hg

template <>
struct fmt::formatter<hg::Device> : fmt::formatter<std::string_view> {
  auto format(hg::Device d, fmt::format_context& ctx) const {
    return fmt::formatter<std::string_view>::format(hg::to_string(d), ctx);
  }
};
