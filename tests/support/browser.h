// Pages in a real browser, where there is one.
#pragma once

#include <string>

namespace hg::testing {

// Chromium or Chrome; "": there is none.
std::string browser();

struct Seen {
  int code = -1;
  std::string console;  // what scripts complained of; empty: nothing
  std::string dom;
  int width = 0;        // of the window
  int page_width = 0;   // of what is in it
  std::string outside;  // elements that stick out of the window; empty: none
  int scrolled = 0;     // tables that are wider than their place, and scroll in it
  // What the page's script did: sorted a table, zoomed and searched a flame graph.
  int sorted = 0, zoomed = 0, found = 0;
};

// Opens the HTML in a window of so many pixels, unfolds all details, sorts a table, zooms and
// searches a flame graph.
Seen look_at(const std::string& html, int width);

// Opens the address for so many seconds of the page's time.
Seen visit(const std::string& url, int seconds);

}  // namespace hg::testing
