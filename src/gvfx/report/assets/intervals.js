// Values with their intervals, one row each, as in a forest plot; a panel beside another where there is room.

const ROW = 26; // height of a row

function intervals(item) {
  const rows = () => [["panel", "name", "value", "low", "high", "truth"],
    ...item.panels.flatMap((panel) => panel.rows.map((row) => [panel.title, row.name, row.value, row.low, row.high, row.truth]))];
  return frame(item, [copyButton(rows)], h("div", { class: "forest" }, item.panels.map((panel) => intervalPanel(panel))));
}

const misses = (row) => finite(row.truth) && finite(row.low) && finite(row.high) && (row.truth < row.low || row.truth > row.high);

function intervalPanel(panel) {
  const { rows } = panel;
  const plot = h("div", { class: "plot", tabindex: 0, role: "group",
    "aria-label": `${panel.title}: ${rows.length} values with intervals. Up and down arrow keys read them.` });
  let view = null;
  let at = null;

  function draw() {
    const width = Math.max(plot.clientWidth, 220);
    const height = rows.length * ROW + 34;
    const numbers = rows.flatMap((row) => [row.value, row.low, row.high, row.truth]).concat(panel.zero ? [0] : []).filter(finite);
    const room = (most(numbers) - least(numbers) || Math.abs(most(numbers)) || 1) * 0.05;
    const [low, high] = numbers.length ? [least(numbers) - room, most(numbers) + room] : [0, 1];
    const left = Math.min(12 + 6.8 * most(rows.map((row) => row.name.length)), 0.45 * width);
    const fits = Math.floor((left - 12) / 6.8);
    const area = { left, right: width - 14, bottom: rows.length * ROW + 6 };
    const x = (v) => area.left + ((v - low) / (high - low)) * (area.right - area.left);
    const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, height, "aria-hidden": "true" });
    const ticks = linearTicks(low, high, clamp(Math.floor((area.right - area.left) / 60), 2, 7));
    for (const v of ticks) {
      svg.append(s("line", { class: "gridline", x1: x(v), x2: x(v), y1: 2, y2: area.bottom }),
        s("text", { class: "tick x", x: x(v), y: area.bottom + 18, "text-anchor": "middle" }, short(v)));
    }
    if (panel.zero) svg.append(s("line", { class: "zero", x1: x(0), x2: x(0), y1: 2, y2: area.bottom }));
    svg.append(s("line", { class: "axis", x1: area.left, x2: area.right, y1: area.bottom, y2: area.bottom }));
    const hover = s("rect", { class: "row", x: 0, width, height: ROW, visibility: "hidden" });
    svg.append(hover);
    rows.forEach((row, k) => svg.append(drawInterval(row, panel.colour, x, area, k * ROW + ROW / 2 + 3, fits)));
    plot.replaceChildren(svg);
    view = { width, height, hover };
  }

  function point(k) {
    if (!view || !rows.length) return;
    at = clamp(k, 0, rows.length - 1);
    const row = rows[at];
    view.hover.setAttribute("y", at * ROW + 3);
    view.hover.setAttribute("visibility", "visible");
    const box = plot.getBoundingClientRect();
    const line = (name, value) => h("div", { class: "row" }, h("span", null, name), h("span", { class: "value" }, value));
    const between = finite(row.low) && finite(row.high) ? `${precise(row.low)} to ${precise(row.high)}` : "not sure yet";
    showTip(box.left + box.width * 0.75, box.top + (at + 0.5) * ROW + 3, box.top + (at + 1) * ROW,
      h("strong", null, row.name), h("div", { class: "rows plain" }, line("estimate", precise(row.value)), line("interval", between),
        finite(row.truth) ? line(misses(row) ? "truth, outside" : "truth", precise(row.truth)) : []));
  }
  function leave() {
    at = null;
    if (view) view.hover.setAttribute("visibility", "hidden");
    hideTip();
  }
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    if (view) point(Math.floor(((event.clientY - box.top) * view.height / box.height - 3) / ROW));
  });
  plot.addEventListener("pointerleave", leave);
  plot.addEventListener("blur", leave);
  plot.addEventListener("focus", () => { if (plot.matches(":focus-visible")) point(0); });
  plot.addEventListener("keydown", (event) => {
    const next = { ArrowUp: (at ?? 1) - 1, ArrowDown: (at ?? -1) + 1, Home: 0, End: rows.length - 1 }[event.key];
    if (event.key === "Escape") leave();
    if (next === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    point(next);
  });
  onResize(plot, draw);
  return h("div", { class: "panel" }, h("h4", null, panel.title), plot);
}

function drawInterval(row, colour, x, area, y, fits) { // a name, a bar (dotted without bounds), the estimate and the truth
  const bounded = finite(row.low) && finite(row.high);
  const [from, to] = bounded ? [x(row.low), x(row.high)] : [area.left, area.right];
  const short = (text) => (text.length > fits ? text.slice(0, Math.max(fits - 1, 1)) + "\u2026" : text);
  const cut = row.name.length > fits ? row.name.indexOf(" \u2212 ") : -1; // a difference that is too long takes two lines
  const lines = cut < 0 ? [row.name] : [row.name.slice(0, cut + 2), row.name.slice(cut + 3)];
  return s("g", { class: "series interval", own: colour },
    lines.map((line, k) => s("text", { class: cut < 0 ? null : "small", x: area.left - 10, y: cut < 0 ? y + 4 : y - 2 + 12 * k, "text-anchor": "end" }, short(line))),
    s("line", { class: bounded ? "line" : "line open", x1: from, x2: to, y1: y, y2: y }),
    finite(row.value) ? s("rect", { class: "mark", x: x(row.value) - 4, y: y - 4, width: 8, height: 8 }) : "",
    finite(row.truth) ? s("circle", { class: misses(row) ? "truth missed" : "truth", cx: x(row.truth), cy: y, r: 6 }) : "");
}
