#include "tensor/cuda/single_product.h"

#include <cublasLt.h>

#include <algorithm>
#include <map>

#include "tensor/cuda/check.h"
#include "tensor/cuda/device.h"
#include "tensor/tensor.h"

namespace hg::cuda {
namespace {

constexpr const char* kWho = "product";
// Bytes; kernels of Hopper and later take more.
std::uint64_t most_workspace() {
  static const bool hopper = device_attribute(cudaDevAttrComputeCapabilityMajor) >= 9;
  return (hopper ? 32u : 4u) << 20;
}
// Of half a kilobyte each; there may be as many extents as ways to drop tokens.
constexpr std::size_t kMostPlans = 4096;

// Kernels differ in what they expect of pointers; none expects more than 256 bytes.
std::uint32_t alignment_of(const void* p) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(256, address & (~address + 1)));
}

// What a choice of kernel depends on.
struct Case {
  std::int64_t m, n, k;
  Side a, b;
  std::int64_t row_stride;  // of c
  bool add;
  std::uint32_t matrix_alignment, bias_alignment;  // 0: no bias
  bool tf32;
  auto operator<=>(const Case&) const = default;
};

template <class T>
void set(cublasLtMatmulDescOpaque_t& product, cublasLtMatmulDescAttributes_t attribute, T value) {
  check(cublasLtMatmulDescSetAttribute(&product, attribute, &value, sizeof value), kWho);
}
template <class T>
void set(cublasLtMatmulPreferenceOpaque_t& preference,
         cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value), kWho);
}

// A column-major matrix [rows, columns], stored as its transpose where op says so.
cublasLtMatrixLayoutOpaque_t layout_of(std::int64_t rows, std::int64_t columns,
                                       cublasOperation_t op, std::int64_t ld) {
  if (op == CUBLAS_OP_T) std::swap(rows, columns);
  cublasLtMatrixLayoutOpaque_t layout{};
  check(cublasLtMatrixLayoutInit(&layout, CUDA_R_32F, static_cast<std::uint64_t>(rows),
                                 static_cast<std::uint64_t>(columns), ld),
        kWho);
  return layout;
}

// How cublasLt makes a product: in its column-major terms c^T [n, m] = b^T [n, k] a^T [k, m] +
// bias, where the bias goes along the columns.
class Plan {
 public:
  // Of the bias only the alignment matters here.
  Plan(cublasLtHandle_t blas, const Case& of, const float* bias)
      : before_(of.add ? 1 : 0),
        b_(layout_of(of.n, of.k, of.b.op, of.b.ld)),
        a_(layout_of(of.k, of.m, of.a.op, of.a.ld)),
        c_(layout_of(of.n, of.m, CUBLAS_OP_N, of.row_stride)) {
    check(cublasLtMatmulDescInit(
              &product_, of.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
          kWho);
    set(product_, CUBLASLT_MATMUL_DESC_TRANSA, of.b.op);
    set(product_, CUBLASLT_MATMUL_DESC_TRANSB, of.a.op);
    if (bias) {
      set(product_, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias));
    }
    choose_kernel(blas, of.matrix_alignment);
  }

  bool possible() const { return possible_; }

  void run(cublasLtHandle_t blas, const float* a, const float* b, const float* bias, float* c,
           CudaStream& stream) {
    const std::size_t bytes = kernel_.workspaceSize;
    Tensor workspace;
    if (bytes > 0)
      workspace = Tensor::empty({static_cast<std::int64_t>(bytes)}, DType::u8, Device::cuda);
    stream.count_work();
    const float one = 1;
    if (bias) set(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias));
    check(cublasLtMatmul(blas, &product_, &one, b, &b_, a, &a_, &before_, c, &c_, c, &c_,
                         &kernel_.algo, bytes > 0 ? workspace.raw() : nullptr, bytes,
                         stream.handle()),
          kWho);
  }

 private:
  void choose_kernel(cublasLtHandle_t blas, std::uint32_t alignment) {
    cublasLtMatmulPreferenceOpaque_t preference{};
    check(cublasLtMatmulPreferenceInit(&preference), kWho);
    set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace());
    for (const auto which :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      set(preference, which, alignment);
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        blas, &product_, &b_, &a_, &c_, &c_, &preference, 1, &kernel_, &found);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, kWho);
    possible_ =
        status == CUBLAS_STATUS_SUCCESS && found > 0 && kernel_.state == CUBLAS_STATUS_SUCCESS;
  }

  const float before_;  // the factor of what is there
  cublasLtMatmulDescOpaque_t product_{};
  cublasLtMatrixLayoutOpaque_t b_, a_, c_;
  cublasLtMatmulHeuristicResult_t kernel_{};
  bool possible_ = false;
};

cublasLtHandle_t make_handle() {
  cublasLtHandle_t blas = nullptr;
  check(cublasLtCreate(&blas), "cublasLtCreate");
  return blas;
}

}  // namespace

Side side_of(const Matrix& matrix, std::int64_t rows, std::int64_t columns) {
  if (matrix.column_stride == 1 || columns == 1)
    return {CUBLAS_OP_N, as_int(rows == 1 ? std::max<std::int64_t>(columns, 1)
                                          : std::max(matrix.row_stride, columns))};
  return {CUBLAS_OP_T, as_int(std::max(matrix.column_stride, rows))};
}

// Plans are kept, so that a steady step neither searches nor allocates.
bool single_product(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix& a,
                    const Matrix& b, const Product& c, const float* bias, CudaStream& stream) {
  if (m * n == 0) return true;
  if (k == 0) return false;
  static const cublasLtHandle_t blas = make_handle();  // never destroyed, as the stream is not
  static std::map<Case, Plan>& plans = *new std::map<Case, Plan>;
  const Case mine{m,
                  n,
                  k,
                  side_of(a, m, k),
                  side_of(b, k, n),
                  m == 1 ? n : c.row_stride,
                  c.add,
                  std::min({alignment_of(a.data), alignment_of(b.data), alignment_of(c.data)}),
                  bias ? alignment_of(bias) : 0,
                  stream.tf32()};
  if (plans.size() == kMostPlans && !plans.contains(mine)) plans.clear();
  Plan& plan = plans.try_emplace(mine, blas, mine, bias).first->second;
  if (plan.possible()) plan.run(blas, a.data, b.data, bias, c.data, stream);
  return plan.possible();
}

}  // namespace hg::cuda
