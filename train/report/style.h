// Style and script of the report: one type scale, Okabe and Ito's colours (told apart by the
// colour-blind), light and dark, phone and paper.
#pragma once

#include <string_view>

namespace hg::report {

inline constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --paper: #fff; --card: #f6f7f9; --ink: #1b1f24; --soft: #59636e;
  --line: #d5dae0; --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7; --c4: #e69f00;
  --c5: #56b4e9; --c6: #8c8c8c; --c7: #5b5ea6; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --card: #1d2126; --ink: #e8eaed;
  --soft: #a3acb6; --line: #3a424b; --c0: #4aa3dd; --c1: #f08a3c; --c2: #2fc79a; --c3: #dd94bd;
  --c4: #f0b93a; --c5: #8accf2; --c6: #9aa0a6; --c7: #9a9de0; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 80rem; padding: 1.5rem 1rem 3rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 0 0 .25rem; }
p { margin: 0 0 .75rem; }
.soft, figcaption, .none { color: var(--soft); font-size: .8125rem; line-height: 1.45; }
.soft, figcaption { overflow-wrap: anywhere; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); gap: .75rem;
  margin: 1.25rem 0; padding: 0; list-style: none; }
.cards li { background: var(--card); border: 1px solid var(--line); border-radius: .5rem;
  padding: .75rem .875rem; }
.cards b { display: block; font-size: 1.375rem; line-height: 1.3; font-weight: 600; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
.cards span { display: block; font-size: .8125rem; color: var(--soft); overflow-wrap: anywhere; }
.cards span.name { color: var(--ink); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr));
  gap: 1.5rem; align-items: start; }
figure { margin: 0 0 2rem; min-width: 0; }
.charts figure { margin: 0; }
.chart { max-width: 36rem; }
figcaption { margin-top: .375rem; }
svg { display: block; width: 100%; height: auto; font: 12.5px system-ui, "DejaVu Sans", sans-serif;
  font-variant-numeric: tabular-nums; }
svg text { fill: var(--ink); }
.axis text { fill: var(--soft); font-size: 12px; }
.grid { stroke: var(--line); } .base, .tick { stroke: var(--soft); }
.line { fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round; }
.dot { fill: currentColor; } .hit { fill: transparent; }
.s1 .line { stroke-dasharray: 7 3; } .s2 .line { stroke-dasharray: 2 3; }
.s3 .line { stroke-dasharray: 9 3 2 3; }
.s0 { color: var(--c0); } .s1 { color: var(--c1); } .s2 { color: var(--c2); } .s3 { color: var(--c3); }
.s4 { color: var(--c4); } .s5 { color: var(--c5); } .s6 { color: var(--c6); } .s7 { color: var(--c7); }
.b0 { fill: var(--c0); background: var(--c0); } .b1 { fill: var(--c1); background: var(--c1); }
.b2 { fill: var(--c2); background: var(--c2); } .b3 { fill: var(--c3); background: var(--c3); }
.b4 { fill: var(--c4); background: var(--c4); } .b5 { fill: var(--c5); background: var(--c5); }
.b6 { fill: var(--c6); background: var(--c6); } .b7 { fill: var(--c7); background: var(--c7); }
.whisker { fill: none; stroke: var(--ink); stroke-width: 1.5; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: 0 0 .25rem; padding: 0;
  list-style: none; font-size: .8125rem; }
.legend li { overflow-wrap: anywhere; min-width: 0; }
.swatch { display: inline-block; width: .75rem; height: .75rem; border-radius: 2px;
  margin-right: .375rem; vertical-align: -1px; }
.stack { height: 2.25rem; border-radius: .25rem; margin-bottom: .5rem; }
.wide { overflow-x: auto; }
.wide .flame { min-width: 46rem; font: 12px ui-monospace, "DejaVu Sans Mono", monospace; }
.flame text { fill: #14171b; pointer-events: none; }
.f0 { fill: #c7ced6; } .f1 { fill: #9cc7e4; } .f2 { fill: #f4cf86; } .f3 { fill: #a5d8c5; }
.f4 { fill: #e7bcd4; } .f5 { fill: #f2b48c; }
table { border-collapse: collapse; width: 100%; font-size: .875rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .625rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; }
th { color: var(--soft); font-weight: 600; }
.text { text-align: left; }
th button { all: unset; cursor: pointer; } th button:focus-visible { outline: 2px solid var(--c0); }
th[aria-sort="descending"] button::after { content: " \2193"; }
th[aria-sort="ascending"] button::after { content: " \2191"; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .8125rem; background: var(--card);
  border: 1px solid var(--line); border-radius: .5rem; padding: .75rem; }
summary { cursor: pointer; }
#tip { position: fixed; z-index: 1; max-width: min(22rem, 90vw); padding: .375rem .625rem;
  background: var(--ink); color: var(--paper); border-radius: .375rem; font-size: .8125rem;
  pointer-events: none; overflow-wrap: anywhere; }
@media print { body { max-width: none; padding: 0; font-size: 10pt; } #tip { display: none; }
  .wide { overflow: visible; } .wide .flame { min-width: 0; } th, td { white-space: normal; }
  figure, .cards li, tr { break-inside: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
)";

// Shows titles at the pointer, which phones do not, and sorts tables by the column clicked.
inline constexpr std::string_view kScript = R"(
(() => {
  const tip = document.createElement('div');
  tip.id = 'tip'; tip.hidden = true; document.body.append(tip);
  for (const title of document.querySelectorAll('svg title')) {
    title.parentNode.dataset.tip = title.textContent; title.remove();
  }
  const show = event => {
    const frame = event.target.closest && event.target.closest('[data-tip]');
    tip.hidden = !frame;
    if (!frame) return;
    tip.textContent = frame.dataset.tip;
    const x = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8);
    const below = event.clientY + 18;
    const fits = below + tip.offsetHeight < innerHeight;
    tip.style.left = Math.max(8, x) + 'px';
    tip.style.top = (fits ? below : event.clientY - tip.offsetHeight - 12) + 'px';
  };
  addEventListener('pointermove', show);
  addEventListener('pointerdown', show);
  for (const button of document.querySelectorAll('th button')) button.onclick = () => {
    const head = button.parentNode, body = head.closest('table').tBodies[0];
    const up = head.getAttribute('aria-sort') === 'descending';
    for (const other of head.parentNode.children) other.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
    const key = row => row.cells[head.cellIndex].dataset.v ?? row.cells[head.cellIndex].textContent;
    const order = (a, b) => isNaN(a) || isNaN(b) ? String(a).localeCompare(b) : a - b;
    body.append(...[...body.rows].sort((a, b) => (up ? 1 : -1) * order(key(a), key(b))));
  };
})();
)";

}  // namespace hg::report
