// Times single ops on random data, for tools/compare_torch.py. Reads commands from standard input:
//   setup linear|linear_dx|linear_dw ROWS IN OUT   or   setup attention B H N D
//   setup sparse_attention B H N D PERCENT   on a random support of that percentage of all pairs
//   run     runs the op once and prints its milliseconds
#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <iostream>
#include <sstream>

#include "autograd/tape.h"
#include "tensor/base/clock.h"
#include "tensor/cpu/parallel.h"
#include "tensor/ops/attention.h"
#include "tensor/ops/linear.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/sparse_attention.h"
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

std::function<void()> sparse_case(std::int64_t batch, std::int64_t heads, std::int64_t n,
                                  std::int64_t d, double share) {
  RandomStream stream(1, "support");
  SparseAttentionOptions options;
  options.supports.push_back(std::make_shared<const PairSupport>(
      heads, n, [&](std::int64_t, std::int64_t, PairSupport::Row& keys) {
        for (std::int64_t j = 0; j < n; ++j)
          if (stream.uniform() < share) keys.push_back(static_cast<std::uint16_t>(j));
      }));
  const Shape rows{batch, n, heads * d}, keys{options.supports.kept(batch), d};
  const Tensor q = random_tensor(rows), k = random_tensor(keys), v = random_tensor(keys),
               seed = random_tensor(rows);
  return [=] {
    Tape tape;
    for (const Tensor& t : {q, k, v}) tape.watch(t);
    const Tensor o = sparse_attention(options, q, k, v);
    tape.backward(In(&o, 1), In(&seed, 1));
  };
}

std::function<void()> make_case(std::istringstream& words) {
  std::string what;
  std::int64_t a = 0, b = 0, c = 0, d = 0;
  double percent = 0;
  words >> what >> a >> b >> c;
  if (what == "attention" || what == "sparse_attention") words >> d;
  if (what == "sparse_attention") words >> percent;
  require(!words.fail(), "op_bench", "cannot read the sizes of {}", what);
  if (what == "sparse_attention") return sparse_case(a, b, c, d, percent / 100);
  return what == "attention" ? attention_case({a, b, c, d}) : linear_case(what, a, b, c);
}

double milliseconds(const std::function<void()>& f) {
  const std::int64_t start = now_ns();
  f();
  return seconds_since(start) * 1e3;
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
