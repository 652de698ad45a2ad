// Who may know whom: the direction of includes between the folders, and the seam to CUDA.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;
using Sources = std::map<std::string, std::string>;  // path from the root -> text

// A room is a folder without the rooms inside it. It may include itself, the rooms named here, and
// what those may include.
const std::map<std::string, Names> kRooms = {
    {"tensor/base", {}},
    {"tensor", {"tensor/base"}},
    {"tensor/cpu", {"tensor"}},
    {"tensor/cuda", {"tensor"}},
    {"tensor/ops/attention", {"tensor/cpu", "tensor/cuda"}},
    {"tensor/ops", {"tensor/ops/attention"}},
    {"autograd", {"tensor/ops"}},
    {"nn/layers", {"autograd"}},
    {"nn/attention", {"nn/layers"}},
    {"nn", {"nn/attention"}},
    {"data", {"tensor/ops"}},
    {"energy", {"tensor/ops"}},
    {"energy/meters", {"energy"}},
    {"energy/books", {"energy/meters"}},
    {"energy/output", {"energy/books"}},
    {"train/statistics", {"tensor/ops"}},
    {"train/ranks", {"tensor/base"}},
    {"train/config", {"nn", "data", "energy/output"}},
    {"train/store", {"train/config"}},
    {"train/step", {"train/store", "train/ranks"}},
    {"train/eval", {"train/step"}},
    {"train/phases", {"train/eval"}},
    {"train/report", {"train/phases"}},
    {"train/run", {"train/report"}},
    {"train/experiment", {"train/run", "train/statistics"}},
    {"train/cli", {"train/experiment"}},
    {"train/commands", {"train/cli"}},
    {"train", {"train/commands"}},
    {"tools", {"train"}},
    {"tests", {"tools"}}};

bool starts_with(const std::string& text, const std::string& start) {
  return text.compare(0, start.size(), start) == 0;
}
std::string folder_of(const std::string& path) { return path.substr(0, path.find('/')); }

// The room with the longest name that the path begins with; "" if none of ours.
std::string room_of(std::string path) {
  do {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return "";
    path.resize(slash);
  } while (!kRooms.count(path));
  return path;
}

void add_known(const std::string& room, Names& known) {
  for (const std::string& other : kRooms.at(room))
    if (known.insert(other).second) add_known(other, known);
}
// Rooms that a room may include, itself left out.
Names known_to(const std::string& room) {
  Names known;
  add_known(room, known);
  return known;
}
bool is_cuda_source(const std::string& path) {
  const std::string extension = fs::path(path).extension();
  return extension == ".cu" || extension == ".cuh";
}
bool may_know_cuda(const std::string& path) {
  return is_cuda_source(path) || starts_with(path, "tensor/cuda/") ||
         starts_with(path, "tests/cuda_emu/");
}

// <x> and "x" alike; those in comments count as well, which does no harm.
std::vector<std::string> includes_of(const std::string& text) {
  static const std::regex kInclude(R"((?:^|\n)[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"])");
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), kInclude), end; it != end; ++it)
    found.push_back((*it)[1]);
  return found;
}

bool is_cuda_header(const std::string& header) {
  static const std::regex kCuda(
      R"((cuda|cublas|cudnn|curand|cusparse|nvtx|cooperative_groups|cub/|thrust/|device_).*)");
  return std::regex_match(header, kCuda);
}
bool is_eigen(const std::string& header) {
  return starts_with(header, "Eigen/") || starts_with(header, "unsupported/Eigen/");
}

// What the file includes and may not, one line each.
std::vector<std::string> violations(const std::string& path, const std::string& text) {
  std::vector<std::string> faults;
  Names allowed = known_to(room_of(path));
  allowed.insert(room_of(path));
  for (const std::string& header : includes_of(text)) {
    const std::string room = room_of(header);
    const bool ours = room != "";
    if ((ours && !allowed.count(room)) || (is_cuda_source(path) && is_eigen(header)) ||
        (!ours && is_cuda_header(header) && !may_know_cuda(path)))
      faults.push_back(path + " includes " + header);
  }
  return faults;
}

