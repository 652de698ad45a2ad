#pragma once

#include "tensor/ops/log_softmax.h"
#include "tensor/ops/softmax_ref.h"
