// What a run folder holds.
#include <cstring>

#include "tests/fuzz/fuzz.h"
#include "train/store/checkpoint.h"
#include "train/store/energy_files.h"
#include "train/store/launches.h"
#include "train/store/metrics_csv.h"
#include "train/store/steps_csv.h"

namespace hg::fuzz {
namespace {

NamedTensors in_a_list(const Safetensors& file) {
  return {file.tensors.begin(), file.tensors.end()};
}

NamedTensors few_tensors() {
  return {{"a", Tensor::full({2, 3}, 0.5)},
          {"b", Tensor::zeros({2}, DType::i64)},
          {"c", Tensor::zeros({0, 4}, DType::f64)}};
}

void take_safetensors(const std::string& input) {
  const Safetensors file = parse_safetensors(input, "file");
  const std::string path = working_folder() + "/written";
  surely([&] { write_safetensors(path, in_a_list(file), file.metadata); });
  const Safetensors again = surely([&] { return read_safetensors(path); });
  must(again.metadata == file.metadata, "the same metadata");
  must(again.tensors.size() == file.tensors.size(), "the same names");
  for (const auto& [name, tensor] : file.tensors) {
    const Tensor& other = again.tensors.at(name);
    must(other.shape() == tensor.shape() && other.dtype() == tensor.dtype(), "the same shape");
    must(tensor.bytes() == 0 || std::memcmp(tensor.raw(), other.raw(), tensor.bytes()) == 0,
         "the same bits");
  }
}

Inputs seeds_of_safetensors() {
  const std::string path = working_folder() + "/seed";
  write_safetensors(path, few_tensors(), {{"key", "value \u00fc"}});
  std::string half = "{\"h\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]}}";
  half.resize(64, ' ');
  return {file_contents(path), std::string("\x40\0\0\0\0\0\0\0", 8) + half + "\1\2\3\4"};
}

// The state as it is written again.
std::string written(const RunState& state) {
  save_state(working_folder(), {in_a_list(state.weights), state.weights.metadata},
             in_a_list(state.moments), state.steps, state.position);
  return file_contents(working_folder() + "/state.safetensors");
}

void take_state(const std::string& input) {
  put_file("state.safetensors", input);
  const RunState state = load_state(working_folder());
  surely([&] {
    const std::string once = written(state);
    must(written(load_state(working_folder())) == once, "the same state");
  });
}

Inputs seeds_of_state() {
  Position position;
  position.epoch = 1;
  position.epoch_loss = 0.25;
  position.figures["iou"] = 0.5;
  save_state(working_folder(), {few_tensors(), {{"pruned", "0.5"}}}, few_tensors(), 7, position);
  return {file_contents(working_folder() + "/state.safetensors")};
}

const Config& tiny_config() {
  static const Config config =
      load_config("shapes", {"model.img_size=8", "model.patch_size=8", "model.emb_size=2",
                             "model.heads=1", "model.depth=1", "model.mlp_ratio=1"});
  return config;
}

// A model and what it says of its classes.
void take_model(const std::string& input) {
  const LoadedModel loaded = load_model(file_with(input), tiny_config());
  if (loaded.card.class_names.empty()) return;
  surely([&] {
    save_model(working_folder(), {weights_of(loaded.model), {}}, loaded.card);
    const ModelCard again = load_model(working_folder() + "/model.safetensors", tiny_config()).card;
    must(again.class_names == loaded.card.class_names, "the same classes");
    must(again.normalization.mean == loaded.card.normalization.mean, "the same means");
  });
}

Inputs seeds_of_model() {
  const nn::Vit model(vit_options(tiny_config()), 1);
  save_model(working_folder(), {weights_of(model), {}},
             {{"round", "square"}, {{0.5f, 0.5f, 0.5f}, {0.25f, 0.25f, 0.25f}}});
  return {file_contents(working_folder() + "/model.safetensors")};
}

void take_metrics(const std::string& input) {
  const std::string path = put_file("metrics.csv", input);
  const std::size_t rows = read_metrics(path).size();
  const auto rewritten = [&] {
    MetricsLog(path, true, rows);
    return file_contents(path);
  };
  surely([&] {
    const std::string once = rewritten();
    must(rewritten() == once, "the same rows");
  });
}

Inputs seeds_of_metrics() {
  const std::string path = working_folder() + "/metrics.csv";
  EpochRow row{.phase = "supervised", .epoch = 1, .step = 4, .train_loss = 2.25};
  row.flops = 12345678901234;
  MetricsLog log(path, true);
  log.append(row);
  row.accuracy = row.micro_f1 = 0.5;
  row.sparsity = 1e-9;
  row.phase = "a \"b\", c";
  log.append(row);
  return {file_contents(path)};
}

// A resumed run keeps what was read.
void take_steps(const std::string& input) {
  const std::string path = put_file("steps.csv", input);
  const std::size_t rows = read_steps(path).size();
  const auto kept = [&] {
    StepsLog(path, StepsLog::Place{INT64_MAX, INT64_MAX});
    return file_contents(path);
  };
  surely([&] {
    const std::string once = kept();
    must(kept() == once && read_steps(path).size() == rows, "the same rows");
  });
}

Inputs seeds_of_steps() {
  const std::string path = working_folder() + "/steps.csv";
  StepsLog log(path, {});
  log.add({0, 1, 1, 2.25, 1e-3});
  log.add({1, 1, 1, -1e-9, 0});
  log.save();
  return {file_contents(path), file_contents(path) + "1,1,2,0."};
}

void take_launches(const std::string& input) {
  const std::string path = put_file("launches.json", input);
  const std::vector<Launch> before = read_launches(path);
  surely([&] {
    note_launch(path, {}, true);
    must(read_launches(path).size() == before.size() + 1, "the same starts and one more");
  });
}

Inputs seeds_of_launches() {
  const std::string path = working_folder() + "/launches.json";
  note_launch(path, {"2026", "a 'b'", "/", "1", "host", "system", "cpu", 2}, false);
  return {file_contents(path)};
}

void take_summary(const std::string& input) {
  RunSummary summary, again;
  read_summary(file_with(input), summary);
  const std::string once = surely([&] { return to_json(summary, 2); });
  surely([&] { read_summary(file_with(once), again); });
  must(to_json(again, 2) == once, "the same summary");
}

Inputs seeds_of_summary() {
  RunSummary summary;
  summary.name = "a";
  summary.status = kFinished;
  summary.accuracy = 0.5;
  summary.energy_j = {2, 1, 3};
  summary.prediction = {3, {2, 1, 3}};
  return {to_json(summary, 2)};
}

energy::Ledger small_ledger() {
  energy::Ledger ledger;
  energy::LedgerRow row;
  row.kind = energy::Kind::modelled;
  row.label = {"forward", "blocks.0.mlp", "linear"};
  row.calls = 3;
  row.seconds = 0.001;
  row.flops = 1000;
  row.energy_uj = 2000;
  row.low_uj = 1000;
  row.high_uj = 3000;
  ledger.rows = {row, row};
  ledger.rows[1].label = {"unattributed", "", "unattributed"};
  ledger.energy_uj = 4000;
  ledger.seconds = 0.5;
  ledger.domain_uj[0] = 4000;
  return ledger;
}

std::string rewritten_ledger(const std::string& text) {
  return energy::ledger_csv(energy::parse_ledger_csv(text, "ledger.csv"));
}

void take_ledger(const std::string& input) {
  std::vector<energy::LedgerRow> rows = energy::parse_ledger_csv(input, "ledger.csv");
  const std::string once = energy::ledger_csv(rows);
  must(surely([&] { return rewritten_ledger(once); }) == once, "the same rows");
  energy::sum_of(rows);  // as a report has it
  energy::add_rows(rows, small_ledger().rows);
}

Inputs seeds_of_ledger() { return {energy::ledger_csv(small_ledger().rows)}; }

// energy.json beside a ledger.
void take_energy(const std::string& input) {
  const std::string& folder = working_folder();
  put_file("ledger.csv", energy::ledger_csv(small_ledger().rows));
  put_file("energy.json", input);
  Emissions before;
  EnergyFiles files(folder);
  const energy::Ledger ledger = files.load({1, 1}, before).value();
  surely([&] {
    must(files.save(ledger, before).empty(), "written");
    Emissions after;
    const energy::Ledger again = EnergyFiles(folder).load({1, 1}, after).value();
    must(after.run_id == before.run_id && again.domain_uj == ledger.domain_uj &&
             again.seconds == ledger.seconds && after.use.cpu_percent == before.use.cpu_percent,
         "the same energy");
  });
}

Inputs seeds_of_energy() {
  Emissions emissions;
  emissions.run_id = "3f0c";
  EnergyFiles files(working_folder());
  for (int saves = 0; saves < 2; ++saves) files.save(small_ledger(), emissions);
  return {file_contents(working_folder() + "/energy.json")};
}

HG_PARSER(safetensors)
HG_PARSER(state)
HG_PARSER(model)
HG_PARSER(metrics)
HG_PARSER(steps)
HG_PARSER(launches)
HG_PARSER(summary)
HG_PARSER(ledger)
HG_PARSER(energy)

}  // namespace
}  // namespace hg::fuzz
