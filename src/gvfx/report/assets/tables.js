// Tables and rows of pictures.

function table(item) {
  const numeric = item.columns.map((_, c) => {
    const filled = item.rows.map((row) => row[c].trim()).filter((cell) => /[^\s\u2013\u2014-]/.test(cell));
    return 2 * filled.filter((cell) => /^[<>\u2264\u2265\u2248~(]*\s*[+\-\u2212\u00b1]?(\.?\d|inf|nan)/i.test(cell)).length > filled.length;
  });
  const best = new Set((item.best || []).map(([row, column]) => `${row},${column}`));
  const kind = (c) => (numeric[c] ? "number" : "");
  const cell = (text, r, c) => {
    const top = best.has(`${r},${c}`);
    const attributes = { class: `${kind(c)} ${top ? "best" : ""}`.trim() || null, scope: c === 0 && !numeric[0] ? "row" : null };
    return h(attributes.scope ? "th" : "td", attributes, top ? h("strong", null, text) : text);
  };
  const grid = h("table", { "aria-labelledby": idOf(item) },
    h("thead", null, h("tr", null, item.columns.map((name, c) => h("th", { scope: "col", class: kind(c) || null }, name)))),
    h("tbody", null, item.rows.map((row, r) => h("tr", null, row.map((text, c) => cell(text, r, c))))));
  const scroll = h("div", { class: "scroll", role: "region", "aria-labelledby": idOf(item) }, grid);
  onResize(scroll, () => { // only a table that scrolls needs a place in the tab order
    if (scroll.scrollWidth > scroll.clientWidth) scroll.tabIndex = 0;
    else scroll.removeAttribute("tabindex");
  });
  return frame(item, [copyButton(() => [item.columns, ...item.rows])], scroll);
}

function pictures(item) {
  const row = ([name, images]) => h("tr", null, h("th", { scope: "row" }, name),
    images.map((source, c) => h("td", null, h("img", { src: source, alt: `${name}, ${item.columns[c]}`, loading: "lazy" }))));
  const grid = h("table", { class: "pictures", "aria-labelledby": idOf(item) },
    h("thead", null, h("tr", null, h("td", null), item.columns.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", null, item.rows.map(row)));
  return frame(item, [], h("div", { class: "scroll", role: "region", tabindex: "0", "aria-labelledby": idOf(item) }, grid));
}
