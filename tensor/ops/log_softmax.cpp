#include "tensor/ops/log_softmax.h"

namespace hg::ops {

Samples LogSoftmax::samples() {
  return {sample(LogSoftmax(-1), {S::uniform({3, 197})}),
          sample(LogSoftmax(0), {S::uniform({1})}),
          sample(LogSoftmax(1), {S::uniform({2, 197, 3}, -8, 8)}),
          sample(LogSoftmax(0), {S::uniform({5, 2, 3})}),
          sample(LogSoftmax(-1), {S::uniform({0, 3})}),
          sample(LogSoftmax(-1), {S::uniform({2, 5}, -80, 80)})};
}

Samples LogSoftmaxBackward::samples() {
  return {sample(LogSoftmaxBackward(-1), {S::uniform({3, 197}), S::uniform({3, 197}, -9, 0)}),
          sample(LogSoftmaxBackward(1), {S::uniform({2, 5, 3}), S::uniform({2, 5, 3}, -9, 0)}),
          sample(LogSoftmaxBackward(-1), {S::uniform({0, 3}), S::uniform({0, 3})}),
          sample(LogSoftmaxBackward(0), {S::uniform({1}), S::uniform({1})})};
}

}  // namespace hg::ops
