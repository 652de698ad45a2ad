// Muon: the momentum of a weight matrix, made nearly orthogonal, is its update (nn/METHODS.md,
// section 7). All directions then move by about the same length.
#pragma once

#include "nn/layers/parameter.h"
#include "tensor/run.h"

namespace hg {

// Whether it is for the parameter: a matrix of a block. AdamW is for the rest.
bool suits_muon(const nn::Parameter& parameter);

// [r,c] -> about U V^T of its singular value decomposition U S V^T: singular values between 0.7 and
// 1.2, by five steps of Newton and Schulz. Zeros stay zeros.
Tensor orthogonalized(const Tensor& direction);

// One step: p (1 - lr decay) - 0.2 sqrt(max(r, c)) lr orthogonalized(g + 0.95 buffer), with
// buffer = 0.95 buffer + g and g = grad_scale times the gradients' sum. An update has entries about
// as large as AdamW's, so the learning rate is that of AdamW.
struct MuonOptions {
  double lr = 1e-3, weight_decay = 0, grad_scale = 1;
};
void muon_step(const MuonOptions& options, const Tensor& p, const Tensor& buffer, In gradients);

}  // namespace hg
