#include "tensor/base/text.h"

#include <doctest/doctest.h>

#include "tensor/base/clock.h"
#include "tensor/base/process.h"

using namespace hg;

TEST_CASE("foreign text is shown on one line") {
  CHECK(printable("a\nb\xff") == "a\\x0ab\\xff");
  CHECK(printable(std::string(200, 'x')).size() == 103);
  CHECK(excerpt("a\tb") == "\"a\\x09b\"");
  CHECK(escape_html("<a href=\"x\">'&'</a>") ==
        "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
}

TEST_CASE("names from files keep their letters and lose what a terminal would obey") {
  CHECK(printable_utf8("caf\u00e9 \u4e2d \U0001f600") == "caf\u00e9 \u4e2d \U0001f600");
  CHECK(printable_utf8("\x1b[31mred\x7f") == "\\x1b[31mred\\x7f");
  CHECK(printable_utf8("\xc2\x9b"
                       "2J") ==
        "\\xc2\\x9b"
        "2J");  // U+009B, as good as ESC [
  CHECK(printable_utf8("a\xff\xc3") == "a\\xff\\xc3");
  CHECK(printable_utf8("\xc0\xaf\xed\xa0\x80") ==
        "\\xc0\\xaf\\xed\\xa0\\x80");  // overlong, surrogate
}

TEST_CASE("the nearest name is the one with the fewest changes") {
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("epcohs", "epochs") == 1);
  CHECK(nearest("shape", {"cifar10", "shapes"}) == "shapes");
  CHECK(nearest("x", {}) == "");
}

TEST_CASE("text is taken apart") {
  using Parts = std::vector<std::string_view>;
  CHECK(trimmed(" \ta b\r\n") == "a b");
  CHECK(trimmed(" \n") == "");
  CHECK(split("a,b,,c", ',') == Parts{"a", "b", "", "c"});
  CHECK(split("", ',') == Parts{""});
  CHECK(words(" a  bc ") == Parts{"a", "bc"});
}

TEST_CASE("a number is all of its text") {
  CHECK(parse_number<int>("12") == 12);
  CHECK(parse_number<double>("1e-3") == 1e-3);
  for (const char* text : {"", " 1", "1 ", "+1", "0x1", "1.5", "x", "99999999999999999999"}) {
    INFO(text);
    CHECK_FALSE(parse_number<std::int64_t>(text));
  }
  CHECK_FALSE(parse_number<std::uint64_t>("-1"));
}

TEST_CASE("figures get a prefix and three digits") {
  CHECK(with_prefix(0, "J") == "0 J");
  CHECK(with_prefix(12340, "J") == "12.3 kJ");
  CHECK(with_prefix(999.6, "J") == "1.00 kJ");
  CHECK(with_prefix(1, "W") == "1.00 W");
  CHECK(with_prefix(0.000123, "g") == "123 ug");
  CHECK(with_prefix(-1500, "J") == "-1.50 kJ");
  CHECK(with_prefix(4.5e14, "FLOP") == "450 TFLOP");
  CHECK(with_prefix(Interval{30, 20, 4500}, "J") == "30.0 J (20.0 J to 4.50 kJ)");
}

TEST_CASE("durations are short") {
  CHECK(format_duration(7.2) == "7 s");
  CHECK(format_duration(59.7) == "1:00");
  CHECK(format_duration(125) == "2:05");
  CHECK(format_duration(3725) == "1:02:05");
  CHECK(format_duration(-1) == "?");
  CHECK(format_duration(1e300) == "?");
}

TEST_CASE("the process knows its time and memory") {
  const std::int64_t start = now_ns(), cpu = process_cpu_ns(), own = thread_cpu_ns();
  volatile double x = 1;
  while (thread_cpu_ns() - own < 2'000'000) x = x * 1.0000001;
  CHECK(seconds_since(start) >= 0.002);
  CHECK(process_cpu_ns() - cpu >= 2'000'000);
  CHECK(peak_rss_bytes() > 1'000'000);
  const MachineMemory memory = machine_memory();
  CHECK(memory.used_bytes > 1e6);
  CHECK(memory.total_bytes > memory.used_bytes);
}
