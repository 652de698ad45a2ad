// Ranks that own parameters: together they do what one optimizer does, and each keeps its part.
#include "train/step/owners.h"

#include <doctest/doctest.h>

#include <atomic>
#include <map>

#include "tensor/random.h"
#include "tests/train/ranks/local_ranks.h"
#include "train/step/optimizer.h"

namespace {

using namespace hg;
using namespace hg::testing;

using Values = std::map<std::string, std::vector<float>>;

Tensor drawn(const Shape& shape, const std::string& name) {
  const Tensor t = Tensor::empty(shape);
  RandomStream stream(5, name);
  fill_normal(t, stream, 0, 1);
  return t;
}

// Matrices for Muon among them, one for more blocks of the norm than one, and one without gradient.
std::vector<nn::Parameter> parameters() {
  std::vector<nn::Parameter> all;
  for (const auto& [name, shape] :
       std::vector<std::pair<std::string, Shape>>{{"blocks.0.a.weight", {24, 24}},
                                                  {"blocks.0.a.bias", {24}},
                                                  {"big", {91, 101}},
                                                  {"idle", {7}},
                                                  {"blocks.1.a.weight", {8, 40}}})
    all.push_back({name, drawn(shape, name), shape.rank() == 2});
  return all;
}

Values values_of(const NamedTensors& tensors) {
  Values values;
  for (const auto& [name, t] : tensors) values[name] = t.to_vector<float>();
  return values;
}

struct Trained {
  std::vector<nn::Parameter> trained = parameters();
  Optimizer optimizer;

  Trained(const TrainConfig& train, Ranks* sharing) : optimizer(trained, train, sharing) {}
  // Steps [first, end), with the gradients of what `owns` says.
  void take(std::int64_t first, std::int64_t end, const std::function<bool(std::size_t)>& owns) {
    for (std::int64_t t = first; t < end; ++t) {
      Tensors gradients(trained.size());
      for (std::size_t p = 0; p < trained.size(); ++p)
        if (owns(p) && trained[p].name != "idle")
          gradients[p] = drawn(trained[p].value.shape(), trained[p].name + std::to_string(t));
      REQUIRE(optimizer.step({gradients}, 1e-2));
    }
  }
  Values weights() const {
    NamedTensors all;
    for (const nn::Parameter& p : trained) all.emplace_back(p.name, p.value);
    return values_of(all);
  }
};

TrainConfig train_by(TrainConfig::Optimizer rule) {
  TrainConfig train;
  train.optimizer = rule;
  train.momentum = 0.9;
  train.grad_clip = 0.5;
  return train;
}

}  // namespace

TEST_CASE("parameters are dealt out whole, and evenly where their sizes let them") {
  std::vector<nn::Parameter> trained;
  for (const std::int64_t size : {3, 100, 90, 12, 50, 41, 4})
    trained.push_back({std::to_string(size), Tensor::empty({size}), true});
  for (const int ranks : {1, 2, 3, 5, 9}) {
    const CachedVector<int> owners = owners_of(trained, ranks);
    std::vector<std::int64_t> elements(static_cast<std::size_t>(ranks));
    const OwnedLayout layout(trained, ranks);
    for (std::size_t p = 0; p < trained.size(); ++p) {
      elements[static_cast<std::size_t>(owners[p])] += trained[p].value.numel();
      const Share share = layout.of_rank(owners[p]);
      CHECK(layout.begin(p) >= share.first);
      CHECK(layout.begin(p) + trained[p].value.numel() <= share.end);
    }
    CHECK(*std::max_element(elements.begin(), elements.end()) <= std::max(100, 300 / ranks + 20));
  }
}

TEST_CASE("ranks update what they own to the bits of one optimizer, and its state is theirs") {
  using Rule = TrainConfig::Optimizer;
  for (const Rule rule : {Rule::adamw, Rule::sgd, Rule::muon}) {
    const TrainConfig train = train_by(rule);
    Trained alone(train, nullptr);
    alone.take(0, 3, [](std::size_t) { return true; });
    const Values state = values_of(alone.optimizer.state());
    Safetensors kept;
    for (const auto& [name, t] : alone.optimizer.state()) kept.tensors.emplace(name, t.clone());
    for (const std::string machines : {"aa", "aaa", "aaaaaaa"}) {
      INFO(machines.size() << " ranks");
      std::atomic<int> right = 0, resumed = 0;
      std::atomic<std::size_t> moments = 0;
      on_local_ranks(machines, [&](Ranks& ranks) {
        Trained mine(train, &ranks);
        const CachedVector<int> owners = owners_of(mine.trained, ranks.size());
        const auto owns = [&](std::size_t p) { return owners[p] == ranks.rank(); };
        mine.take(0, 3, owns);
        right += mine.weights() == alone.weights();
        const NamedTensors theirs = mine.optimizer.state();
        if (ranks.first()) resumed += values_of(theirs) == state;
        for (const auto& [name, t] : theirs)
          if (!ranks.first()) moments += t.to_vector<float>().size();
        Trained again(train, &ranks);  // its state from the file of one
        again.optimizer.load(kept, 3, "state");
        const NamedTensors loaded = again.optimizer.state();
        if (ranks.first()) resumed += values_of(loaded) == state;
      });
      CHECK(right == static_cast<int>(machines.size()));
      CHECK(resumed == 2);
      std::size_t all = 0;
      for (const auto& [name, values] : state) all += values.size();
      CHECK(moments > 0);
      CHECK(moments < all);  // rank 0 has the rest
    }
  }
}
