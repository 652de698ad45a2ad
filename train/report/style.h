// Style of all pages: one type scale, Okabe and Ito's colours (told apart by the colour-blind),
// light and dark, phone and paper.
#pragma once

#include <string_view>

namespace hg::report {

inline constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --paper: #fff; --card: #f6f7f9; --ink: #1b1f24; --soft: #59636e;
  --line: #d5dae0; --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7; --c4: #e69f00;
  --c5: #56b4e9; --c6: #8c8c8c; --c7: #5b5ea6; --heat: 0 114 178; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --card: #1d2126; --ink: #e8eaed;
  --soft: #a3acb6; --line: #3a424b; --c0: #4aa3dd; --c1: #f08a3c; --c2: #2fc79a; --c3: #dd94bd;
  --c4: #f0b93a; --c5: #8accf2; --c6: #9aa0a6; --c7: #9a9de0; --heat: 74 163 221; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 80rem; padding: 1.5rem 1rem 3rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--line);
  overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 0 0 .375rem; overflow-wrap: anywhere; }
p { margin: 0 0 .75rem; max-width: 60rem; overflow-wrap: anywhere; }
a { color: var(--c0); }
ul { padding-left: 1.25rem; } li { margin: 0 0 .375rem; max-width: 60rem; }
.soft, figcaption, .none { color: var(--soft); font-size: .8125rem; line-height: 1.45; }
figcaption { overflow-wrap: anywhere; max-width: 60rem; margin-top: .375rem; }
.lead { font-size: 1.0625rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr)); gap: .75rem;
  margin: 1.25rem 0; padding: 0; list-style: none; }
.cards li { background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
  padding: .75rem .875rem; margin: 0; min-width: 0; }
.cards b { display: block; font-size: 1.25rem; line-height: 1.3; font-weight: 600;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.cards span { display: block; font-size: .8125rem; color: var(--soft); overflow-wrap: anywhere; }
.cards span.name { color: var(--ink); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr));
  gap: 2rem 1.5rem; align-items: start; }
.broad { grid-template-columns: repeat(auto-fit, minmax(min(28rem, 100%), 1fr)); }
figure { margin: 0 0 2rem; min-width: 0; }
.charts { margin-bottom: 2rem; } .charts figure { margin: 0; }
.chart { max-width: 36rem; }
svg { display: block; width: 100%; height: auto; font: 12.5px system-ui, "DejaVu Sans", sans-serif;
  font-variant-numeric: tabular-nums; }
svg text { fill: var(--ink); }
.axis text { fill: var(--soft); font-size: 12px; }
.grid { stroke: var(--line); } .base, .tick { stroke: var(--soft); }
.line { fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round; }
.dot { fill: currentColor; } .hit { fill: transparent; } .faint { opacity: .45; }
.band { fill: currentColor; opacity: .16; }
.mark { fill: currentColor; stroke: var(--paper); stroke-width: 2; }
.label { font-size: 12px; font-weight: 600; paint-order: stroke; stroke: var(--paper); stroke-width: 4px;
  stroke-linejoin: round; }
.front { fill: none; stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 5 4; opacity: .8; }
.beaten { fill: var(--ink); opacity: .05; }
.s1 .line { stroke-dasharray: 7 3; } .s2 .line { stroke-dasharray: 2 3; }
.s3 .line { stroke-dasharray: 9 3 2 3; }
.s0 { color: var(--c0); } .s1 { color: var(--c1); } .s2 { color: var(--c2); } .s3 { color: var(--c3); }
.s4 { color: var(--c4); } .s5 { color: var(--c5); } .s6 { color: var(--c6); } .s7 { color: var(--c7); }
.b0 { fill: var(--c0); background: var(--c0); } .b1 { fill: var(--c1); background: var(--c1); }
.b2 { fill: var(--c2); background: var(--c2); } .b3 { fill: var(--c3); background: var(--c3); }
.b4 { fill: var(--c4); background: var(--c4); } .b5 { fill: var(--c5); background: var(--c5); }
.b6 { fill: var(--c6); background: var(--c6); } .b7 { fill: var(--c7); background: var(--c7); }
.whisker { fill: none; stroke: var(--ink); stroke-width: 1.5; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: 0 0 .375rem; padding: 0;
  list-style: none; font-size: .8125rem; }
