// Script of all pages. It shows titles at the pointer, which phones do not, sorts tables by the
// column clicked, zooms and searches flame graphs, and keeps a live page up to date. Events are
// caught at the document, as a live page exchanges its contents.
#pragma once

#include <string_view>

namespace hg::report {

inline constexpr std::string_view kScript = R"(
(() => {
  const tip = document.createElement('div');
  tip.id = 'tip'; tip.hidden = true; document.body.append(tip);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const at = (event, selector) => event.target.closest && event.target.closest(selector);

  const prepare = () => {
    for (const title of all('svg title')) {
      title.parentNode.dataset.tip = title.textContent; title.remove();
    }
    for (const frame of all('.flame i')) {
      frame.dataset.tip = frame.title; frame.removeAttribute('title');
      frame.x = parseFloat(frame.style.left); frame.w = parseFloat(frame.style.width);
    }
  };

  const show = event => {
    const shown = at(event, '[data-tip]');
    tip.hidden = !shown;
    if (!shown) return;
    tip.textContent = shown.dataset.tip;
    const x = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8);
    const below = event.clientY + 18;
    const fits = below + tip.offsetHeight < innerHeight;
    tip.style.left = Math.max(8, x) + 'px';
    tip.style.top = (fits ? below : event.clientY - tip.offsetHeight - 12) + 'px';
  };
  addEventListener('pointermove', show);
  addEventListener('pointerdown', show);

  const sort = (head, up) => {
    const body = head.closest('table').tBodies[0];
    for (const other of head.parentNode.children) other.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
    const key = row => row.cells[head.cellIndex].dataset.v ?? row.cells[head.cellIndex].textContent;
    const order = (a, b) => isNaN(a) || isNaN(b) ? String(a).localeCompare(b) : a - b;
    body.append(...[...body.rows].sort((a, b) => (up ? 1 : -1) * order(key(a), key(b))));
  };

  const zoom = (flame, from) => {
    for (const frame of flame.children) {
      const left = Math.max(0, (frame.x - from.x) / from.w * 100);
      const right = Math.min(100, (frame.x + frame.w - from.x) / from.w * 100);
      frame.hidden = right - left < 0.01;
      frame.style.left = left + '%'; frame.style.width = right - left + '%';
      frame.classList.toggle('thin', right - left < 1);
    }
    flame.previousElementSibling.querySelector('button').hidden = from.w > 99.9;
  };

  const search = input => {
    const flame = input.closest('.tools').nextElementSibling, wanted = input.value.toLowerCase();
    let share = 0, found = 0, end = -1;
    for (const frame of flame.children) {
      const name = frame.dataset.tip.split(': ')[0].toLowerCase();
      const hit = wanted !== '' && name.includes(wanted);
      frame.classList.toggle('found', hit);
      if (!hit) continue;
      found++;
      if (frame.x >= end - 1e-6) { share += frame.w; end = frame.x + frame.w; }
    }
    flame.classList.toggle('searched', wanted !== '');
    input.nextElementSibling.textContent =
      wanted === '' ? '' : `${found} found, ${share.toFixed(1)} % of the energy`;
  };

  addEventListener('click', event => {
    const button = at(event, 'th button'), frame = at(event, '.flame i');
    const whole = at(event, '.tools button');
    if (button) {
      sort(button.parentNode, button.parentNode.getAttribute('aria-sort') === 'descending');
    }
    if (frame) zoom(frame.parentNode, frame);
    if (whole) zoom(whole.parentNode.nextElementSibling, { x: 0, w: 100 });
  });
  addEventListener('input', event => { if (at(event, '.tools input')) search(event.target); });
  prepare();

  const live = document.querySelector('#live');
  if (!live) return;
  const main = () => document.querySelector('main');
  // What the reader opened or sorted stays so. While a flame graph is zoomed or searched, or text
  // is marked, nothing moves.
  const exchange = next => {
    const opened = all('details[open] > summary').map(summary => summary.textContent);
    const sorted = all('table').map(table => table.querySelector('th[aria-sort]'));
    main().replaceWith(next);
    prepare();
    for (const summary of all('details > summary'))
      if (opened.includes(summary.textContent)) summary.parentNode.open = true;
    all('table').forEach((table, i) => {
      const head = sorted[i] && table.rows[0].cells[sorted[i].cellIndex];
      if (head) sort(head, sorted[i].getAttribute('aria-sort') === 'ascending');
    });
  };
  let last = '';
  const update = async () => {
    try {
      const answer = await fetch(location.href);
      const text = await answer.text();
      if (!answer.ok) throw new Error(text);
      const busy = all('.tools button:not([hidden]), .flame.searched').length ||
        !getSelection().isCollapsed;
      live.textContent = busy ? 'Updates wait while a flame graph or text is in use.'
                              : 'Updated ' + new Date().toLocaleTimeString() + '.';
      if (busy || text === last) return;
      last = text;
      exchange(new DOMParser().parseFromString(text, 'text/html').querySelector('main'));
    } catch (error) {
      live.textContent = 'No longer updated: hgtrain watch does not answer.';
    }
  };
  setInterval(update, 2000);
})();
)";

}  // namespace hg::report
