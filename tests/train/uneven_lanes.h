// A configuration for tests that give work to several threads or ranks.
#pragma once

namespace hg::testing {

// Batches of 20 images, the last one of 11, in five lanes: no number of workers has equal shares.
inline constexpr const char* kUnevenLanes = R"([run]
lanes = 5
[data]
name = "shapes"
train_limit = 31
test_limit = 23
[model]
in_channels = 1
img_size = 16
patch_size = 4
emb_size = 16
depth = 2
heads = 2
num_classes = 4
dropout = 0.1
[train]
batch_size = 20
epochs = 2
grad_clip = 0.5
)";

}  // namespace hg::testing