.legend li { overflow-wrap: anywhere; min-width: 0; margin: 0; }
.swatch { display: inline-block; width: .75rem; height: .75rem; border-radius: 2px;
  margin-right: .375rem; vertical-align: -1px; }
.stacked { margin: .25rem 0; }
.stack { height: 2.25rem; border-radius: .25rem; margin-bottom: .5rem; }
.wide { overflow-x: auto; }
.tools { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center; margin-bottom: .5rem;
  font-size: .8125rem; color: var(--soft); }
.tools input { font: inherit; color: var(--ink); background: var(--card); padding: .25rem .5rem;
  border: 1px solid var(--line); border-radius: .375rem; width: 15rem; max-width: 100%; }
.tools button { font: inherit; color: var(--c0); background: none; border: 0; cursor: pointer; padding: 0; }
.flame { position: relative; overflow: hidden; font: 12px/19px ui-monospace, "DejaVu Sans Mono", monospace; }
.flame i { position: absolute; height: 19px; padding: 0 3px; overflow: hidden; white-space: nowrap;
  text-overflow: ellipsis; font-style: normal; color: #14171b; border-right: 1px solid var(--paper);
  border-radius: 2px; cursor: pointer; }
.flame i.thin { padding: 0; text-overflow: clip; }
.searched i:not(.found) { opacity: .3; }
.f0 { background: #c7ced6; } .f1 { background: #9cc7e4; } .f2 { background: #f4cf86; }
.f3 { background: #a5d8c5; } .f4 { background: #e7bcd4; } .f5 { background: #f2b48c; }
table { border-collapse: collapse; width: 100%; font-size: .8125rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .5rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; }
th { color: var(--soft); font-weight: 600; white-space: normal; vertical-align: bottom; }
tbody tr:hover { background: var(--card); }
.text { text-align: left; }
td.text { white-space: normal; overflow-wrap: anywhere; min-width: 7.5rem; }
td.text small, td small { color: var(--soft); font-size: .75rem; }
td.text small { display: block; }
.values td { white-space: normal; overflow-wrap: anywhere; text-align: left; vertical-align: top; }
.values th { text-align: left; overflow-wrap: anywhere; } .values tbody th { white-space: nowrap; vertical-align: top; }
.values { width: auto; max-width: 100%; }
.matrix { width: auto; } .matrix td { text-align: center; min-width: 2.5rem; padding: .25rem .375rem; }
.matrix th { font-weight: 400; } .matrix thead th { text-align: center; }
.matrix tbody th { text-align: right; white-space: nowrap; }
th button { all: unset; cursor: pointer; } th button:focus-visible { outline: 2px solid var(--c0); }
th[aria-sort="descending"] button::after { content: " \2193"; }
th[aria-sort="ascending"] button::after { content: " \2191"; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .8125rem; background: var(--card);
  border: 1px solid var(--line); border-radius: .5rem; padding: .75rem; }
code { overflow-wrap: anywhere; }
summary { cursor: pointer; overflow-wrap: anywhere; } details { margin: 0 0 .5rem; }
details.run { border-top: 1px solid var(--line); padding-top: .75rem; margin-top: .75rem; }
details.run > summary { font-size: 1.125rem; font-weight: 600; }
#live { color: var(--soft); font-size: .8125rem; }
#tip { position: fixed; z-index: 1; max-width: min(22rem, 90vw); padding: .375rem .625rem;
  background: var(--ink); color: var(--paper); border-radius: .375rem; font-size: .8125rem;
  pointer-events: none; overflow-wrap: anywhere; }
@media print { body { max-width: none; padding: 0; font-size: 10pt; } #tip, .tools { display: none; }
  .wide { overflow: visible; } th, td { white-space: normal; }
  figure, .cards li, tr { break-inside: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
)";

}  // namespace hg::report
