#include "tensor/cuda/linear_product.h"

#include <cublasLt.h>

#include <algorithm>
#include <map>

#include "tensor/cuda/check.h"
#include "tensor/tensor.h"

namespace hg::cuda {
namespace {

constexpr const char* kWho = "linear product";
constexpr std::uint64_t kMostWorkspace = 4 << 20;  // bytes
// Of half a kilobyte each; there may be as many extents as ways to drop tokens.
constexpr std::size_t kMostPlans = 4096;

// Kernels differ in what they expect of pointers; none expects more than 256 bytes.
std::uint32_t alignment_of(const void* p) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(256, address & (~address + 1)));
}

// What a choice of kernel depends on.
struct Case {
  LinearExtents extents;
  std::uint32_t matrix_alignment, bias_alignment;
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

// A dense row-major matrix [rows, columns] as cublasLt sees it: its transpose, column-major.
cublasLtMatrixLayoutOpaque_t layout_of(std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayoutOpaque_t layout{};
  check(cublasLtMatrixLayoutInit(&layout, CUDA_R_32F, static_cast<std::uint64_t>(columns),
                                 static_cast<std::uint64_t>(rows), columns),
        kWho);
  return layout;
}

// How cublasLt makes a product: in its column-major terms y^T [width, rows] = w x^T + bias, where
// the bias goes along the columns.
class Plan {
 public:
  // Of the bias only the alignment matters here.
  Plan(cublasLtHandle_t blas, const Case& of, const float* bias)
      : w_(layout_of(of.extents.width, of.extents.inner)),
        x_(layout_of(of.extents.rows, of.extents.inner)),
        y_(layout_of(of.extents.rows, of.extents.width)) {
    check(cublasLtMatmulDescInit(
              &product_, of.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
          kWho);
    set(product_, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    set(product_, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias));
    choose_kernel(blas, of.matrix_alignment);
  }

  bool possible() const { return possible_; }

  void run(cublasLtHandle_t blas, const float* x, const float* w, const float* bias, float* y,
           CudaStream& stream) {
    const std::size_t bytes = kernel_.workspaceSize;
    Tensor workspace;
    if (bytes > 0)
      workspace = Tensor::empty({static_cast<std::int64_t>(bytes)}, DType::u8, Device::cuda);
    stream.count_work();
    const float one = 1, zero = 0;
    set(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias));
    check(
        cublasLtMatmul(blas, &product_, &one, w, &w_, x, &x_, &zero, y, &y_, y, &y_, &kernel_.algo,
                       bytes > 0 ? workspace.raw() : nullptr, bytes, stream.handle()),
        kWho);
  }

 private:
  void choose_kernel(cublasLtHandle_t blas, std::uint32_t alignment) {
    cublasLtMatmulPreferenceOpaque_t preference{};
    check(cublasLtMatmulPreferenceInit(&preference), kWho);
    set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
    for (const auto which :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      set(preference, which, alignment);
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        blas, &product_, &w_, &x_, &y_, &y_, &preference, 1, &kernel_, &found);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, kWho);
    possible_ =
        status == CUBLAS_STATUS_SUCCESS && found > 0 && kernel_.state == CUBLAS_STATUS_SUCCESS;
  }

  cublasLtMatmulDescOpaque_t product_{};
  cublasLtMatrixLayoutOpaque_t w_, x_, y_;
  cublasLtMatmulHeuristicResult_t kernel_{};
  bool possible_ = false;
};

cublasLtHandle_t make_handle() {
  cublasLtHandle_t blas = nullptr;
  check(cublasLtCreate(&blas), "cublasLtCreate");
  return blas;
}

}  // namespace

// Plans are kept, so that a steady step neither searches nor allocates.
bool linear_product(const LinearExtents& extents, const float* x, const float* w, const float* bias,
                    float* y, CudaStream& stream) {
  if (extents.rows == 0) return true;
  static const cublasLtHandle_t blas = make_handle();  // never destroyed, as the stream is not
  static std::map<Case, Plan>& plans = *new std::map<Case, Plan>;
  const Case mine{extents, std::min({alignment_of(x), alignment_of(w), alignment_of(y)}),
                  alignment_of(bias), stream.tf32()};
  if (plans.size() == kMostPlans && !plans.contains(mine)) plans.clear();
  Plan& plan = plans.try_emplace(mine, blas, mine, bias).first->second;
  if (plan.possible()) plan.run(blas, x, w, bias, y, stream);
  return plan.possible();
}

}  // namespace hg::cuda
