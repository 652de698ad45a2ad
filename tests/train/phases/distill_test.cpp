// Learning from a teacher (loss.teacher), as users do.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/program.h"
#include "train/store/safetensors.h"

namespace {

using namespace hg;
using namespace hg::testing;

const std::vector<std::string> kParts{"", "blocks.0", "blocks.0.attn", "blocks.1.attn",
                                      "blocks.1.mlp"};

// A folder with a trained teacher of two blocks, where the student has one.
struct School {
  School() { REQUIRE(hgtrain(tiny_train(teacher, set({"model.depth=2"}))).code == 0); }

  Arguments taught(double share = 0.5, const std::vector<std::string>& more = {}) const {
    return set({"loss.teacher=" + teacher, fmt::format("loss.distill={}", share)}) + set(more);
  }
  void check_refused_student(const Arguments& settings,
                             const std::vector<std::string>& parts) const {
    check_refused(hgtrain(tiny_train(folder / "none", settings)), 2, parts);
    CHECK(!exists(folder / "none"));
  }

  TempFolder folder;
  const std::string teacher = folder / "teacher";
};

std::string under_teacher(const std::string& layer) {
  return layer.empty() ? "teacher" : "teacher." + layer;
}

Json info(const Arguments& more) {
  const Outcome done = hgtrain(Arguments{"info", "shapes", "--json"} + tiny_model() + more);
  INFO(done.err);
  REQUIRE(done.code == 0);
  return Json::parse(done.out);
}

}  // namespace

TEST_CASE("a student's ledger holds every pass of its teacher, and the teacher stays as it was") {
  const School school;
  const std::string student = school.folder / "student", plain = school.folder / "plain";
  const std::string before = contents_of(school.teacher + "/model.safetensors");
  const Outcome done = hgtrain(tiny_train(student, school.taught()));
  INFO(done.err);
  REQUIRE(done.code == 0);
  REQUIRE(hgtrain(tiny_train(plain)).code == 0);
  for (const std::string& layer : kParts) {
    INFO(layer);
    const std::string there = under_teacher(layer);
    CHECK(flops_of(student, "forward", there) > 0);
    CHECK(flops_of(student, "forward", there) == flops_of(school.teacher, "forward", layer));
    CHECK(flops_of(student, "backward", there) == 0);
    CHECK(flops_of(student, "eval", there) == 0);
    CHECK(flops_of(student, "forward", layer) == flops_of(plain, "forward", layer));
    CHECK(flops_of(student, "backward", layer) == flops_of(plain, "backward", layer));
  }
  CHECK(contents_of(school.teacher + "/model.safetensors") == before);
  CHECK(contents_of(student + "/model.safetensors") != contents_of(plain + "/model.safetensors"));
  std::filesystem::rename(school.teacher, school.folder / "gone");  // no longer needed
  CHECK(hgtrain({"eval", student}).code == 0);
}

TEST_CASE("info counts the teacher's passes, in an image and in a step") {
  const School school;
  const Json plain = info({}), taught = info(school.taught()),
             teacher = info({"--set", "model.depth=2"});
  CHECK(taught["parameters"] == plain["parameters"]);
  const auto forward = [](const Json& of) {
    return of["flops"]["forward_matmul"].get<std::int64_t>();
  };
  CHECK(forward(taught) == forward(plain) + forward(teacher));
  CHECK(taught["flops"]["backward_matmul"] == plain["flops"]["backward_matmul"]);
  const auto step = [](const Json& of) {
    return of["phases"][0]["flops_per_step"]["forward_matmul"].get<std::int64_t>();
  };
  CHECK(step(taught) == step(plain) + step(teacher));
}

