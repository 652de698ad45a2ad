#include <cmath>

#include "tensor/cuda/along_axis.h"
#include "tensor/ops/favor_features.h"

namespace hg::ops {
namespace {

using Shift = FavorFeatures::Shift;

// Rows are tokens of a head: x [rows, d], products [rows, m]; rows = B n heads.
struct Rows {
  std::int64_t batch, n, heads;
  int d, m;
  float scale;  // D^(-1/4)
  // The (image, head) of a row.
  __device__ std::int64_t head_of(std::int64_t row) const {
    return row / (n * heads) * heads + row % heads;
  }
  // The first row of an (image, head).
  __device__ std::int64_t first_of(std::int64_t head) const {
    return head / heads * n * heads + head % heads;
  }
};

Rows rows_of(const Tensor& x, const Tensor& products) {
  const std::int64_t heads = products.dim(2), d = x.dim(2) / heads;
  return {products.dim(0),
          products.dim(1),
          heads,
          cuda::row_length(d),
          cuda::row_length(products.dim(3)),
          static_cast<float>(std::pow(static_cast<double>(d), -0.25))};
}

// All products of an (image, head) as one row of n m.
template <class Row>
struct HeadRow : Row {
  int m;
  std::int64_t stride;
  __device__ HeadRow(const Row& row, const Rows& at, std::int64_t head)
      : Row{at.first_of(head) * at.m, row.n}, m(at.m), stride(at.heads * at.m) {}
  __device__ std::int64_t at(int j) const { return this->first + j / m * stride + j % m; }
};

// tops[head]: the largest product
struct HeadTops {
  const float* products;
  float* tops;
  Rows at;
  template <class Row>
  __device__ void operator()(const Row& row, std::int64_t head) const {
    const float top = cuda::row_max(HeadRow<Row>(row, at, head), products);
    if (row.leads()) tops[head] = top;
  }
};

struct Forward {
  const float *x, *products;
  const float* tops;  // of sequences; else null
  float* y;
  Rows at;
  Shift shift;
  float eps, root;  // root: 1 / sqrt(m)
  __device__ void operator()(const auto& row, std::int64_t index) const {
    float top = 0, norm = 0;
    if (shift == Shift::token) top = cuda::row_max(row, products);
    if (shift == Shift::sequence) top = tops[at.head_of(index)];
    for (int k = row.begin(); k < at.d; k += row.step()) {
      const float v = x[index * at.d + k];
      norm += v * v;
    }
    const float offset = at.scale * at.scale * row.sum(norm) / 2 + at.scale * top;
    for (int j = row.begin(); j < row.n; j += row.step())
      y[row.at(j)] = (expf(products[row.at(j)] * at.scale - offset) + eps) * root;
  }
};

// With t the exponent: dt = dy (y - eps / sqrt(m)), dp = dt / D^(1/4), dx = - x / sqrt(D) sum dt;
// the product that is c gets minus the sum of all dt. For sequences that is left to TopGrads.
struct Backward {
  const float *dy, *y, *x, *products;
  float *dx, *dproducts;
  float* sums;  // of dt, one a row; null unless of sequences
  Rows at;
  Shift shift;
  float small;  // eps / sqrt(m)
  __device__ void operator()(const auto& row, std::int64_t index) const {
    const float sum =
        cuda::row_sum(row, [&](int j) { return dy[row.at(j)] * (y[row.at(j)] - small); });
    int largest = row.n;
    if (shift == Shift::token)
      largest = cuda::first_of(row, products, cuda::row_max(row, products));
    for (int j = row.begin(); j < row.n; j += row.step()) {
      const float dt = dy[row.at(j)] * (y[row.at(j)] - small);
      dproducts[row.at(j)] = at.scale * (j == largest ? dt - sum : dt);
    }
    const float pull = -at.scale * at.scale * sum;
    for (int k = row.begin(); k < at.d; k += row.step())
      dx[index * at.d + k] = x[index * at.d + k] * pull;
    if (sums && row.leads()) sums[index] = sum;
  }
};

struct TopGrads {
  const float *products, *sums;
  float* dproducts;
  Rows at;
  template <class Row>
  __device__ void operator()(const Row& row, std::int64_t head) const {
    const HeadRow<Row> all(row, at, head);
    float total = 0;
    for (std::int64_t i = row.begin(); i < at.n; i += row.step())
      total += sums[at.first_of(head) + i * at.heads];
    total = row.sum(total);
    const int largest = cuda::first_of(all, products, cuda::row_max(all, products));
    if (row.leads() && largest < row.n) dproducts[all.at(largest)] -= at.scale * total;
  }
};

}  // namespace

void FavorFeatures::cuda(In in, Out out, CudaStream& stream) const {
  const Rows at = rows_of(in[0], in[1]);
  const float* const products = in[1].data<float>();
  Tensor tops;
  if (shift == Shift::sequence) {
    tops = Tensor::empty({at.batch, at.heads}, DType::f32, Device::cuda);
    const HeadTops body{products, tops.data<float>(), at};
    cuda::along_rows(at.batch * at.heads, at.n * at.m, body, stream);
  }
  const Forward body{in[0].data<float>(),
                     products,
                     tops.defined() ? tops.data<float>() : nullptr,
                     out[0].data<float>(),
                     at,
                     shift,
                     static_cast<float>(eps),
                     1.0f / std::sqrt(static_cast<float>(at.m))};
  cuda::along_rows(at.batch * at.n * at.heads, at.m, body, stream);
}

void FavorFeaturesBackward::cuda(In in, Out out, CudaStream& stream) const {
  const Rows at = rows_of(in[2], in[3]);
  const std::int64_t rows = at.batch * at.n * at.heads;
  const bool sequence = forward.shift == Shift::sequence;
  const float* const products = in[3].data<float>();
  float* const dproducts = out[1].data<float>();
  const Tensor sums = Tensor::empty({sequence ? rows : 0}, DType::f32, Device::cuda);
  const Backward body{in[0].data<float>(),
                      in[1].data<float>(),
                      in[2].data<float>(),
                      products,
                      out[0].data<float>(),
                      dproducts,
                      sequence ? sums.data<float>() : nullptr,
                      at,
                      forward.shift,
                      static_cast<float>(forward.eps / std::sqrt(static_cast<double>(at.m)))};
  cuda::along_rows(rows, at.m, body, stream);
  if (!sequence) return;
  cuda::along_rows(at.batch * at.heads, at.n * at.m,
                   TopGrads{products, sums.data<float>(), dproducts, at}, stream);
}

}  // namespace hg::ops
