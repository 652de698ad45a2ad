// hgtrain info: parameters, FLOPs and bytes of one image, counted by walking the model without
// computing it.
#include <nlohmann/json.hpp>
#include <numeric>

#include "energy/books/labels.h"
#include "tensor/base/columns.h"
#include "tensor/base/enum_names.h"
#include "tensor/base/text.h"
#include "tensor/base/usage_error.h"
#include "tensor/run.h"
#include "train/commands/commands.h"
#include "train/commands/scaling_table.h"
#include "train/config/selection.h"
#include "train/phases/registry.h"
#include "train/phases/sample_batch.h"
#include "train/phases/step_cost.h"
#include "train/phases/supervised.h"
#include "train/ranks/launcher.h"
#include "train/store/checkpoint.h"
#include "train/store/model_shape.h"
#include "train/store/run_folder.h"

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

void count_scoring(const ModelConfig& m, const PatchSelection& selection) {
  const DryRun dry;
  const PhaseScope phase(Phase::data);
  const Scope scope("patch_select");
  patch_scores(Tensor::hollow_of({DType::u8, {1, m.in_channels, m.img_size, m.img_size}}),
               selection.score);
}

// One image in training: scored, its kept patches alone or all of them. All parameters of the model
// learn classes and, if the run ends with finding them, boxes.
CostTable table_of_one_image(const Config& config, const nn::VitOptions& options,
                             const std::optional<PatchSelection>& selection) {
  CostTable table;
  if (selection && selection->scored()) {
    const ObserverGuard guard(table);
    count_scoring(config.model, *selection);
  }
  SupervisedLearner learner({.config = config, .index = 0, .options = options, .hollow = true},
                            {.boxes = detects(config)});
  take_dry(learner, sample_batch(config, {.images = 1}, selection, Contents::none), table);
  table.add_parameters(nn::Vit(options, 0, true).parameters());
  return table;
}

Row total_of(const CostTable& table) {
  Row total{"total", "", 0, {}, {}};
  for (const Row& row : table.rows()) {
    total.parameters += row.parameters;
    total.forward += row.forward;
    total.backward += row.backward;
  }
  return total;
}

// What the filter saves: an image with all its patches, and the mean at the first epoch.
struct Unfiltered {
  PatchSelection selection;
  std::int64_t patches;
  Row total;

  double expected(double filtered, double whole) const {
    return selection.prob * filtered + (1 - selection.prob) * whole;
  }
};

Json flops_of(const Cost& forward, const Cost& backward) {
  return {{"forward", forward.flops()},
          {"backward", backward.flops()},
          {"forward_matmul", forward.flops_mm},
          {"backward_matmul", backward.flops_mm}};
}
Json flops_of(const Row& row) { return flops_of(row.forward, row.backward); }

Json to_json(const Unfiltered& u, const Row& filtered) {
  Json expected;
  const Json with = flops_of(filtered), without = flops_of(u.total);
  for (const auto& [key, value] : with.items())
    expected[key] = u.expected(value.get<double>(), without[key].get<double>());
  return {{"patches", u.patches},
          {"kept", u.selection.keep},
          {"kept_end", *u.selection.keep_end},
          {"mode", enum_name(u.selection.mode)},
          {"prob", u.selection.prob},
          {"flops_all_patches", without},
          {"flops_expected", expected}};
}

