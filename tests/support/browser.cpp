#include "tests/support/browser.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tensor/base/text.h"
#include "tests/support/program.h"

namespace hg::testing {
namespace {

// Goes to the end of a page and leaves what it found in attributes of <html>.
constexpr const char* kProbe = R"(<script>
(() => {
  const all = selector => [...document.querySelectorAll(selector)], seen = document.documentElement;
  for (const folded of all('details')) folded.open = true;
  const width = seen.clientWidth, put = (name, value) => seen.setAttribute('seen-' + name, value);
  put('width', innerWidth);
  put('page', seen.scrollWidth);
  const scrolls = element => element.parentElement.closest('.wide, svg, .flame, .stack');
  put('outside', all('body *').filter(element => !scrolls(element) &&
    element.getBoundingClientRect().right > width + 1).map(element => element.tagName).join(' '));
  put('scrolled', all('.wide').filter(box => box.scrollWidth > box.clientWidth + 1).length);
  const button = document.querySelector('th button');
  if (button) button.click();
  put('sorted', all('th[aria-sort]').length);
  const frame = document.querySelector('.flame i:nth-child(4)');
  if (frame) {
    frame.click();
    put('zoomed', all('.tools button:not([hidden])').length);
    const input = document.querySelector('.tools input');
    input.value = 'QKV';
    input.dispatchEvent(new Event('input', { bubbles: true }));
    put('found', all('.flame i.found').length);
  }
})();
</script>)";

std::string attribute(const std::string& dom, const std::string& name) {
  const std::string start = "seen-" + name + "=\"";
  const std::size_t at = dom.find(start);
  if (at == std::string::npos) return "";
  const std::size_t from = at + start.size();
  return dom.substr(from, dom.find('"', from) - from);
}

int number(const std::string& dom, const std::string& name) {
  return parse_number<int>(attribute(dom, name)).value_or(0);
}

Seen open_page(const Arguments& how, const std::string& url) {
  const TempFolder profile;
  ChildOptions options;
  options.program = browser();
  const Outcome shown = Child(Arguments{"--headless=new", "--no-sandbox", "--disable-gpu",
                                        "--hide-scrollbars", "--enable-logging=stderr",
                                        "--user-data-dir=" + profile.path(), "--dump-dom"} +
                                  how + Arguments{url},
                              options)
                            .wait();
  Seen seen;
  seen.code = shown.code;
  seen.dom = shown.out;
  for (const std::string& line : lines_of(shown.err))
    if (line.find("CONSOLE") != std::string::npos) seen.console += line + "\n";
  return seen;
}

}  // namespace

std::string browser() {
  for (const char* path :
       {"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"})
    if (exists(path)) return path;
  return "";
}

Seen look_at(const std::string& html, int width) {
  const TempFolder folder;
  const std::string path = folder / "page.html";
  put(path, html + kProbe);
  Seen seen = open_page({fmt::format("--window-size={},1000", width)}, "file://" + path);
  seen.width = number(seen.dom, "width");
  seen.page_width = number(seen.dom, "page");
  seen.outside = attribute(seen.dom, "outside");
  seen.scrolled = number(seen.dom, "scrolled");
  seen.sorted = number(seen.dom, "sorted");
  seen.zoomed = number(seen.dom, "zoomed");
  seen.found = number(seen.dom, "found");
  return seen;
}

Seen visit(const std::string& url, int seconds) {
  return open_page({fmt::format("--virtual-time-budget={}", 1000 * seconds)}, url);
}

}  // namespace hg::testing
