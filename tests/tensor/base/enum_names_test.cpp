#include "tensor/base/enum_names.h"

#include <doctest/doctest.h>

namespace hg {
namespace {

struct Lamp {
  enum class State { off, dim_2, auto_ };
};
enum class One { only };

}  // namespace

TEST_CASE("names of an enum's values are those it is declared with") {
  CHECK(kEnumNames<Lamp::State> == std::array<std::string_view, 3>{"off", "dim_2", "auto"});
  CHECK(kEnumNames<One> == std::array<std::string_view, 1>{"only"});
  CHECK(enum_name(Lamp::State::auto_) == "auto");
  CHECK(enum_value<Lamp::State>("dim_2") == Lamp::State::dim_2);
  CHECK(!enum_value<Lamp::State>("dim"));
  CHECK(!enum_value<Lamp::State>(""));
}

}  // namespace hg
