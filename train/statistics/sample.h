// What a sample of repeated runs says about itself: location, spread, ranks.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace hg::statistics {

using Sample = std::span<const double>;

struct Interval {
  double low = 0, high = 0;
};

// Throws unless the sample has at least `at_least` values, all finite. `who` opens the message.
void require_sample(Sample x, std::size_t at_least, std::string_view who);
bool constant(Sample x);

double mean(Sample x);                             // 1 value or more
double variance(Sample x);                         // divides by n - 1; 2 values or more
double standard_deviation(Sample x);               // 2 values or more
double quantile_sorted(Sample x, double share);    // x ascending; linear between order statistics
double median(Sample x);                           // 1 value or more
double relative_range(Sample x);                   // largest - smallest, over the median
Interval quartiles(Sample x);                      // the interquartile range is high - low
Interval t_interval(Sample x, double confidence);  // of the mean; 2 values or more

// Of the median, from order statistics: it assumes nothing of the distribution, and single values
// far off don't move it. None where even the whole range has less confidence (95 %: below 6
// values).
std::optional<Interval> median_interval(Sample x, double confidence);

// Ranks from 1, tied values sharing the mean of theirs.
struct Ranks {
  std::vector<double> of;  // in the order of the sample
  double tie_term = 0;     // sum of t^3 - t over groups of t equal values; 0 without ties
};
Ranks mid_ranks(Sample x);

}  // namespace hg::statistics
