// Trains a linear layer, and tells what each epoch and each part of it cost.
#include "autograd/tape.h"
#include "energy/books/session.h"
#include "nn/layers/linear.h"
#include "tensor/ops/binary.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/optimizer.h"
#include "tensor/ops/reduce.h"
#include "tensor/ops/unary.h"
#include "tensor/random.h"

using namespace hg;

int main() {
  RandomStream random(1, "data");
  const Tensor x = Tensor::empty({512, 64});
  fill_normal(x, random, 0, 1);
  const Tensor wanted = matmul(x, Tensor::full({64, 8}, 0.1));
  nn::Parameters parameters(1);
  const nn::Linear layer(nn::Builder(parameters), "layer", 64, 8);

  energy::Session session;  // reads this machine's meter from here on
  for (int epoch = 1; epoch <= 3; ++epoch) {
    session.begin_window("epoch");
    Tensor loss;
    for (int step = 0; step < 100; ++step) {
      Tape tape;
      for (const nn::Parameter& p : parameters.all()) tape.watch(p.value);
      loss = mean_all(square(sub(layer(x), wanted)));
      const Gradients gradients = tape.backward(loss);
      const Scope scope("update");
      for (const nn::Parameter& p : parameters.all())
        sgd_step({.lr = 0.1}, p.value, {}, {&gradients[p.value], 1});
    }
    const energy::Ledger window = session.end_window("epoch");
    fmt::print("epoch {}: loss {:.6f}, {} uJ, layer {} uJ, update {} uJ\n", epoch,
               loss.item<float>(), window.energy_uj, window.scope("layer").energy_uj,
               window.scope("update").energy_uj);
  }
  const energy::Ledger ledger = session.stop();
  fmt::print("{}total {} uJ, {}\n", ledger_csv(ledger.rows), ledger.energy_uj,
             to_string(ledger.kind));
}
