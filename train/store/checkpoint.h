// A run's files between epochs. state.safetensors alone is enough to go on: it holds weights,
// moments and position, so that no kill between two files can part them. model.safetensors holds
// the weights for others, with what predict needs beside them.
#pragma once

#include "data/dataset.h"
#include "train/store/model.h"
#include "train/store/summary.h"

namespace hg {

// Where a run stands. All that is random is a function of it.
struct Position {
  std::int64_t phase = 0, epoch = 0, batch = 0;  // the next batch to train on; epoch of the phase
  std::int64_t rows = 0;                         // of metrics.csv
  double epoch_loss = 0, epoch_sparsity = 0;     // sums over the epoch so far
  std::int64_t epoch_images = 0, epoch_tokens = 0;
  double seconds = 0, epoch_seconds = 0;  // of the run and of this epoch
  std::uint64_t flops = 0, flops_matmul = 0, flops_before_epoch = 0;
  std::int64_t images = 0;
  std::int64_t unscored_images = 0;  // whose patches were not chosen by score, for want of one
  // Of the run at the end of the last epoch: epochs tile the run, and what a kill lost of the
  // training is part of the epoch that does it again.
  std::int64_t energy_before_epoch_uj = 0;
  std::int64_t energy_saved_uj = 0;  // of it, what ledger.csv held when the state was saved
  Forecast forecast;
  std::map<std::string, double> figures;  // of the last evaluation, beside its scores
};

// A model's tensors, and what a file says of them beside.
struct ModelWeights {
  NamedTensors tensors;
  std::map<std::string, std::string> metadata;
};

struct RunState {
  std::string source;  // of it, for messages
  Position position;
  std::int64_t steps = 0;  // of the optimizer, in the phase
  Safetensors weights, moments;
};
void save_state(const std::string& folder, const ModelWeights& weights, const NamedTensors& moments,
                std::int64_t steps, const Position& position);
RunState load_state(const std::string& folder);
// The same from the file's bytes.
RunState parse_state(std::string_view bytes, const std::string& source);

// What is known about the classes and pixels a model was trained on.
struct ModelCard {
  std::vector<std::string> class_names;
  Normalization normalization;
};
void save_model(const std::string& folder, const ModelWeights& weights, const ModelCard& card);
// The configuration's model with the file's weights, pruned if they are; the card is empty where
// the file has none (a model from elsewhere).
struct LoadedModel {
  nn::Vit model;
  ModelCard card;
};
LoadedModel load_model(const std::string& path, const Config& config);

}  // namespace hg