// Headers that a source reaches through ours, itself included.
void reach(const Sources& sources, const std::string& path, Names& seen) {
  if (!seen.insert(path).second || !sources.count(path)) return;
  for (const std::string& header : includes_of(sources.at(path))) reach(sources, header, seen);
}

std::vector<std::string> eigen_in_cuda(const Sources& sources) {
  std::vector<std::string> faults;
  for (const auto& [path, text] : sources) {
    if (!is_cuda_source(path)) continue;
    Names seen;
    reach(sources, path, seen);
    for (const std::string& header : seen)
      if (is_eigen(header)) faults.push_back(path + " reaches " + header);
  }
  return faults;
}

std::string read(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

Sources all_sources() {
  const fs::path root = HG_SOURCE_DIR;
  const Names extensions{".h", ".cpp", ".cu", ".cuh", ".inc"};
  Sources sources;
  for (const auto& [room, known] : kRooms) {
    if (folder_of(room) != room) continue;  // inside another
    for (const auto& entry : fs::recursive_directory_iterator(root / room))
      if (entry.is_regular_file() && extensions.count(entry.path().extension()))
        sources[entry.path().lexically_relative(root).generic_string()] = read(entry.path());
  }
  return sources;
}

// Lines about stems of op_list.inc without their files, op classes without a line there, and
// kernels declared but not written or the other way round (builds without nvcc don't see those).
std::vector<std::string> op_list_faults(const Sources& sources) {
  static const std::regex kLine(R"((?:^|\n)HG_OP\(([a-z0-9_]+), (\w+)\))");
  std::vector<std::string> faults;
  Names stems, listed;
  const std::string& list = sources.at("tensor/ops/op_list.inc");
  for (std::sregex_iterator it(list.begin(), list.end(), kLine), end; it != end; ++it) {
    stems.insert((*it)[1]);
    listed.insert("tensor/ops/" + (*it)[1].str() + ".h " + (*it)[2].str());
  }
  for (const std::string& stem : stems) {
    const std::string path = "tensor/ops/" + stem;
    for (const char* end : {".h", ".cpp", "_ref.h"})
      if (!sources.count(path + end)) faults.push_back("missing " + stem + end);
    const auto header = sources.find(path + ".h");
    const bool declared =
        header != sources.end() && header->second.find("HG_DECLARE_") != std::string::npos;
    if (declared && !sources.count(path + ".cu")) faults.push_back("missing " + stem + ".cu");
    if (!declared && sources.count(path + ".cu"))
      faults.push_back("no HG_DECLARE_OP in " + stem + ".h");
  }
  static const std::regex kClass(
      R"(: public (?:OpOf|ViewOf|GradientOp|NonDifferentiable)<(?!Derived>)(\w+)>)");
  for (const auto& [path, text] : sources)
    for (std::sregex_iterator it(text.begin(), text.end(), kClass), end; it != end; ++it)
      if (starts_with(path, "tensor/ops/") && !listed.count(path + " " + (*it)[1].str()))
        faults.push_back("not in op_list.inc: " + (*it)[1].str());
  return faults;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

bool refused(const std::string& path, const std::string& header) {
  const bool quoted = violations(path, "// x\n#include \"" + header + "\"\n").size() == 1;
  const bool angled = violations(path, "  # include <" + header + ">").size() == 1;
  REQUIRE(quoted == angled);
  return quoted;
}

}  // namespace

TEST_CASE("every source keeps to the direction of knowledge") {
  const Sources sources = all_sources();
  CHECK(sources.size() > 50);
  CHECK(sources.count("tensor/ops/softmax.cpp") == 1);
  std::vector<std::string> faults = eigen_in_cuda(sources);
  for (const auto& [path, text] : sources)
    if (path != "tests/includes_test.cpp")
      for (const std::string& fault : violations(path, text)) faults.push_back(fault);
  CHECK(joined(faults) == "");
}

TEST_CASE("every room has sources") {
  Names found;
  for (const auto& [path, text] : all_sources()) found.insert(room_of(path));
  for (const auto& [room, known] : kRooms) CHECK_MESSAGE(found.count(room) == 1, room);
}

TEST_CASE("a file belongs to the innermost room around it") {
  CHECK(room_of("train/run/trainer.cpp") == "train/run");
  CHECK(room_of("train/configs/x.inc") == "train");
  CHECK(room_of("tests/cuda_emu/include/cuda_runtime.h") == "tests");
  CHECK(room_of("fmt/format.h") == "");
  CHECK(room_of("vector") == "");
  CHECK(room_of("train") == "");
}

TEST_CASE("the checker finds includes against the direction") {
  CHECK(refused("tensor/run.cpp", "autograd/tape.h"));
  CHECK(refused("tensor/ops/softmax.h", "nn/layers/linear.h"));
  CHECK(refused("autograd/tape.h", "nn/module.h"));
  CHECK(refused("autograd/tape.h", "energy/meters/meter.h"));
  CHECK(refused("nn/attention/softmax.cpp", "energy/books/profiler.h"));
  CHECK(refused("nn/vit.h", "data/dataset.h"));
  CHECK(refused("data/loader.cpp", "autograd/tape.h"));
  CHECK(refused("data/loader.cpp", "energy/meters/meter.h"));
  CHECK(refused("energy/books/profiler.cpp", "nn/module.h"));
  CHECK(refused("energy/books/profiler.cpp", "train/run/trainer.h"));
  CHECK(refused("train/run/trainer.cpp", "tests/support.h"));
  CHECK(refused("train/run/trainer.cpp", "tools/hgprof.h"));
  CHECK(refused("tools/hgprof.cpp", "tests/support.h"));
  for (const auto& [room, known] : kRooms)
    for (const char* header : {"tools/x.h", "tests/ops/generic.h"})
      if (room != "tools" && room != "tests") CHECK(refused(room + "/x.cpp", header));
}

TEST_CASE("the checker finds includes against the direction between rooms of one folder") {
  CHECK(refused("tensor/base/text.h", "tensor/shape.h"));
  for (const char* header : {"tensor/cpu/gemm.h", "tensor/cuda/launch.h", "tensor/ops/permute.h"})
    CHECK(refused("tensor/transfer.cpp", header));
  CHECK(refused("tensor/cpu/backend.cpp", "tensor/cuda/stream.h"));
  CHECK(refused("tensor/cuda/backend.cpp", "tensor/cpu/parallel.h"));
  for (const char* room : {"cpu", "cuda"})
    for (const char* header : {"tensor/ops/attention/head_tiles.cuh", "tensor/ops/softmax.h"})
      CHECK(refused("tensor/" + std::string(room) + "/x.h", header));
  CHECK(refused("tensor/ops/attention/quadratic_call.h", "tensor/ops/quadratic_attention.h"));
  CHECK(refused("energy/units.h", "energy/meters/meter.h"));
  CHECK(refused("energy/meters/meter.h", "energy/books/ledger.h"));
  CHECK(refused("energy/books/ledger.cpp", "energy/output/csv.h"));
  const char* const upwards[] = {"config", "store", "step",       "eval", "phases",
                                 "report", "run",   "experiment", "cli",  "commands"};
  for (auto higher = std::begin(upwards); higher != std::end(upwards); ++higher)
    for (auto lower = std::begin(upwards); lower != higher; ++lower) {
      const std::string low = std::string("train/") + *lower + "/x.h";
      const std::string high = std::string("train/") + *higher + "/x.h";
      CHECK(refused(low, high));
      CHECK_FALSE(refused(high, low));
    }
  CHECK(refused("train/commands/info.cpp", "train/hgtrain.h"));
  CHECK(refused("train/statistics/rank.h", "train/config/config.h"));
  CHECK(refused("train/statistics/rank.h", "energy/units.h"));
  CHECK(refused("train/run/trainer.cpp", "train/statistics/rank.h"));
}

TEST_CASE("the checker lets through what is allowed") {
  CHECK_FALSE(refused("tensor/run.cpp", "tensor/op.h"));
  CHECK_FALSE(refused("tensor/cuda/memory.cpp", "tensor/base/error.h"));
  CHECK_FALSE(refused("tensor/ops/attention/head_tiles.cuh", "tensor/cuda/reduce.h"));
  CHECK_FALSE(refused("tensor/ops/attention.cpp", "tensor/ops/attention/token_heads.h"));
  CHECK_FALSE(refused("autograd/tape.cpp", "tensor/ops/binary.h"));
  CHECK_FALSE(refused("nn/vit.cpp", "autograd/tape.h"));
  CHECK_FALSE(refused("train/run/trainer.cpp", "energy/books/ledger.h"));
  CHECK_FALSE(refused("train/statistics/rank.h", "tensor/base/text.h"));
  CHECK_FALSE(refused("tools/hgprof/ops.cpp", "train/commands/options.h"));
  CHECK_FALSE(refused("tests/nn/vit_test.cpp", "train/run/trainer.h"));
  CHECK_FALSE(refused("tensor/run.cpp", "vector"));
  CHECK_FALSE(refused("tensor/run.cpp", "data"));  // no folder of ours
  CHECK_FALSE(refused("tensor/cpu/gemm.cpp", "Eigen/Core"));
  CHECK(violations("tensor/run.cpp", "// see #include \"train/x.h\"\nint a;").empty());
}

TEST_CASE("the checker keeps Eigen out of CUDA sources and CUDA out of the rest") {
  CHECK(refused("tensor/ops/softmax.cu", "Eigen/Core"));
  CHECK(refused("tensor/cuda/reduce.cuh", "unsupported/Eigen/SpecialFunctions"));
  CHECK(refused("tensor/ops/softmax.cpp", "cuda_runtime.h"));
  CHECK(refused("tensor/op.h", "cublasLt.h"));
  CHECK(refused("train/hgtrain.cpp", "cuda/std/atomic"));
  CHECK_FALSE(refused("tensor/ops/softmax.cu", "cuda_runtime.h"));
  CHECK_FALSE(refused("tensor/cuda/handles.h", "cublas_v2.h"));
  CHECK_FALSE(refused("tests/cuda_emu/probe.cpp", "cuda_runtime.h"));
  const Sources through{{"tensor/ops/a.cu", "#include \"tensor/b.h\"\n"},
                        {"tensor/b.h", "#include \"tensor/cpu/c.h\"\n"},
                        {"tensor/cpu/c.h", "#include <Eigen/Core>\n#include \"tensor/b.h\"\n"}};
  CHECK(joined(eigen_in_cuda(through)) == "tensor/ops/a.cu reaches Eigen/Core\n");
}

TEST_CASE("op_list.inc and the files of the ops agree") {
  CHECK(joined(op_list_faults(all_sources())) == "");
  const Sources planted{{"tensor/ops/op_list.inc", "// HG_OP(stem, Class)\nHG_OP(lone, Lone)\n"},
                        {"tensor/ops/lone.h", "class LoneBackward : public OpOf<LoneBackward>"},
                        {"tensor/ops/lone.cpp", ""}};
  CHECK(joined(op_list_faults(planted)) ==
        "missing lone_ref.h\nnot in op_list.inc: LoneBackward\n");
  Sources kernels{{"tensor/ops/op_list.inc", "HG_OP(a, A)\nHG_OP(b, B)\n"},
                  {"tensor/ops/a.h", "  HG_DECLARE_OP(\"a\");\n"},
                  {"tensor/ops/b.h", ""},
                  {"tensor/ops/b.cu", ""}};
  for (const char* file : {"a.cpp", "a_ref.h", "b.cpp", "b_ref.h"})
    kernels[std::string("tensor/ops/") + file] = "";
  CHECK(joined(op_list_faults(kernels)) == "missing a.cu\nno HG_DECLARE_OP in b.h\n");
}
