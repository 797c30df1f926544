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
  const lines = item.rows.map((row, r) => h("tr", null, row.map((text, c) => cell(text, r, c))));
  const body = h("tbody", null, lines);
  const heads = item.columns.map((name, c) => h("th", { scope: "col", class: kind(c) || null },
    lines.length > 2 ? h("button", { type: "button", onclick: () => sort(c) }, name) : name));
  const grid = h("table", { "aria-labelledby": idOf(item) }, h("thead", null, h("tr", null, heads)), body);
  function sort(c) { // by a column: numbers from the largest, text from A; again: the other way round
    const before = heads[c].getAttribute("aria-sort");
    const up = before ? before !== "ascending" : !numeric[c];
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[c].setAttribute("aria-sort", up ? "ascending" : "descending");
    const order = item.rows.map((row, r) => [row[c], r]).sort(([a, r], [b, q]) => compareCells(a, b, numeric[c], up) || r - q);
    body.replaceChildren(...order.map(([, r]) => lines[r]));
  }
  const scroll = h("div", { class: "scroll", role: "region", "aria-labelledby": idOf(item) }, grid);
  onResize(scroll, () => { // only a table that scrolls needs a place in the tab order
    if (scroll.scrollWidth > scroll.clientWidth) scroll.tabIndex = 0;
    else scroll.removeAttribute("tabindex");
  });
  return frame(item, [copyButton(() => [item.columns, ...item.rows])], scroll);
}

function compareCells(a, b, numeric, up) { // cells without a number come last
  if (!numeric) return up ? a.localeCompare(b) : b.localeCompare(a);
  const [x, y] = [a, b].map((text) => parseFloat(text.replace(/[^\d.+\-\u2212ea-z]/gi, "").replace("\u2212", "-")));
  if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
  return up ? x - y : y - x;
}

function pictures(item) {
  const row = ([name, images]) => h("tr", null, h("th", { scope: "row" }, name),
    images.map((source, c) => h("td", null, h("img", { src: source, alt: `${name}, ${item.columns[c]}`, loading: "lazy" }))));
  const grid = h("table", { class: "pictures", "aria-labelledby": idOf(item) },
    h("thead", null, h("tr", null, h("td", null), item.columns.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", null, item.rows.map(row)));
  const film = item.film ? h("img", { src: item.film, class: "film", alt: `${item.title}: film`, loading: "lazy" }) : null;
  return frame(item, [], h("div", { class: "scroll", role: "region", tabindex: "0", "aria-labelledby": idOf(item) }, grid, film));
}
