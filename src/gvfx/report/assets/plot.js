// The drawing of curves: scales, axes, bands, lines and reference lines, as SVG.

function swatch(series) {
  return s("svg", { viewBox: "0 0 18 10", class: "series", own: series.colour, "aria-hidden": "true" },
    s("line", { class: series.dashed ? "line dashed" : "line", x1: 1, x2: 17, y1: 5, y2: 5 }));
}

const onScale = (log) => (v) => finite(v) && (!log || v > 0);

function valueRange(list, references, log) { // [low, high] of the vertical axis, or null without values
  const usable = onScale(log);
  const lines = list.flatMap((series) => series.mean).concat(references.map((r) => r[1])).filter(usable);
  const edges = list.flatMap((series) => series.low.concat(series.high)).filter(usable);
  if (!lines.length) return null;
  let low = least(lines.concat(edges));
  const high = most(lines.concat(edges));
  if (log) {
    low = Math.max(low, least(lines) / 8); // a band that nearly reaches zero must not flatten the rest
    const room = Math.max((high / low) ** 0.04, 1.05);
    return [low / room, high * room];
  }
  if (low > 0 && low < 0.6 * high) low = 0;
  const room = (high - low || Math.abs(high) || 1) * 0.05;
  return [low === 0 ? 0 : low - room, high + room];
}

function plotScales(xs, ys, log, width, height, chosen) { // where values lie: x(place) and y(value) in the area, and the ticks
  const up = log ? Math.log : (v) => v;
  const yTicks = (log ? logTicks : linearTicks)(ys[0], ys[1], Math.round(height / 55));
  const left = 14 + 7 * most([2, ...yTicks.map((v) => short(v).length)]);
  const area = { left, right: width - 16, top: 26, bottom: height - 40 };
  const x1 = most(xs);
  const x0 = least(xs) > 0 && least(xs) <= 0.1 * x1 ? 0 : least(xs); // a run seen nearly from its start begins at zero
  const x = (v) => (x1 > x0 ? area.left + ((v - x0) / (x1 - x0)) * (area.right - area.left) : (area.left + area.right) / 2);
  const y = (v) => area.bottom - ((up(v) - up(ys[0])) / (up(ys[1]) - up(ys[0]))) * (area.bottom - area.top);
  const xTicks = chosen.length ? apart(chosen, x) : linearTicks(x0, x1, clamp(Math.floor(width / 95), 2, 8));
  return { area, x, y, yTicks, xTicks, floor: ys[0], width, height, log };
}

function apart(ticks, x) { // without those whose labels would touch the one before
  return ticks.reduce((kept, v) => (kept.length && x(v) - x(kept[kept.length - 1]) < 32 ? kept : [...kept, v]), []);
}

function drawNothing(width, height) {
  return s("svg", { viewBox: `0 0 ${width} ${height}`, height },
    s("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "Nothing to draw: no method with values is shown."));
}

function drawAxes({ area, x, y, xTicks, yTicks, width, height, log }, item, clip) { // an SVG with axes, still without curves
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, height, "aria-hidden": "true" },
    s("clipPath", { id: clip }, s("rect", { x: area.left - 5, y: area.top - 2, width: area.right - area.left + 10, height: area.bottom - area.top + 2 })),
    s("text", { x: 0, y: 12 }, item.y_label + (log ? " (log scale)" : "")));
  for (const v of yTicks) {
    svg.append(s("line", { class: "gridline", x1: area.left, x2: area.right, y1: y(v), y2: y(v) }),
      s("text", { class: "tick y", x: area.left - 8, y: y(v) + 4, "text-anchor": "end" }, short(v)));
  }
  svg.append(s("line", { class: "axis", x1: area.left, x2: area.right, y1: area.bottom, y2: area.bottom }));
  for (const v of xTicks) {
    const anchor = x(v) > area.right - 12 ? "end" : "middle";
    svg.append(s("line", { class: "axis", x1: x(v), x2: x(v), y1: area.bottom, y2: area.bottom + 4 }),
      s("text", { class: "tick x", x: anchor === "end" ? area.right + 6 : x(v), y: area.bottom + 18, "text-anchor": anchor }, short(v)));
  }
  svg.append(s("text", { x: (area.left + area.right) / 2, y: height - 4, "text-anchor": "middle" }, item.x_label));
  return svg;
}

function stretches(places, ok) { // unbroken stretches of places, as lists of their indices
  const found = [];
  places.forEach((place, t) => {
    if (!finite(place) || !ok(t)) return;
    const last = found[found.length - 1];
    if (last && last[last.length - 1] === t - 1) last.push(t);
    else found.push([t]);
  });
  return found;
}

const MARKED = 12; // curves of so few points have markers

function drawSeries({ x, y, floor, log }, places, series, k) { // the band and the line of one series
  const usable = onScale(log);
  const point = (t, v) => `${x(places[t]).toFixed(2)},${y(v).toFixed(2)}`;
  const above = (v) => (log && v <= 0 ? floor : v);
  const band = stretches(places, (t) => usable(series.high[t]) && finite(series.low[t])).map((run) =>
    "M" + run.map((t) => point(t, series.high[t])).join("L") +
    "L" + run.reverse().map((t) => point(t, above(series.low[t]))).join("L") + "Z").join("");
  const line = stretches(places, (t) => usable(series.mean[t])).map((run) =>
    "M" + run.map((t) => point(t, series.mean[t])).join("L") + (run.length === 1 ? "h0.01" : "")).join("");
  const coloured = (...marks) => s("g", { class: "series", own: series.colour }, marks);
  const shown = places.length <= MARKED ? places.map((_, t) => t).filter((t) => finite(places[t]) && usable(series.mean[t])) : [];
  const dots = shown.map((t) => s("circle", { class: "dot", cx: x(places[t]), cy: y(series.mean[t]), r: 3.5 }));
  return [coloured(s("path", { class: "band", d: band, "data-series": k })),
    coloured(s("path", { class: series.dashed ? "line dashed" : "line", d: line, "data-series": k }), dots)];
}

function drawReferences({ area, y, log }, references) { // horizontal lines with their names, from the top
  const marks = s("g");
  let previous = -Infinity;
  for (const [name, value] of references.filter((r) => onScale(log)(r[1])).sort((a, b) => b[1] - a[1])) {
    const below = y(value) - previous < 18;
    previous = y(value);
    marks.append(s("line", { class: "reference", x1: area.left, x2: area.right, y1: y(value), y2: y(value) }),
      s("text", { class: "halo", x: area.right, y: y(value) + (below ? 15 : -6), "text-anchor": "end" }, name));
  }
  return marks;
}
