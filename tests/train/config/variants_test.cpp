#include "train/config/variants.h"

#include <doctest/doctest.h>

#include "tensor/base/usage_error.h"
#include "tests/support/temp_folder.h"
#include "train/config/config.h"

using namespace hg;
using namespace hg::testing;
using Texts = std::vector<std::string>;

TEST_CASE("a list of variants gives each its settings, under the section that has the key") {
  const auto variants = parse_variants("softmax,mgk:heads=2:components=3:dropout=0.1,fiak", "--x");
  REQUIRE(variants.size() == 3);
  CHECK(variants[0].label == "softmax");
  CHECK(variants[0].settings == Texts{"model.attention=softmax"});
  CHECK(variants[1].label == "mgk:heads=2:components=3:dropout=0.1");
  CHECK(variants[1].settings == Texts{"model.attention=mgk", "model.heads=2",
                                      "attention.components=3", "attention.dropout=0.1"});
  CHECK(variants[2].label == "fiak");
}

TEST_CASE("sections may be named, and lists keep their commas") {
  const auto variants =
      parse_variants("mgk:sigma2_scale=[1,0.5]:train.batch_size=8:model.dropout=0.2,xca", "--x");
  REQUIRE(variants.size() == 2);
  CHECK(variants[0].settings == Texts{"model.attention=mgk", "attention.sigma2_scale=[1,0.5]",
                                      "train.batch_size=8", "model.dropout=0.2"});
  const Config config = load_config("shapes", variants[0].settings);
  CHECK(config.attention.sigma2_scale == std::vector<double>{1, 0.5});
  CHECK(config.phases[0].train.batch_size == 8);
}

TEST_CASE("what is no list of variants is refused with its place") {
  for (const char* list :
       {"", "softmax,", "softmax,,mgk", "mgk:", "mgk:heads", "mgk:=2", "heads=2", "mgk:heads=2:"}) {
    INFO(list);
    CHECK(message_of<UsageError>([&] {
            parse_variants(list, "--attention");
          }).starts_with("--attention: expected NAME[:KEY=VALUE]..., got \""));
  }
  CHECK(message_of<UsageError>([&] { parse_variants("fiak,mgk:heads", "--x"); }) ==
        "--x: expected NAME[:KEY=VALUE]..., got \"heads\" in \"mgk:heads\"");
}
