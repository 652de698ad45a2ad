// hgtrain forward: the tensors it writes, and the files it does not accept.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "autograd/tape.h"
#include "nn/vit.h"
#include "tensor/ops/cross_entropy.h"
#include "tests/support/program.h"
#include "train/store/safetensors.h"

namespace {

using namespace hg;
using namespace hg::testing;

NamedTensors tensors_of(const Safetensors& file) {
  return {file.tensors.begin(), file.tensors.end()};
}

Tensor ramp(const Shape& shape) {
  const Tensor t = Tensor::empty(shape);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data<float>()[i] = static_cast<float>(i % 17) / 17 - 0.5f;
  return t;
}

Tensor labels(std::initializer_list<std::int64_t> values) {
  const Tensor t = Tensor::empty({static_cast<std::int64_t>(values.size())}, DType::i64);
  std::copy(values.begin(), values.end(), t.data<std::int64_t>());
  return t;
}

struct Files {
  Files() {
    REQUIRE(hgtrain(tiny_train(folder / "run", {"--set", "train.epochs=1"})).code == 0);
    weights = read_safetensors(folder / "run/model.safetensors");
    write_safetensors(folder / "w", tensors_of(weights));
    write_safetensors(folder / "i",
                      {{"images", ramp({3, 3, 16, 16})}, {"labels", labels({0, 4, 2})}});
  }
  Outcome forward(const Arguments& more = {}) const {
    return hgtrain(Arguments{"forward", "shapes", "--weights", folder / "w", "--input",
                             folder / "i", "--output", folder / "o"} +
                   tiny_model() + more);
  }
  // What is wrong with the files is said, and nothing is written.
  void check_fault(const std::vector<std::string>& parts) const {
    check_refused(forward(), 2, parts);
    CHECK(!exists(folder / "o"));
    CHECK(!leftovers_in(folder.path()));
  }
  void weights_with(const std::string& name, const Tensor& tensor) const {
    Safetensors changed = weights;
    changed.tensors[name] = tensor;
    write_safetensors(folder / "w", tensors_of(changed));
  }
  void input(const NamedTensors& tensors) const { write_safetensors(folder / "i", tensors); }

