// Man pages and completion, where man and the shells look for them once they are installed.
#include <doctest/doctest.h>
#include <unistd.h>

#include "tests/train/cli/programs.h"

using namespace hg::testing;

TEST_CASE("man pages and completion are installed in their places") {
  const TempFolder folder;
  for (const auto& [program, room] : {std::pair{"hgtrain", "train"}, {"hgprof", "tools"}}) {
    const std::string name = program, share = folder / "share/";
    const Outcome done =
        run_tool(HG_CMAKE, {"-DCMAKE_INSTALL_PREFIX=" + folder.path(), "-P",
                            std::string(HG_BINARY_DIR) + "/" + room + "/cmake_install.cmake"});
    INFO(done.err);
    REQUIRE(done.code == 0);
    const auto holds = [&](const std::string& path, const Arguments& arguments) {
      INFO(path);
      CHECK(contents_of(share + path) == run_program(name, arguments).out);
    };
    holds("man/man1/" + name + ".1", {"man"});
    holds("bash-completion/completions/" + name, {"completion", "bash"});
    holds("zsh/site-functions/_" + name, {"completion", "zsh"});
    holds("fish/vendor_completions.d/" + name + ".fish", {"completion", "fish"});
  }
}
