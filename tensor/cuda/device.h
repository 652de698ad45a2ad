// The way to the CUDA device for code that knows none of CUDA's headers. Builds without CUDA have
// the answers of absent.cpp.
#pragma once

#include <string>

#include "tensor/backend.h"

namespace hg {

class CudaStream;

namespace cuda {

std::string unavailable();  // why there is no device to use; empty if there is one
Backend& backend();         // throws that reason
CudaStream& stream();       // the one that all work goes to, in order

}  // namespace cuda
}  // namespace hg
