// What hg::launch refuses to compile: arguments that would be narrowed, and a wrong number of them.
#include "tensor/cuda/launch.h"

namespace hg {
namespace {

template <class... Arguments>
concept Launches = requires(void (*kernel)(const float*, int, float), CudaStream& stream,
                            Arguments... arguments) {
  launch(kernel, dim3(1), dim3(1), std::size_t{0}, stream, arguments...);
};

static_assert(Launches<const float*, int, float>);
static_assert(Launches<float*, int, float>);
static_assert(!Launches<const float*, std::int64_t, float>);
static_assert(!Launches<const float*, std::size_t, float>);
static_assert(!Launches<const float*, int, double>);
static_assert(!Launches<const double*, int, float>);
static_assert(!Launches<const float*, int>);
static_assert(!Launches<const float*, int, float, int>);

}  // namespace
}  // namespace hg
