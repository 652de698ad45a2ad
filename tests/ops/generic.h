// The tests every op gets for its line in op_list.inc. CMake writes one source per stem that
// includes the stem's reference and names its op classes with HG_GENERIC_TESTS.
#pragma once

#include <doctest/doctest.h>

#include "tensor/op.h"
#include "tensor/reference.h"

namespace hg::testing {

struct OpUnderTest {
  std::string class_name;
  Samples (*samples)();
  void (*reference)(const Op&, RefIn<double>, RefOut<double>);
  void (*counted)(const Op&, RefIn<ref::Counted>, RefOut<ref::Counted>);
  bool on_cuda;  // declares a kernel of its own
};

template <class OpType>
OpUnderTest under_test(const char* class_name) {
  return {class_name, &OpType::samples,
          [](const Op& op, RefIn<double> in, RefOut<double> out) {
            reference(dynamic_cast<const OpType&>(op), in, out);
          },
          [](const Op& op, RefIn<ref::Counted> in, RefOut<ref::Counted> out) {
            reference(dynamic_cast<const OpType&>(op), in, out);
          },
          !std::is_same_v<decltype(&OpType::cuda), decltype(&Op::cuda)>};
}

void check_parity(const OpUnderTest& op);        // f32 and f64 kernels against the f64 reference
void check_gradient(const OpUnderTest& op);      // grad against differences, or the reason for none
void check_cost(const OpUnderTest& op);          // stated cost against the counted reference
void check_completeness(const OpUnderTest& op);  // samples cover odd sizes, registry, CUDA
void check_threads(const OpUnderTest& op);       // the same bits with 1, 2, 3 and 7 threads
void check_bad_input(const OpUnderTest& op);     // wrong inputs throw hg::Error

}  // namespace hg::testing

#define HG_GENERIC_TEST(op, what, check) \
  TEST_CASE(#op ": " what) { hg::testing::check(hg::testing::under_test<hg::ops::op>(#op)); }

#define HG_GENERIC_TESTS(op)                                                      \
  HG_GENERIC_TEST(op, "matches its f64 reference", check_parity)                  \
  HG_GENERIC_TEST(op, "gradient matches differences", check_gradient)             \
  HG_GENERIC_TEST(op, "states the cost that the reference counts", check_cost)    \
  HG_GENERIC_TEST(op, "is complete", check_completeness)                          \
  HG_GENERIC_TEST(op, "gives the same bits with any thread count", check_threads) \
  HG_GENERIC_TEST(op, "refuses bad input", check_bad_input)
