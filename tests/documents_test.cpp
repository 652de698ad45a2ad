// What documents, comments and messages point at exists: links and their anchors, files and folders
// cited by path, documents by name, sections of nn/METHODS.md.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace hg::documents {
namespace {

namespace fs = std::filesystem;
using Files = std::map<std::string, std::string>;  // path from the root -> text
using Names = std::set<std::string>;
using Lines = std::vector<std::string>;

const Names kTopFolders{"tensor", "autograd", "nn",    "data", "energy",
                        "train",  "tools",    "tests", ".ci"};
const Names kSources{".h", ".cpp", ".cu", ".cuh", ".inc"};
// Files of the project by their endings; a run folder's own (.csv, .json, .toml) are not cited by
// path.
const Names kEndings{".h", ".cpp", ".cu", ".cuh", ".inc", ".md", ".sh", ".py", ".toml"};
// Their strings are full of paths that do not exist.
const Names kOfMadeUpPaths{"tests/documents_test.cpp", "tests/includes_test.cpp"};
// Names in comments that are not ours: headers and tools of others.
const Names kForeign{"cuda_runtime.h", "nvml.h"};

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}
bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}
std::string ending_of(const std::string& path) { return fs::path(path).extension().string(); }
std::string folder_of(const std::string& path) {
  return fs::path(path).parent_path().generic_string();
}
std::string joined_path(const std::string& folder, const std::string& path) {
  return (fs::path(folder) / path).lexically_normal().generic_string();
}

bool is_folder(const Files& files, std::string path) {
  if (!ends_with(path, "/")) path += '/';
  const auto next = files.lower_bound(path);
  return next != files.end() && starts_with(next->first, path);
}

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// --- Markdown

// The text without fenced blocks; with `spans` false, also without `code`.
std::string prose_of(const std::string& markdown, bool spans) {
  std::string prose;
  bool fenced = false, code = false;
  for (const std::string& line : lines_of(markdown)) {
    const bool fence = starts_with(line, "```");
    fenced ^= fence;
    if (fenced || fence) continue;
    for (const char c : line) {
      code ^= c == '`';
      if (spans || !code) prose += c;
    }
    prose += '\n';
  }
  return prose;
}

// As GitHub makes it: lower case, blanks to hyphens, punctuation left out.
std::string anchor_of(std::string_view heading) {
  std::string anchor;
  for (const char c : heading) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == ' ')
      anchor += '-';
    else if (byte >= 0x80 || std::isalnum(byte) || c == '-' || c == '_')
      anchor += static_cast<char>(std::tolower(byte));
  }
  return anchor;
}

Lines headings_of(const std::string& markdown) {
  Lines headings;
  for (const std::string& line : lines_of(prose_of(markdown, true))) {
    const std::size_t level = line.find_first_not_of('#');
    if (level == 0 || level == std::string::npos || line[level] != ' ') continue;
    headings.push_back(line.substr(level + 1));
  }
  return headings;
}

bool has_anchor(const std::string& markdown, const std::string& anchor) {
  const Lines headings = headings_of(markdown);
  return std::any_of(headings.begin(), headings.end(),
                     [&](const std::string& h) { return anchor_of(h) == anchor; });
}

// Targets of [text](target) and ![text](target).
Lines links_of(const std::string& markdown) {
  Lines links;
  const std::string prose = prose_of(markdown, false);
  for (std::size_t at = 0; (at = prose.find("](", at)) != std::string::npos;) {
    at += 2;
    links.push_back(prose.substr(at, prose.find(')', at) - at));
  }
  return links;
}

void check_links(const Files& files, const std::string& path, Lines& faults) {
  for (const std::string& link : links_of(files.at(path))) {
    if (link.find("://") != std::string::npos) continue;
    const std::size_t hash = link.find('#');
    const std::string to = link.substr(0, hash);
    const std::string target = to.empty() ? path : joined_path(folder_of(path), to);
    if (!files.count(target) && !is_folder(files, target))
      faults.push_back(path + ": no file for the link " + link);
    else if (hash != std::string::npos &&
             (!files.count(target) || !has_anchor(files.at(target), link.substr(hash + 1))))
      faults.push_back(path + ": no heading for the link " + link);
  }
}

// --- Sources

const char* comment_mark(const std::string& path) {
  return kSources.count(ending_of(path)) ? "//" : "#";
}

