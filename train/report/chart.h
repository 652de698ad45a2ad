// Charts as inline SVG, coloured by the page's classes s0 .. s7. Text keeps its distance: titles
// and legends are HTML around the drawing. Pure.
#pragma once

#include <string>
#include <vector>

#include "tensor/base/text.h"

namespace hg::report {

inline constexpr std::size_t kSeriesColors = 8;

struct Point {
  double x = 0, y = 0;
  std::string note;  // shown on pointing at it
};

struct Series {
  std::string name;
  std::vector<Point> points;
  bool line = true, dots = true;
};

struct Axes {
  std::string x, y;      // names, with their units
  bool whole_x = false;  // ticks at whole numbers only
  bool x_from_zero = false;
};

// Ticks at multiples of 1, 2 or 5 times a power of ten, at most `most`, all within [low, high].
std::vector<double> ticks(double low, double high, int most, bool whole = false);

std::string line_chart(const Axes& axes, const std::vector<Series>& series);
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

// One bar in parts; their names and figures belong into a table below.
struct Part {
  std::string name, note;
  double value = 0;
  std::size_t color = 0;
};
std::string stacked_bar(const std::string& label, const std::vector<Part>& parts);

}  // namespace hg::report
