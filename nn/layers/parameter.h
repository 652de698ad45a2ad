// Named parameters of a model, in the order they were made, and their initial values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace hg::nn {

struct Init {
  enum class Kind { constant, normal, uniform, positions };
  Kind kind = Kind::constant;
  double value = 0;  // the constant, the standard deviation, the bound, or the root mean square

  static Init constant(double value) { return {Kind::constant, value}; }
  static Init normal(double stddev) { return {Kind::normal, stddev}; }
  static Init uniform(double bound) { return {Kind::uniform, bound}; }
  // Of [1, n + 1, E]: sines and cosines of a patch's row and column on a square grid of n.
  static Init positions(double rms) { return {Kind::positions, rms}; }
};

// How linear layers start, but heads: by the number of their inputs, or as timm's.
enum class WeightStart { width, timm };
Init weight_init(WeightStart start, std::int64_t inputs);

struct Parameter {
  std::string name;  // "blocks.3.attn.qkv.weight"
  Tensor value;
  bool decay;  // weight decay applies
};

// State of the model that no gradient reaches; it is saved and loaded like a parameter.
struct Buffer {
  std::string name;
  Tensor value;
  bool optional = false;  // weights from elsewhere may lack it
};

class Parameters {
 public:
  // Hollow parameters have shapes but no values: for counting costs. f64 is for gradient checks.
  explicit Parameters(std::uint64_t seed, bool hollow = false, DType dtype = DType::f32,
                      Device device = Device::cpu, WeightStart weights = WeightStart::width)
      : seed_(seed), hollow_(hollow), dtype_(dtype), device_(device), weights_(weights) {}

  // Initial values depend on seed and name alone. 1-D tensors never decay.
  Tensor make(const std::string& name, const Shape& shape, const Init& init, bool decay = true);
  Tensor make_buffer(const std::string& name, const Shape& shape, const Init& init,
                     bool optional = false);
  void add_buffer(const std::string& name, const Tensor& value) {
    buffers_.push_back({name, value});
  }

  const std::vector<Parameter>& all() const { return all_; }
  const std::vector<Buffer>& buffers() const { return buffers_; }
  const Parameter* find(std::string_view name) const;
  std::int64_t count() const;  // elements of all parameters
  std::uint64_t seed() const { return seed_; }
  WeightStart weights() const { return weights_; }
  Device device() const { return device_; }
  bool hollow() const { return hollow_; }

 private:
  Tensor start(const std::string& name, const Shape& shape, const Init& init) const;

  std::uint64_t seed_;
  bool hollow_;
  DType dtype_;
  Device device_;
  WeightStart weights_;
  std::vector<Parameter> all_;
  std::vector<Buffer> buffers_;
};

// Makes a layer's parameters: their names begin with the layer's path.
//   Parameters parameters(seed);
//   Linear head(Builder(parameters), "head", 192, 10);    // head.weight, head.bias
class Builder {
 public:
  explicit Builder(Parameters& parameters) : parameters_(parameters) {}

  Builder child(std::string_view name) const { return {parameters_, name_of(name)}; }
  Tensor make(std::string_view name, const Shape& shape, const Init& init,
              bool decay = true) const {
    return parameters_.make(name_of(name), shape, init, decay);
  }
  Tensor make_buffer(std::string_view name, const Shape& shape, const Init& init,
                     bool optional = false) const {
    return parameters_.make_buffer(name_of(name), shape, init, optional);
  }
  void add_buffer(std::string_view name, const Tensor& value) const {
    parameters_.add_buffer(name_of(name), value);
  }
  const Parameters& parameters() const { return parameters_; }
  std::string name_of(std::string_view name) const {  // with the path before it
    return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
  }

 private:
  Builder(Parameters& parameters, std::string path)
      : parameters_(parameters), path_(std::move(path)) {}
  Parameters& parameters_;
  std::string path_;
};

}  // namespace hg::nn
