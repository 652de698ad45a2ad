// What a step minimises, against PyTorch's figures (f64: kl_div of log_softmax with log_target,
// batchmean; cross_entropy).
#include "train/step/loss.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/tape.h"

namespace {

using namespace hg;

struct Known {
  double share, temperature, loss;
  std::vector<double> gradient;  // in the student's logits
};
const std::vector<Known> kKnown{
    {0.5,
     2,
     1.814904616737313,
     {-0.4365577458780683, 0.1035968684979012, 0.3329608773801671, 0.31620093529187987,
      0.07106272189142734, -0.38726365718330724}},
    {1,
     1,
     1.2164866763159732,
     {-0.36568922314737273, 0.06678142437618824, 0.2989077987711844, 0.24854473589181178,
      0.04675746812343677, -0.2953022040152487}},
    {0.25,
     4,
     1.8567223694904333,
     {-0.447550292383996, 0.11342689802067385, 0.33412339436332217, 0.307549701707703,
      0.05701200339218466, -0.3645617050998877}},
};

Tensor rows_of(const Tensor& whole, std::int64_t row) {
  const std::int64_t n = whole.dim(1);
  return Tensor::of<double>({1, n},
                            std::span(whole.data<double>() + row * n, static_cast<std::size_t>(n)));
}

// Logits of two images.
Tensor students() { return Tensor::of<double>({2, 3}, {1, 2, 3, 0.5, -1, 0.25}); }
Tensor teachers() { return Tensor::of<double>({2, 3}, {3, 1, 0.5, -2, 0, 4}); }

LossConfig distilling(double share, double temperature) {
  LossConfig loss;
  loss.distill = share;
  loss.temperature = temperature;
  return loss;
}

double value_of(const Tensor& loss) { return *loss.data<double>(); }

}  // namespace

TEST_CASE("distillation is PyTorch's, in value and gradient") {
  for (const Known& known : kKnown) {
    INFO("share " << known.share << ", temperature " << known.temperature);
    const Tensor student = students();
    Tape tape;
    tape.watch(student);
    const Tensor labels = Tensor::of<std::int64_t>({2}, {0, 2});
    const Tensor loss = training_loss(student, {labels, teachers()}, {},
                                      distilling(known.share, known.temperature));
    CHECK(value_of(loss) == doctest::Approx(known.loss).epsilon(1e-12));
    const auto gradient = tape.backward(loss)[student].to_vector<double>();
    for (std::size_t i = 0; i < gradient.size(); ++i)
      CHECK(gradient[i] == doctest::Approx(known.gradient[i]).epsilon(1e-12));
  }
}

TEST_CASE("groups of a batch share a distilled loss out among them") {
  double sum = 0;
  for (const std::int64_t row : {0, 1}) {
    const Tensor label = Tensor::of<std::int64_t>({1}, {2 * row});
    sum += value_of(training_loss(rows_of(students(), row), {label, rows_of(teachers(), row)}, {},
                                  distilling(0.5, 2), 2));
  }
  CHECK(sum == doctest::Approx(kKnown[0].loss).epsilon(1e-12));
}

TEST_CASE("a teacher that is sure of one class leaves the loss finite") {
  const Tensor sure = Tensor::of<double>({1, 3}, {2000, 0, 0});
  const Tensor label = Tensor::of<std::int64_t>({1}, {1});
  const Tensor student = Tensor::of<double>({1, 3}, {0, 0, 0});
  CHECK(value_of(training_loss(student, {label, sure}, {}, distilling(1, 1))) ==
        doctest::Approx(std::log(3.0)));
}
