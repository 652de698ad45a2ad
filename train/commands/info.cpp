// hgtrain info: parameters, FLOPs and bytes of one image, counted by walking the model without
// computing it.
#include <map>
#include <nlohmann/json.hpp>

#include "autograd/tape.h"
#include "energy/labels.h"
#include "tensor/run.h"
#include "train/commands/commands.h"
#include "train/loss.h"
#include "train/phases/prune.h"

namespace hg {
namespace {

using Json = nlohmann::ordered_json;

struct Row {
  std::string layer, op;
  std::int64_t parameters = 0;
  Cost forward, backward;
};

// Costs by (layer, op), in the order of first appearance.
class CostTable final : public Observer {
 public:
  void op_end(const OpCall& call) override {
    const ScopePath& scope = *call.scope;
    // Backward ops go into the row of their forward op.
    Row& row = row_of(scope.layer, std::string(energy::row_op(scope, call.op.name(), "")));
    (call.phase == Phase::backward ? row.backward : row.forward) +=
        call.op.cost(call.in, call.out).total();
  }

  // A parameter belongs to the row of the longest label its name begins with; one of a layer that
  // no label fits (a prior) has a row of its own.
  void add_parameters(const nn::Parameters& parameters) {
    for (const nn::Parameter& p : parameters.all()) {
      Row* best = nullptr;
      std::size_t length = 0;
      for (Row& row : rows_) {
        const std::string label = row.layer.empty() ? row.op : row.layer + "." + row.op;
        if (p.name.starts_with(label + ".") && label.size() > length)
          best = &row, length = label.size();
      }
      (best ? *best : row_of_own(p.name)).parameters += p.value.numel();
    }
  }
  const std::vector<Row>& rows() const { return rows_; }

 private:
  Row& row_of(const std::string& layer, const std::string& op) {
    for (Row& row : rows_)
      if (row.layer == layer && row.op == op) return row;
    return rows_.emplace_back(Row{layer, op, 0, {}, {}});
  }
  Row& row_of_own(const std::string& name) {
    std::string layer;
    for (const Row& row : rows_)
      if (name.starts_with(row.layer + ".") && row.layer.size() > layer.size()) layer = row.layer;
    return layer.empty() ? row_of("", "embed_tokens")
                         : row_of(layer, name.substr(layer.size() + 1));
  }
  std::vector<Row> rows_;
};

CostTable count_one_image(const nn::Vit& model, const Config& config) {
  CostTable table;
  const ObserverGuard guard(table);
  const DryRun dry;
  const ModelConfig& m = config.model;
  Tape tape;
  for (const nn::Parameter& p : model.parameters().all()) tape.watch(p.value);
  const Tensor images = Tensor::hollow_of({DType::f32, {1, m.in_channels, m.img_size, m.img_size}});
  nn::PassRecord record = record_for(config.loss);
  const Tensor logits = model.logits(images, {nullptr, &record});
  tape.backward(training_loss(logits, Tensor::hollow_of({DType::i64, {1}}), record, config.loss));
  table.add_parameters(model.parameters());
  return table;
}

Json to_json(const Row& row) {
  return {{"layer", row.layer},
          {"op", row.op},
          {"parameters", row.parameters},
          {"flops_forward", row.forward.flops()},
          {"flops_backward", row.backward.flops()},
          {"flops_forward_matmul", row.forward.flops_mm},
          {"flops_backward_matmul", row.backward.flops_mm},
          {"bytes_forward", row.forward.bytes()},
          {"bytes_backward", row.backward.bytes()}};
}

void print_table(const nn::Vit& model, const CostTable& table, const Row& total) {
  fmt::print("{:<22} {:<16} {:>12} {:>16} {:>16} {:>14}\n", "layer", "op", "parameters",
             "FLOPs forward", "FLOPs backward", "bytes");
  const auto line = [](const Row& row) {
    fmt::print("{:<22} {:<16} {:>12} {:>16} {:>16} {:>14}\n", row.layer, row.op, row.parameters,
               row.forward.flops(), row.backward.flops(),
               row.forward.bytes() + row.backward.bytes());
  };
  for (const Row& row : table.rows()) line(row);
  line(total);
  fmt::print(
      "\n{} parameters; one image: forward {:.4f} GFLOP ({:.4f} in products), backward {:.4f} "
      "({:.4f})\n",
      model.parameters().count(), static_cast<double>(total.forward.flops()) * 1e-9,
      static_cast<double>(total.forward.flops_mm) * 1e-9,
      static_cast<double>(total.backward.flops()) * 1e-9,
      static_cast<double>(total.backward.flops_mm) * 1e-9);
}

}  // namespace

int info_command(const InfoOptions& options) {
  const Config config = options.load();
  const nn::Vit model(options.weights.empty()
                          ? options_to_measure(config)
                          : vit_options(config, read_safetensors(options.weights), options.weights),
                      0, true);
  const CostTable table = count_one_image(model, config);
  Row total{"total", "", model.parameters().count(), {}, {}};
  Json layers = Json::array();
  for (const Row& row : table.rows()) {
    total.forward += row.forward;
    total.backward += row.backward;
    layers.push_back(to_json(row));
  }
  if (!options.json) {
    print_table(model, table, total);
    return 0;
  }
  const Json out{
      {"parameters", total.parameters},
      {"flops",
       {{"forward", total.forward.flops()},
        {"backward", total.backward.flops()},
        {"forward_matmul", total.forward.flops_mm},
        {"backward_matmul", total.backward.flops_mm}}},
      {"bytes", {{"forward", total.forward.bytes()}, {"backward", total.backward.bytes()}}},
      {"layers", layers}};
  fmt::print("{}\n", out.dump());
  return 0;
}

}  // namespace hg
