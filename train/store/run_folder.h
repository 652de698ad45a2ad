// A run folder: where each of its files is. What they hold is told by the header beside each.
#pragma once

#include <filesystem>

#include "tensor/base/files.h"

namespace hg {

struct RunFolder {
  std::string path;

  std::string config() const { return path + "/config.toml"; }       // config/config.h
  std::string metrics() const { return path + "/metrics.csv"; }      // store/metrics_csv.h
  std::string steps() const { return path + "/steps.csv"; }          // store/steps_csv.h
  std::string power() const { return path + "/power.csv"; }          // store/power_csv.h
  std::string confusion() const { return path + "/confusion.csv"; }  // store/confusion_csv.h
  std::string launches() const { return path + "/launches.json"; }   // store/launches.h
  std::string ledger() const { return path + "/ledger.csv"; }        // energy/books/ledger.h
  std::string energy() const { return path + "/energy.json"; }       // store/energy_files.h
  std::string emissions() const { return path + "/emissions.csv"; }  // store/emissions.h
  std::string summary() const { return path + "/summary.json"; }     // store/summary.h
  std::string model() const { return path + "/model.safetensors"; }  // store/checkpoint.h
  std::string state() const { return path + "/state.safetensors"; }  // store/checkpoint.h
  std::string report() const { return path + "/report.html"; }       // report/page.h
  std::string trace() const { return path + "/trace.json"; }         // energy/output/trace.h
};

// The configuration of a run folder, or of that in which a model file stands; empty: there is none.
inline std::string config_beside(const std::string& path) {
  const std::string folder =
      is_folder(path) ? path : std::filesystem::path(path).parent_path().string();
  const std::string config = RunFolder{folder.empty() ? "." : folder}.config();
  return is_file(config) ? config : "";
}

// The model of a run folder, or of one by Hugging Face, or the file that the path names. Where
// there is a file of torch.save alone it is that, so that reading it says how to convert it.
inline std::string model_file(const std::string& path) {
  if (!is_folder(path)) return path;
  const std::string own = RunFolder{path}.model(), theirs = path + "/pytorch_model.bin";
  return !is_file(own) && is_file(theirs) ? theirs : own;
}

}  // namespace hg