std::string selection_line(const Unfiltered& u, const Row& filtered) {
  const auto giga = [](const Row& r) {
    return static_cast<double>(r.forward.flops() + r.backward.flops()) * 1e-9;
  };
  const double with = giga(filtered), without = giga(u.total);
  if (u.selection.mode == PatchSelection::Mode::zero) {
    return fmt::format(
        "select: {} of {} patches are zeroed, the sequence stays whole: nothing is saved\n",
        u.patches - u.selection.keep, u.patches);
  }
  return fmt::format(
      "select: {} of {} patches, {:.1f} % of the {:.4f} GFLOP of all; at prob {} a mean of "
      "{:.4f}\n",
      u.selection.keep, u.patches, 100 * with / without, without, u.selection.prob,
      u.expected(with, without));
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

// "blocks.3.attn" -> "blocks.*.attn"; what belongs to no layer by its op, if it has parameters.
std::string part_of(const Row& row) {
  if (row.layer.empty()) return row.parameters > 0 ? row.op : "other ops";
  std::string part = row.layer;
  const std::size_t number = part.find('.') + 1;
  if (number > 0 && std::isdigit(static_cast<unsigned char>(part[number])))
    part.replace(number, part.find('.', number) - number, "*");
  return part;
}

// One row a part of the model, those of all blocks together.
std::vector<Row> summary_of(const CostTable& table) {
  std::vector<Row> parts;
  for (const Row& row : table.rows()) {
    const std::string name = part_of(row);
    auto part = std::ranges::find(parts, name, &Row::layer);
    if (part == parts.end()) part = parts.insert(part, Row{name, "", 0, {}, {}});
    part->parameters += row.parameters;
    part->forward += row.forward;
    part->backward += row.backward;
  }
  return parts;
}

std::uint64_t bytes_of(const Row& row) { return row.forward.bytes() + row.backward.bytes(); }

void print_layers(const CostTable& table, const Row& total) {
  TextTable text({"layer", "op", "parameters", "FLOPs forward", "FLOPs backward", "bytes"}, 2);
  const auto add = [&](const Row& row) {
    text.add({row.layer, row.op, with_separators(row.parameters),
              with_separators(row.forward.flops()), with_separators(row.backward.flops()),
              with_separators(bytes_of(row))});
  };
  for (const Row& row : table.rows()) add(row);
  add(total);
  fmt::print("{}", text.text(columns_of(stdout)));
}

void print_summary(const CostTable& table, const Row& total) {
  TextTable text({"part", "parameters", "forward", "backward", "FLOPs %", "bytes"});
  const auto flops = [](const Row& r) {
    return static_cast<double>(r.forward.flops() + r.backward.flops());
  };
  const auto add = [&](const Row& row) {
    text.add({row.layer, with_separators(row.parameters),
              with_prefix(static_cast<double>(row.forward.flops()), "FLOP"),
              with_prefix(static_cast<double>(row.backward.flops()), "FLOP"),
              fmt::format("{:.1f}", 100 * flops(row) / flops(total)),
              with_prefix(static_cast<double>(bytes_of(row)), "B")});
  };
  for (const Row& part : summary_of(table)) add(part);
  add(total);
  fmt::print("{}", text.text(columns_of(stdout)));
}

std::string model_line(const Config& config) {
  const ModelConfig& m = config.model;
  return fmt::format(
      "{}: {} attention, {} blocks of width {}, {} heads of {}, {} x {} pixels in "
      "{} patches\n\n",
      config.run.name, m.attention, m.depth, m.emb_size, m.heads,
      m.dim_head > 0 ? m.dim_head : m.emb_size / m.heads, m.img_size, m.img_size, patches_of(m));
}

std::string total_line(const Row& total) {
  return fmt::format(
      "\n{} parameters; one image: forward {:.4f} GFLOP ({:.4f} in products), backward {:.4f} "
      "({:.4f})\n",
      with_separators(total.parameters), static_cast<double>(total.forward.flops()) * 1e-9,
      static_cast<double>(total.forward.flops_mm) * 1e-9,
      static_cast<double>(total.backward.flops()) * 1e-9,
      static_cast<double>(total.backward.flops_mm) * 1e-9);
}

// FLOPs of a step, over all epochs of the phase.
double mean_of_epochs(const Config& config, std::size_t index) {
  const std::vector<double> flops = flops_by_epoch(config, index);
  return std::reduce(flops.begin(), flops.end()) / static_cast<double>(flops.size());
}

// Of every phase of the run, where it has a cost of its own.
Json phases_json(const Config& config) {
  Json phases = Json::array();
  for (std::size_t i = 0; i < config.phases.size(); ++i) {
    Json& row = phases.emplace_back(Json{{"kind", config.phases[i].kind}});
    if (const auto cost = step_cost(config, i)) {
      row["images_per_step"] = cost->images;
      row["flops_per_step"] = flops_of(cost->forward, cost->backward);
      row["flops_per_step_mean"] = mean_of_epochs(config, i);
    }
  }
  return phases;
}

std::string growth_line(const Config& config, const PatchSelection& selection) {
  const std::size_t last = config.phases.size() - 1;
  if (selection.keep_end == selection.keep || !step_cost(config, last)) return "";
  return fmt::format(
      "select: {} patches in the last epoch; over all epochs, a step of {} images takes a "
      "mean of {:.4f} GFLOP\n",
      *selection.keep_end, config.phases[last].train.batch_size,
      mean_of_epochs(config, last) * 1e-9);
}

std::string phase_lines(const Config& config) {
  if (config.phases.size() == 1 && &kind_of(config.phases[0]) == &kSupervised) return "";
  std::string lines;
  for (std::size_t i = 0; i < config.phases.size(); ++i) {
    const std::string& kind = config.phases[i].kind;
    if (const auto cost = step_cost(config, i))
      lines +=
          fmt::format("phase {} {}: a step of {} images, forward {:.4f} GFLOP, backward {:.4f}\n",
                      i, kind, cost->images, static_cast<double>(cost->forward.flops()) * 1e-9,
                      static_cast<double>(cost->backward.flops()) * 1e-9);
    else
      lines += fmt::format("phase {} {}: {}\n", i, kind,
                           kind_of(config.phases[i]).learner
                               ? "on what is left by pruning, see info --weights"
                               : "no training steps");
  }
  return lines;
}

// Those of a file with weights, if one is given.
nn::VitOptions options_of(const InfoOptions& options, const Config& config) {
  if (holds_model(options.config))
    return load_model(model_file(options.config), config).model.options();
  if (options.weights.empty()) return options_to_measure(config);
  return vit_options(config, read_model(options.weights), options.weights);
}

int tell(const InfoOptions& options, const Config& config, const nn::VitOptions& model,
         const std::optional<ScalingTable>& scaling) {
  const auto selection = patch_selection(config, config.phases.back(), Split::train);
  const CostTable table =
      table_of_one_image(config, model, patch_selection(config, config.phases.back(), 0));
  const Row total = total_of(table);
  std::optional<Unfiltered> unfiltered;
  if (selection)
    unfiltered = {*selection, patches_of(config.model),
                  total_of(table_of_one_image(config, model, {}))};
  if (!options.json) {
    if (!options.layers) print_folded(stdout, model_line(config));
    options.layers ? print_layers(table, total) : print_summary(table, total);
    std::string text = total_line(total);
    if (unfiltered) text += selection_line(*unfiltered, total);
    if (selection) text += growth_line(config, *selection);
    text += phase_lines(config);
    if (!options.layers) text += "Every op of every layer: --layers\n";
    print_folded(stdout, text);
    if (scaling) print(*scaling);
    return 0;
  }
  Json layers = Json::array();
  for (const Row& row : table.rows()) layers.push_back(to_json(row));
  Json out{{"parameters", total.parameters},
           {"flops", flops_of(total)},
           {"bytes", {{"forward", total.forward.bytes()}, {"backward", total.backward.bytes()}}},
           {"layers", layers},
           {"phases", phases_json(config)}};
  if (unfiltered) out["select"] = to_json(*unfiltered, total);
  if (scaling) out["scaling"] = json_of(*scaling);
  fmt::print("{}\n", out.dump());
  return 0;
}

}  // namespace

int info_command(const InfoOptions& options) {
  return on_ranks([&] {
    const Config config = options.load();
    usage_require(options.network.empty() || !options.ranks.empty(), "--network",
                  "expected with --ranks");
    const nn::VitOptions model = options_of(options, config);
    std::optional<ScalingTable> scaling;
    if (!options.ranks.empty()) scaling = measure_scaling(config, options.ranks, options.network);
    return ranks().first() ? tell(options, config, model, scaling) : 0;
  });
}

}  // namespace hg
