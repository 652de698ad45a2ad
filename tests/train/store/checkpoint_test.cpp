#include "train/store/checkpoint.h"

#include <doctest/doctest.h>

#include "tests/support/temp_folder.h"

namespace hg::testing {

TEST_CASE("names of classes in a model's file do not reach a terminal as they are") {
  TempFolder folder;
  const Config config =
      load_config("shapes", {"model.img_size=8", "model.patch_size=8", "model.emb_size=2",
                             "model.heads=1", "model.depth=1", "model.mlp_ratio=1"});
  const nn::Vit model(vit_options(config), 1);
  save_model(folder.path(), {weights_of(model), {}},
             {{"caf\u00e9", "red\x1b[31m"}, {{0.5f, 0.5f, 0.5f}, {0.25f, 0.25f, 0.25f}}});
  CHECK(load_model(folder / "model.safetensors", config).card.class_names ==
        std::vector<std::string>{"caf\u00e9", "red\\x1b[31m"});
}

}  // namespace hg::testing
