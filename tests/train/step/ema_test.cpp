// The exponential average of weights that an optimizer keeps: against its plain form, and that
// training does not notice it.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "train/step/flop_counter.h"
#include "train/step/optimizer.h"

namespace {

using namespace hg;
using Values = std::vector<float>;

// Two parameters of a model that is nothing else.
std::vector<nn::Parameter> two_parameters() {
  const Tensor a = Tensor::empty({7, 701}), b = Tensor::empty({5});
  RandomStream stream(3, "ema");
  fill_normal(a, stream, 0, 1);
  fill_normal(b, stream, 0, 1);
  return {{"a", a, true}, {"b", b, false}};
}

Tensors drawn_gradients(const std::vector<nn::Parameter>& trained, std::int64_t step) {
  Tensors gradients;
  for (const nn::Parameter& p : trained) {
    gradients.push_back(Tensor::empty(p.value.shape()));
    RandomStream stream(static_cast<std::uint64_t>(step), p.name);
    fill_normal(gradients.back(), stream, 0, 1);
  }
  return gradients;
}

TrainConfig with_average(double decay, const std::string& optimizer) {
  TrainConfig train;
  train.ema = decay;
  if (optimizer == "sgd") train.optimizer = TrainConfig::Optimizer::sgd;
  return train;
}

}  // namespace

TEST_CASE("averages follow their plain form and leave the training as it is") {
  for (const char* name : {"adamw", "sgd"}) {
    const auto trained = two_parameters(), alone = two_parameters();
    const double decay = 0.7;  // which (1 + t) / (10 + t) reaches at t = 20
    Optimizer optimizer(trained, with_average(decay, name)), plain(alone, with_average(0, name));
    CHECK(plain.averages().empty());
    std::vector<std::vector<double>> expected;
    for (const nn::Parameter& p : trained) {
      const Values start = p.value.to_vector<float>();
      expected.emplace_back(start.begin(), start.end());
    }
    for (std::int64_t t = 1; t <= 30; ++t) {
      REQUIRE(optimizer.step({drawn_gradients(trained, t)}, 0.1));
      REQUIRE(plain.step({drawn_gradients(alone, t)}, 0.1));
      const double d =
          std::min(decay, (1.0 + static_cast<double>(t)) / (10.0 + static_cast<double>(t)));
      for (std::size_t i = 0; i < trained.size(); ++i) {
        const Values w = trained[i].value.to_vector<float>();
        for (std::size_t k = 0; k < w.size(); ++k)
          expected[i][k] = d * expected[i][k] + (1 - d) * static_cast<double>(w[k]);
      }
    }
    const NamedTensors averages = optimizer.averages();
    REQUIRE(averages.size() == 2);
    for (std::size_t i = 0; i < trained.size(); ++i) {
      CHECK(averages[i].first == trained[i].name);
      CHECK(trained[i].value.to_vector<float>() == alone[i].value.to_vector<float>());
      const Values got = averages[i].second.to_vector<float>();
      double worst = 0;
      for (std::size_t k = 0; k < got.size(); ++k)
        worst = std::max(worst, std::abs(static_cast<double>(got[k]) - expected[i][k]));
      CHECK(worst < 1e-5);
    }
  }
}

TEST_CASE("weights and averages change places and back without an op") {
  const auto trained = two_parameters();
  Optimizer optimizer(trained, with_average(0.9, "adamw"));
  optimizer.step({drawn_gradients(trained, 1)}, 0.1);
  const Values weights = trained[0].value.to_vector<float>(),
               average = optimizer.averages()[0].second.to_vector<float>();
  REQUIRE(weights != average);
  FlopCounter counter;
  const ObserverGuard guard(counter);
  {
    const Optimizer::Averaged averaged(optimizer);
    CHECK(trained[0].value.to_vector<float>() == average);
    CHECK(optimizer.averages()[0].second.to_vector<float>() == weights);
  }
  CHECK(trained[0].value.to_vector<float>() == weights);
  CHECK(optimizer.averages()[0].second.to_vector<float>() == average);
  CHECK(counter.flops() == 0);
}

TEST_CASE("an average costs three operations an element of a step") {
  const auto flops = [](double decay) {
    const auto trained = two_parameters();
    Optimizer optimizer(trained, with_average(decay, "adamw"));
    FlopCounter counter;
    const ObserverGuard guard(counter);
    optimizer.step({drawn_gradients(trained, 1)}, 0.1);
    return counter.flops();
  };
  CHECK(flops(0.9) - flops(0) == 3 * (7 * 701 + 5));
}

TEST_CASE("a state with averages goes on bit for bit and one without is refused") {
  const auto whole = two_parameters(), parts = two_parameters();
  const TrainConfig train = with_average(0.9, "adamw");
  Optimizer optimizer(whole, train), first(parts, train);
  for (std::int64_t t = 1; t <= 4; ++t) optimizer.step({drawn_gradients(whole, t)}, 0.1);
  for (std::int64_t t = 1; t <= 2; ++t) first.step({drawn_gradients(parts, t)}, 0.1);
  const NamedTensors saved = first.state();
  Safetensors state{{saved.begin(), saved.end()}, {}};
  Optimizer second(parts, train);
  second.load(state, 2, "state");
  for (std::int64_t t = 3; t <= 4; ++t) second.step({drawn_gradients(parts, t)}, 0.1);
  for (std::size_t i = 0; i < whole.size(); ++i)
    CHECK(second.averages()[i].second.to_vector<float>() ==
          optimizer.averages()[i].second.to_vector<float>());
  state.tensors.erase("ema.b");
  CHECK_THROWS_WITH(second.load(state, 2, "state"), doctest::Contains("ema.b is missing"));
}
