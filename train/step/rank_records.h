// What passes leave behind, packed for other ranks.
#pragma once

#include "nn/vit.h"
#include "train/ranks/packed.h"

namespace hg {

// Of any device; unpacked there, too.
void pack(const Tensor& tensor, Packer& to);
Tensor unpack_tensor(Unpacker& from);

// What layers learn from: PassRecord::statistics.
void pack_statistics(const nn::Vit& model, const nn::PassRecord& record, Packer& to);
void unpack_statistics(const nn::Vit& model, Unpacker& from, nn::PassRecord& record);

// What was asked for reports: PassRecord::probed.
void pack_probed(const nn::PassRecord& record, Packer& to);
void unpack_probed(Unpacker& from, nn::PassRecord& record);

}  // namespace hg