struct Parts {
  std::string comments;  // without marks, lines joined by blanks
  std::string code;      // the rest, without #include lines
};
Parts parts_of(const std::string& path, const std::string& text) {
  const std::string mark = comment_mark(path);
  Parts parts;
  for (const std::string& line : lines_of(text)) {
    std::size_t at = line.find(mark);
    while (at != std::string::npos && at > 0 && line[at - 1] == ':') at = line.find(mark, at + 2);
    const std::string code = line.substr(0, at);
    if (code.find("#include") == std::string::npos) parts.code += code + '\n';
    if (at != std::string::npos) parts.comments += line.substr(at + mark.size()) + ' ';
  }
  return parts;
}

bool in_path(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '/' ||
         c == '-';
}

// Maximal runs of characters of paths, without stops at their end.
Lines words_of(const std::string& text) {
  Lines words;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && in_path(text[end])) ++end;
    std::string word = text.substr(i, end - i);
    while (ends_with(word, ".") || ends_with(word, "-")) word.pop_back();
    if (!word.empty()) words.push_back(word);
    i = std::max(end, i + 1);
  }
  return words;
}

bool is_placeholder(const std::string& word) {
  return word.find("NAME") != std::string::npos || word.find("XXX") != std::string::npos;
}

// Whether the word, found in the file `from`, cites something of the project that is not there.
bool is_missing(const Files& files, const std::string& from, const std::string& word) {
  const bool from_top = kTopFolders.count(word.substr(0, word.find('/'))) != 0;
  if (is_placeholder(word)) return false;
  if (ends_with(word, "/")) return from_top && !is_folder(files, word);
  if (!kEndings.count(ending_of(word))) return false;
  if (word.find('/') != std::string::npos && from_top) return !files.count(word);
  if (!ends_with(word, ".md") || word[0] == '/') return false;
  // Documents may name their neighbours; sources cite from the root.
  return !files.count(word) &&
         !(ending_of(from) == ".md" && files.count(joined_path(folder_of(from), word)));
}

// The same of a source's bare name: some folder has it.
bool is_missing_source(const Names& names, const std::string& word) {
  const bool source = kSources.count(ending_of(word)) != 0;
  return source && word.find('/') == std::string::npos && word[0] != '.' && word[0] != '_' &&
         !is_placeholder(word) && !names.count(word) && !kForeign.count(word);
}

// "3", "2.6" or "A" of "nn/METHODS.md, section 3" and the like; with "sections" the first one.
Lines cited_sections(const std::string& text) {
  Lines cited;
  const std::string name = "nn/METHODS.md";
  for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos;) {
    at += name.size();
    std::istringstream rest(text.substr(at, 40));
    std::string comma, kind, number;
    rest >> comma >> kind >> number;
    if (comma != "," || (kind != "section" && kind != "sections" && kind != "appendix")) continue;
    const auto end = std::find_if(number.begin(), number.end(),
                                  [](unsigned char c) { return !std::isalnum(c) && c != '.'; });
    number.erase(end, number.end());
    while (ends_with(number, ".")) number.pop_back();
    cited.push_back(number);
  }
  return cited;
}

bool has_section(const std::string& methods, std::string number) {
  std::transform(number.begin(), number.end(), number.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  const Lines headings = headings_of(methods);
  return std::any_of(headings.begin(), headings.end(), [&](const std::string& h) {
    return starts_with(h, number + ".") || starts_with(h, number + " ") ||
           starts_with(h, "Appendix " + number + ".");
  });
}

void check_paths(const Files& files, const std::string& path, const std::string& text,
                 Lines& faults) {
  for (const std::string& word : words_of(text))
    if (is_missing(files, path, word)) faults.push_back(path + ": there is no " + word);
}

void check_names(const Names& names, const std::string& path, const std::string& text,
                 Lines& faults) {
  for (const std::string& word : words_of(text))
    if (is_missing_source(names, word)) faults.push_back(path + ": there is no " + word);
}

void check_source(const Files& files, const Names& names, const std::string& path, Lines& faults) {
  const Parts parts = parts_of(path, files.at(path));
  check_paths(files, path, parts.comments, faults);
  check_names(names, path, parts.comments, faults);
  // Strings of tests are often paths made up for them.
  if (!starts_with(path, "tests/")) check_paths(files, path, parts.code, faults);
  const auto methods = files.find("nn/METHODS.md");
  for (const std::string& number : cited_sections(parts.comments))
    if (methods == files.end() || !has_section(methods->second, number))
      faults.push_back(path + ": nn/METHODS.md has no section " + number);
}

Lines faults_of(const Files& files) {
  Names names;
  for (const auto& file : files) names.insert(fs::path(file.first).filename().string());
  Lines faults;
  for (const auto& file : files) {
    const std::string& path = file.first;
    if (kOfMadeUpPaths.count(path)) continue;
    if (ending_of(path) == ".md") {
      check_links(files, path, faults);
      check_paths(files, path, file.second, faults);
      check_names(names, path, file.second, faults);
    } else {
      check_source(files, names, path, faults);
    }
  }
  return faults;
}

Files all_files() {
  const fs::path root = HG_SOURCE_DIR;
  Files files;
  const auto add = [&](const fs::directory_entry& entry) {
    if (!entry.is_regular_file() || entry.file_size() > 1'000'000) return;
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    files[entry.path().lexically_relative(root).generic_string()] = text.str();
  };
  for (const auto& entry : fs::directory_iterator(root)) add(entry);
  for (const std::string& folder : kTopFolders)
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) add(entry);
  return files;
}

