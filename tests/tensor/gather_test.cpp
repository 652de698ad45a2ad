#include "tensor/ops/gather.h"

#include <doctest/doctest.h>

#include <limits>

#include "autograd/tape.h"
#include "tensor/run.h"

namespace hg {
namespace {

using Ids = std::vector<std::int64_t>;
using Floats = std::vector<float>;

Tensor ids_of(const Shape& shape, const Ids& values) {
  return Tensor::of<std::int64_t>(shape, values);
}

std::string message(const Tensor& x, const Tensor& ids) {
  try {
    gather_rows(x, ids);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("gather_rows repeats rows of a table and picks each image's own") {
  const Tensor table = Tensor::of<float>({3, 2}, Floats{0, 1, 10, 11, 20, 21});
  const Tensor picked = gather_rows(table, ids_of({2, 2}, {2, 0, 2, 2}));
  CHECK(picked.shape() == Shape{2, 2, 2});
  CHECK(picked.to_vector<float>() == Floats{20, 21, 0, 1, 20, 21, 20, 21});

  const Tensor images = Tensor::of<float>({2, 2, 1}, Floats{1, 2, 3, 4});
  CHECK(gather_rows(images, ids_of({2, 1}, {1, 0})).to_vector<float>() == Floats{2, 3});
}

TEST_CASE("rows that no id names are not touched") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::of<float>({3, 1}, Floats{1, nan, 3});
  const Tensor ids = ids_of({4}, {0, 2, 2, 0});
  const Tensor y = gather_rows(x, ids);
  CHECK(y.to_vector<float>() == Floats{1, 3, 3, 1});
  // two rows of 4 bytes and four ids of 8
  CHECK(ops::GatherRows().cost(Tensors{x, ids}, Tensors{y}).total().bytes_read == 2 * 4 + 4 * 8);
}

TEST_CASE("scatter_add_rows adds up repeated ids in order of position") {
  // (1e8 + 1) - 1e8 is 0 in f32, (1e8 - 1e8) + 1 is 1: the order shows.
  const Tensor ids = ids_of({3}, {1, 1, 1});
  const Tensor first = Tensor::of<float>({3, 1}, Floats{1e8f, 1, -1e8f});
  CHECK(scatter_add_rows(first, ids, 3).to_vector<float>() == Floats{0, 0, 0});
  const Tensor second = Tensor::of<float>({3, 1}, Floats{1e8f, -1e8f, 1});
  CHECK(scatter_add_rows(second, ids, 3).to_vector<float>() == Floats{0, 1, 0});
}

TEST_CASE("src [B,k,D] goes to each image's rows, or to one table if the op says so") {
  const Tensor src = Tensor::of<float>({2, 2, 1}, Floats{1, 2, 3, 4});
  const Tensor ids = ids_of({2, 2}, {0, 0, 1, 0});
  CHECK(scatter_add_rows(src, ids, 2).to_vector<float>() == Floats{3, 0, 4, 3});
  const ops::ScatterAddRows table(2, ops::ScatterAddRows::Form::table);
  CHECK(run_one(table, {src, ids}).to_vector<float>() == Floats{7, 3});
}

TEST_CASE("the gradient of a table shared by a batch sums over the batch") {
  const Tensor x = Tensor::of<float>({2, 1}, Floats{5, 6});
  Tape tape;
  tape.watch(x);
  const Tensor y = gather_rows(x, ids_of({2, 2}, {0, 1, 1, 1}));
  const Tensor seed = Tensor::of<float>({2, 2, 1}, Floats{1, 10, 100, 1000});
  CHECK(tape.backward(In(&y, 1), In(&seed, 1))[x].to_vector<float>() == Floats{1, 1110});
}

TEST_CASE("an id out of range is named with its position and the number of rows") {
  const Tensor x = Tensor::zeros({2, 5, 3});
  CHECK(message(x, ids_of({2, 2}, {0, 1, 5, 2})) ==
        "gather_rows: id 5 at position 2 of i64[2,2] out of range: 5 rows");
  CHECK(message(x, ids_of({2, 1}, {0, -1})) ==
        "gather_rows: id -1 at position 1 of i64[2,1] out of range: 5 rows");
  CHECK_THROWS_WITH_AS(scatter_add_rows(Tensor::zeros({1, 2}), ids_of({1}, {4}), 4),
                       "scatter_add_rows: id 4 at position 0 of i64[1] out of range: 4 rows",
                       Error);
}

}  // namespace hg
