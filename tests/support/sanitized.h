// For simulations of thousands of repetitions, `* doctest::skip(kSanitized)`: the first few show a
// sanitizer all there is, the rest is for the optimised build.
#pragma once

namespace hg::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace hg::testing
