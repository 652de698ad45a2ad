#include "tensor/base/json_value.h"

#include <doctest/doctest.h>

#include "tensor/base/usage_error.h"
#include "tests/support/temp_folder.h"

namespace hg::testing {

TEST_CASE("JSON is read by keys and lists") {
  const JsonValue json(R"({"a": {"b": [1, 2.5]}, "t": "x", "none": null, "big": 1234567890123})",
                       "f.json");
  CHECK(json.keys() == std::vector<std::string>{"a", "t", "none", "big"});
  CHECK(json["a"]["b"].items()[1].number() == 2.5);
  CHECK(json["big"].integer() == 1234567890123);
  CHECK(json.has("t"));
  CHECK_FALSE(json.has("none"));
  CHECK_FALSE(json.has("absent"));
  CHECK(json.text_if_any("t") == "x");
  CHECK(json.text_if_any("absent") == "");
  CHECK_FALSE(json.number_if_any("none"));
}

TEST_CASE("what is not there is refused with file and key") {
  const JsonValue json(R"({"a": {"b": [1, "x"]}, "t": "x"})", "f.json");
  const auto refusal = [](auto&& use) { return message_of<UsageError>(use); };
  CHECK(refusal([] { JsonValue("{\"a\": ", "f.json"); }) ==
        "f.json: no JSON: the fault is at byte 7");
  CHECK(refusal([&] { json["a"]["c"]; }) == "f.json: a: c is missing");
  CHECK(refusal([&] { json["a"]["b"].items()[1].number(); }) ==
        "f.json: a.b.1: expected a number, got \"x\"");
  CHECK(refusal([&] { json["a"]["b"].items()[0].number(2, 3); }) ==
        "f.json: a.b.0: expected a number from 2 to 3, got 1");
  CHECK(refusal([&] { json["t"].integer(); }) == "f.json: t: expected a whole number, got \"x\"");
  CHECK(refusal([&] { json["a"].text(); }) == "f.json: a: expected a text, got {\"b\":[1,\"x\"]}");
  CHECK(refusal([&] { json["t"].items(); }) == "f.json: t: expected a list, got \"x\"");
  CHECK(refusal([] { JsonValue("[1]", "f.json").has("a"); }) ==
        "f.json: expected an object, got [1]");
  CHECK(refusal([] { JsonValue("[1e999]", "f.json"); }) ==
        "f.json: no JSON: a number is too large");
  CHECK(refusal([] { JsonValue("{\"a\\nb\": 1}", "f.json")["a\nb"].text(); }) ==
        "f.json: a\\x0ab: expected a text, got 1");
  const JsonValue large("18446744073709551615", "f.json");
  CHECK(large.count() == UINT64_MAX);
  CHECK(refusal([&] { large.integer(); }) ==
        "f.json: expected a whole number below 2^63, got 18446744073709551615");
  CHECK(refusal([] { JsonValue("-1", "f.json").count(); }) ==
        "f.json: expected a whole number of at least 0, got -1");
  CHECK(refusal([] { JsonValue::read("/nowhere/f.json"); }) ==
        "/nowhere/f.json: cannot read: No such file or directory");
  for (const char* open : {"[", "{\"a\":"}) {
    std::string deep;
    for (int i = 0; i < 50'000; ++i) deep += open;
    CHECK(refusal([&] { JsonValue(deep, "f.json"); }) == "f.json: nested deeper than 32 levels");
  }
  const std::string closed = std::string(50'000, '[') + std::string(50'000, ']');
  CHECK(refusal([&] { JsonValue(closed, "f.json"); }) == "f.json: nested deeper than 32 levels");
  CHECK(refusal([] { JsonValue("[1e9990]", "f.json"); }) ==
        "f.json: no JSON: a number is too large");
  CHECK(refusal([] { JsonValue(R"({"a": 1, "a": 2})", "f.json"); }) == "f.json: a appears twice");
}

}  // namespace hg::testing
