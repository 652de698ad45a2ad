// Charts as inline SVG, coloured by the page's classes s0 .. s7. Titles and legends are HTML around
// the drawing. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tensor/base/text.h"

namespace hg::report {

inline constexpr std::size_t kSeriesColors = 8;

struct Point {
  double x = 0, y = 0;
  std::string note;  // shown on pointing at it
};

// Between which the values of several runs lie.
struct Spread {
  double x = 0, low = 0, high = 0;
};

enum class Draw {
  line_and_dots,
  line,   // pointing at it shows notes as well
  dots,   // faint, as there are many
  marks,  // large dots with the series's name beside them
  front   // the edge of what these points, by rising x, are not beaten by: up and left is better
};

struct Series {
  std::string name;
  std::vector<Point> points;
  Draw draw = Draw::line_and_dots;
  std::optional<std::size_t> color{};  // none: by its place among the series
  std::vector<Spread> spread{};        // a band behind the line
};

struct Axes {
  std::string x, y;      // names, with their units
  bool whole_x = false;  // ticks at whole numbers only
  bool x_from_zero = false, y_from_zero = false;
};

// Ticks at multiples of 1, 2 or 5 times a power of ten, at most `most`, all within [low, high].
std::vector<double> ticks(double low, double high, int most, bool whole = false);

std::string line_chart(const Axes& axes, const std::vector<Series>& series);
// With the names above, if there are several.
std::string chart_with_legend(const Axes& axes, const std::vector<Series>& series);
// At most so many points: means of as many neighbours each. Notes are those of the last.
std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most);
std::string legend(const std::vector<std::string>& names);

// A bar for each value, with its interval as a whisker.
struct Bar {
  std::string name, text;  // beside it
  Interval interval;
  std::size_t color = 0;
};
std::string bar_chart(const std::string& label, const std::vector<Bar>& bars);

// The same with a dot for each value, which may be negative, and a line at 0.
std::string interval_chart(const std::string& label, const std::vector<Bar>& bars);

// What energies are drawn in, so that ticks are short.
struct Unit {
  double scale = 1;
  const char* name = "J";
};
Unit energy_unit(double most_j);

// One bar in parts; their names and figures belong into a table below.
struct Part {
  std::string name, note;
  double value = 0;
  std::size_t color = 0;
};
std::string stacked_bar(const std::string& label, const std::vector<Part>& parts);

}  // namespace hg::report