  TempFolder folder;
  Safetensors weights;
};

// The model of tiny_model() with f64 throughout, and its gradients.
std::map<std::string, Tensor> exact_gradients(const Safetensors& weights,
                                              const std::string& variant, const Tensor& images,
                                              const Tensor& labels) {
  nn::VitOptions o;
  o.img_size = o.width = 16;
  o.patch_size = o.dim_head = 8;
  o.depth = 1;
  o.pool = nn::VitOptions::Pool::mean;
  o.heads = 2;
  o.classes = 5;
  o.attention.variant = variant;
  const nn::Vit model(o, 1, false, DType::f64);
  Tape tape;
  for (const nn::Parameter& p : model.parameters().all()) {
    const Tensor from = weights.tensors.at(p.name).to(DType::f64);
    std::copy_n(from.data<double>(), from.numel(), p.value.data<double>());
    tape.watch(p.value);
  }
  const Gradients grads =
      tape.backward(cross_entropy(model.logits(images.to(DType::f64), {}), labels));
  std::map<std::string, Tensor> all;
  for (const nn::Parameter& p : model.parameters().all()) all["grad." + p.name] = grads[p.value];
  return all;
}

// The largest difference, as a share of the largest gradient of the same parameter.
double gradient_error(const Safetensors& out, const std::map<std::string, Tensor>& exact) {
  double worst = 0;
  for (const auto& [name, tensor] : exact) {
    const auto is = out.tensors.at(name).to_vector<float>();
    const auto should = tensor.to_vector<double>();
    double difference = 0, largest = 0;
    for (std::size_t i = 0; i < is.size(); ++i) {
      difference = std::max(difference, std::abs(is[i] - should[i]));
      largest = std::max(largest, std::abs(should[i]));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

}  // namespace

TEST_CASE("forward of a variant that f32 leaves few right digits is as good as f64") {
  const Files files;
  const Tensor images = ramp({3, 3, 16, 16});
  for (const bool ill_conditioned : {false, true}) {
    const std::string variant = ill_conditioned ? "ref_gmm" : "softmax";
    REQUIRE(files.forward({"--set", "model.attention=" + variant}).code == 0);
    const double error =
        gradient_error(read_safetensors(files.folder / "o"),
                       exact_gradients(files.weights, variant, images, labels({0, 4, 2})));
    INFO(variant, " ", error);
    CHECK(error < (ill_conditioned ? 1e-7 : 1e-5));
    CHECK(error > (ill_conditioned ? 0 : 1e-7));  // what f32 leaves of a harmless one
  }
}

TEST_CASE("forward writes logits, loss and the gradient of every parameter") {
  const Files files;
  const Outcome done = files.forward();
  INFO(done.err);
  REQUIRE(done.code == 0);
  CHECK(done.err == "");
  const Safetensors out = read_safetensors(files.folder / "o");
  CHECK(out.tensors.at("logits").shape() == Shape{3, 5});
  CHECK(out.tensors.at("loss").shape() == Shape{1});
  CHECK(out.tensors.at("loss").item<float>() == doctest::Approx(std::log(5)).epsilon(0.2));
  for (const auto& [name, tensor] : files.weights.tensors) {
    INFO(name);
    CHECK(out.tensors.at("grad." + name).shape() == tensor.shape());
  }
  CHECK(out.tensors.size() == files.weights.tensors.size() + 2);

  const std::string first = contents_of(files.folder / "o");
  CHECK(files.forward({"--set", "model.dropout=0.5", "--seed", "9"}).code == 0);
  CHECK(contents_of(files.folder / "o") == first);  // nothing random happens

  files.input({{"images", ramp({3, 3, 16, 16})}});
  CHECK(files.forward().code == 0);
  const Safetensors bare = read_safetensors(files.folder / "o");
  CHECK(bare.tensors.size() == 1);
  CHECK(bare.tensors.at("logits").to_vector<float>() ==
        out.tensors.at("logits").to_vector<float>());
}

TEST_CASE("forward says when what it computed is not finite") {
  const Files files;
  const Tensor huge = ramp({5, 16});
  for (float& x : std::span(huge.data<float>(), 80)) x = 3e38f;
  files.weights_with("head.weight", huge);
  const Outcome done = files.forward();
  CHECK(done.code == 0);
  CHECK(done.err.find("/o: logits is not finite") != std::string::npos);
  CHECK(lines_of(done.err).size() == 1);
}

TEST_CASE("forward names the tensor that does not fit the model") {
  const Files files;
  Safetensors missing = files.weights;
  missing.tensors.erase("norm.bias");
  write_safetensors(files.folder / "w", tensors_of(missing));
  files.check_fault({"/w: ", "norm.bias", "missing"});

  files.weights_with("blocks.1.norm1.weight", ramp({16}));
  files.check_fault({"/w: ", "blocks.1.norm1.weight"});
  files.weights_with("head.weight", ramp({6, 16}));
  files.check_fault({"/w: ", "head.weight", "[6,16]", "[5,16]"});
  const Tensor nan = ramp({5});
  nan.data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  files.weights_with("head.bias", nan);
  files.check_fault({"/w: ", "head.bias", "nan"});

  const std::string good = contents_of(files.folder / "run/model.safetensors");
  put(files.folder / "w", good.substr(0, good.size() - 1));
  files.check_fault({"/w: "});
  std::string lying = good;
  lying[0] = '\x7f';
  lying[5] = '\x7f';
  put(files.folder / "w", lying);
  files.check_fault({"/w: "});
  std::filesystem::remove(files.folder / "w");
  files.check_fault({"/w: ", "No such file"});
}

TEST_CASE("forward names what is wrong with its input") {
  const Files files;
  const Tensor images = ramp({3, 3, 16, 16});
  files.input({{"labels", labels({0})}});
  files.check_fault({"/i: ", "images"});
  files.input({{"images", ramp({3, 3, 16, 8})}});
  files.check_fault({"/i: ", "images", "[B,3,16,16]"});
  files.input({{"images", images}, {"labels", labels({0, 1})}});
  files.check_fault({"/i: ", "labels", "[3]"});
  files.input({{"images", images}, {"labels", labels({0, 5, 1})}});
  files.check_fault({"/i: ", "label 5", "5 classes"});
  files.input({{"images", images}, {"labels", labels({0, -1, 1})}});
  files.check_fault({"/i: ", "label -1"});
  files.input({{"images", images}, {"labels", ramp({3})}});
  files.check_fault({"/i: ", "labels", "i64"});
  files.input({{"images", images}, {"imagse", images}});
  files.check_fault({"/i: ", "imagse"});
  const Tensor infinite = ramp({3, 3, 16, 16});
  infinite.data<float>()[5] = std::numeric_limits<float>::infinity();
  files.input({{"images", infinite}});
  files.check_fault({"/i: ", "images", "inf"});
  std::filesystem::remove(files.folder / "i");
  files.check_fault({"/i: ", "No such file"});
}
