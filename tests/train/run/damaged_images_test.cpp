// Image files that cannot be read: a run ends before it trains and lists them, or leaves them out.
#include <doctest/doctest.h>

#include "tests/data/files.h"
#include "tests/support/program.h"

namespace {

using namespace hg;
using namespace hg::testing;

struct ImageFolder {
  ImageFolder() {
    for (const char* name : {"cat", "dog"})
      for (int i = 0; i < 10; ++i)
        write(folder / fmt::format("images/{}/{}.png", name, i), png(patterned(3, 16, 16, i)));
  }
  void damage(const std::string& name) const {
    write(folder / ("images/" + name), png(patterned(3, 16, 16)).substr(0, 60));
  }
  Outcome train(const Arguments& more = {}) const {
    return hgtrain(Arguments{"train", "shapes", "--out", folder / "run"} + tiny_model() +
                   set({"data.name=folder", "data.root=" + (folder / "images"), "train.epochs=1",
                        "model.num_classes=2", "train.batch_size=4", "run.threads=1"}) +
                   more);
  }
  const TempFolder folder;
};

}  // namespace

TEST_CASE("a run lists the images that cannot be read, and makes no folder") {
  const ImageFolder images;
  images.damage("cat/1.png");
  images.damage("dog/7.png");
  check_refused(images.train(), 2,
                {"2 of 16 images", "cat/1.png: damaged image", "dog/7.png: damaged image",
                 "data.skip_damaged"});
  CHECK(!exists(images.folder / "run"));
  images.damage("dog/4.png");  // for testing
  const ImageFolder fine;
  fine.damage("dog/4.png");
  check_refused(fine.train(), 2, {"1 of 4 images", "dog/4.png"});
}

TEST_CASE("--skip-damaged leaves images out and counts them, in training and in eval") {
  const ImageFolder images;
  images.damage("cat/1.png");
  images.damage("dog/4.png");
  const Outcome done = images.train({"--skip-damaged"});
  INFO(done.err);
  REQUIRE(done.code == 0);
  CHECK(contains(done.err, "left out 1 of 16 images"));
  CHECK(contains(done.err, "15 images to train on, 3 to test on"));
  CHECK(contains(done.err, "dog/4.png"));
  const Outcome eval = hgtrain({"eval", images.folder / "run", "--json"});
  REQUIRE(eval.code == 0);
  CHECK(Json::parse(eval.out)["images"] == 3);
}