TEST_CASE("forward adds the distance to the teacher: none from itself, whatever the labels") {
  const School school;
  const std::string own = school.folder / "own", in = school.folder / "in",
                    out = school.folder / "out";
  REQUIRE(hgtrain(tiny_train(own)).code == 0);
  Tensor images = Tensor::empty({2, 3, 16, 16});
  for (std::int64_t i = 0; i < images.numel(); ++i)
    images.data<float>()[i] = static_cast<float>(i % 13) / 13 - 0.5f;
  write_safetensors(in, {{"images", images}, {"labels", Tensor::full({2}, 3, DType::i64)}});
  const auto forward = [&](const std::vector<std::string>& settings) {
    const Outcome done =
        hgtrain(Arguments{"forward", "shapes", "--weights", own + "/model.safetensors", "--input",
                          in, "--output", out} +
                tiny_model() + set(settings));
    INFO(done.err);
    REQUIRE(done.code == 0);
    return read_safetensors(out).tensors;
  };
  const auto loss = [](const auto& tensors) { return *tensors.at("loss").template data<float>(); };
  const float by_label = loss(forward({}));
  CHECK(loss(forward({"loss.teacher=" + own, "loss.distill=0.25"})) ==
        doctest::Approx(0.75 * by_label).epsilon(1e-5));
  const auto alone = forward({"loss.teacher=" + own, "loss.distill=1.0"});
  CHECK(std::abs(loss(alone)) < 1e-6);
  for (const float g : alone.at("grad.head.weight").to_vector<float>()) CHECK(std::abs(g) < 1e-6);
  CHECK(loss(forward({"loss.teacher=" + school.teacher, "loss.distill=1.0"})) > 1e-5);
}

TEST_CASE("a teacher sees the patches that are kept, if its patches are the same") {
  const School school;
  const std::vector<std::string> drop{"select.heuristic=contrast", "select.top_k=3",
                                      "select.prob=1.0", "select.prob_decay_rate=0.0"};
  const std::string student = school.folder / "student";
  const Outcome done = hgtrain(tiny_train(student, school.taught(0.5, drop)));
  INFO(done.err);
  REQUIRE(done.code == 0);
  CHECK(flops_of(student, "forward", "teacher.blocks.1.mlp") * 5 ==
        flops_of(school.teacher, "forward", "blocks.1.mlp") * 4);  // tokens
  const Arguments small = set({"model.patch_size=4"});
  CHECK(hgtrain(tiny_train(school.folder / "other", school.taught() + small)).code == 0);
  school.check_refused_student(school.taught(0.5, drop) + small,
                               {"loss.teacher", "model.patch_size = 8", "expected 4"});
}

TEST_CASE(
    "a teacher that is not there, or knows something else, is refused before a file is made") {
  const School school;
  school.check_refused_student(set({"loss.distill=0.5"}), {"loss.distill", "loss.teacher", "0.5"});
  school.check_refused_student(set({"loss.teacher=" + school.teacher}), {"loss.distill", "more"});
  school.check_refused_student(school.taught(1.5), {"loss.distill", "1.5"});
  school.check_refused_student(school.taught(0.5, {"loss.temperature=0.0"}), {"loss.temperature"});
  school.check_refused_student(set({"loss.teacher=/nowhere", "loss.distill=0.5"}),
                               {"loss.teacher", "/nowhere"});
  school.check_refused_student(set({"loss.teacher=" + (school.folder / "."), "loss.distill=0.5"}),
                               {"config.toml"});
  school.check_refused_student(school.taught(0.5, {"model.num_classes=4"}),
                               {"loss.teacher", "num_classes = 5", "expected 4"});
  school.check_refused_student(school.taught(0.5, {"model.img_size=24"}),
                               {"loss.teacher", "img_size = 16", "expected 24"});
  put(school.folder / "pretrain.toml", "[[phase]]\nkind = \"pretrain\"\n");
  check_refused(
      hgtrain(Arguments{"train", school.folder / "pretrain.toml", "--out", school.folder / "none"} +
              tiny_model() + set({"data.name=shapes"}) + school.taught()),
      2, {"loss.distill", "learns classes"});
  Safetensors model = read_safetensors(school.teacher + "/model.safetensors");
  const NamedTensors tensors(model.tensors.begin(), model.tensors.end());
  const auto with = [&](const char* key, const char* value) {
    auto metadata = model.metadata;
    metadata[key] = value;
    write_safetensors(school.teacher + "/model.safetensors", tensors, metadata);
  };
  with("class_names", R"(["a","b","c","d","e"])");
  school.check_refused_student(school.taught(), {"loss.teacher", "other classes", "shapes"});
  with("mean", "[0.5,0.5,0.25]");
  school.check_refused_student(school.taught(), {"loss.teacher", "another mean", "shapes"});
}