std::string joined(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST_CASE("every link and every file that is cited exists") {
  const Files files = all_files();
  CHECK(files.count("README.md") == 1);
  CHECK(files.count("nn/METHODS.md") == 1);
  CHECK(joined(faults_of(files)) == "");
}

TEST_CASE("the checker finds links that lead nowhere") {
  Files files{{"README.md", "# A title, with `code`\n[a](nn/A.md) [b](nn/A.md#two-words)\n"},
              {"nn/A.md",
               "## Two words\n[up](../README.md#a-title-with-code) [here](#two-words)\n"
               "[out](https://example.com/x.md) [folder](../nn)\n"}};
  CHECK(joined(faults_of(files)) == "");
  files["nn/A.md"] += "[x](B.md) [y](#three) [z](../README.md#missing)\n```\n[no](C)\n```\n";
  CHECK(joined(faults_of(files)) ==
        "nn/A.md: no file for the link B.md\n"
        "nn/A.md: no heading for the link #three\n"
        "nn/A.md: no heading for the link ../README.md#missing\n"
        "nn/A.md: there is no B.md\n");
}

TEST_CASE("the checker finds files that are not there") {
  const Files files{
      {"README.md",
       "See nn/vit.h, `nn/gone.h`, tests/NAME.h, runs/x.md/config.toml and nn/old/.\n"},
      {"nn/vit.h",
       "// As METHODS.md says, nn/METHODS.md, section 2,\n// and in gone.inc, vit.h.\n"
       "const char* help = \"see DESIGN.md and data/gone.cpp\";\n"
       "#include \"nn/generated.h\"\n"},
      {"nn/METHODS.md", "## 1. One\n"},
      {"tests/a_test.cpp", "// train/gone.cpp\nopen(\"train/made_up.cpp\");\n"}};
  CHECK(joined(faults_of(files)) ==
        "README.md: there is no nn/gone.h\n"
        "README.md: there is no nn/old/\n"
        "nn/vit.h: there is no METHODS.md\n"
        "nn/vit.h: there is no gone.inc\n"
        "nn/vit.h: there is no DESIGN.md\n"
        "nn/vit.h: there is no data/gone.cpp\n"
        "nn/vit.h: nn/METHODS.md has no section 2\n"
        "tests/a_test.cpp: there is no train/gone.cpp\n");
}

TEST_CASE("the checker knows the sections of nn/METHODS.md") {
  Files files{{"nn/METHODS.md", "## 2. Attention\n### 2.6 Pruning\n## Appendix A. Exact counts\n"},
              {"nn/vit.h",
               "// (nn/METHODS.md, section\n// 2.6), nn/METHODS.md, appendix A.\n"
               "// nn/METHODS.md, sections 2 and 2.6, nn/METHODS.md alone\n"}};
  CHECK(joined(faults_of(files)) == "");
  files["nn/vit.h"] = "// nn/METHODS.md, section 2.7; nn/METHODS.md, appendix B\n";
  CHECK(joined(faults_of(files)) ==
        "nn/vit.h: nn/METHODS.md has no section 2.7\n"
        "nn/vit.h: nn/METHODS.md has no section B\n");
}

}  // namespace
}  // namespace hg::documents
