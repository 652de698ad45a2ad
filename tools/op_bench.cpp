// Times single ops on random data, for tools/compare_torch.py. Reads commands from standard input:
//   setup linear|linear_dx|linear_dw ROWS IN OUT   or   setup attention B H N D
//   run     runs the op once and prints its milliseconds
#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <iostream>
#include <sstream>

#include "autograd/tape.h"
#include "tensor/backend.h"
#include "tensor/cpu/parallel.h"
#include "tensor/ops/attention.h"
#include "tensor/ops/linear.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/view.h"
#include "tensor/random.h"

namespace {

using namespace hg;

Tensor random_tensor(const Shape& shape) {
  RandomStream stream(static_cast<std::uint64_t>(shape.numel()), "op_bench");
  Tensor t = Tensor::empty(shape);
  fill_uniform(t, stream, -1, 1);
  return t;
}

std::function<void()> linear_case(const std::string& what, std::int64_t rows, std::int64_t in,
                                  std::int64_t out) {
  const Tensor x = random_tensor({rows, in}), w = random_tensor({out, in}),
               b = random_tensor({out}), dy = random_tensor({rows, out});
  if (what == "linear") return [=] { linear(x, w, b); };
  if (what == "linear_dx") return [=] { matmul(dy, w); };
  if (what == "linear_dw") return [=] { matmul(transpose(dy), x); };
  fail("op_bench", "unknown case {}", what);
}

std::function<void()> attention_case(const Shape& shape) {
  const Tensor q = random_tensor(shape), k = random_tensor(shape), v = random_tensor(shape),
               seed = random_tensor(shape);
  return [=] {
    Tape tape;
    for (const Tensor& t : {q, k, v}) tape.watch(t);
    const Tensor o = attention(q, k, v);
    tape.backward(In(&o, 1), In(&seed, 1));
  };
}

std::function<void()> make_case(std::istringstream& words) {
  std::string what;
  std::int64_t a = 0, b = 0, c = 0, d = 0;
  words >> what >> a >> b >> c;
  if (what == "attention") words >> d;
  require(!words.fail(), "op_bench", "cannot read the sizes of {}", what);
  return what == "attention" ? attention_case({a, b, c, d}) : linear_case(what, a, b, c);
}

double milliseconds(const std::function<void()>& f) {
  Backend& clock = backend(Device::cpu);
  const std::int64_t start = clock.timestamp_ns();
  f();
  return static_cast<double>(clock.timestamp_ns() - start) * 1e-6;
}

void serve(std::istream& in) {
  std::function<void()> f;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "setup") {
      f = make_case(words);
      fmt::print("ready\n");
    } else {
      require(command == "run" && f, "op_bench", "expected setup, then run; got \"{}\"", line);
      fmt::print("{:.4f}\n", milliseconds(f));
    }
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 3 && std::string(argv[1]) == "--threads") hg::cpu::set_threads(std::atoi(argv[2]));
    serve(std::cin);
  } catch (const hg::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
