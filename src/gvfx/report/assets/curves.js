// Curves with their bands: a legend that hides methods, a log scale, values by pointer and arrow keys.

function curves(item) {
  const hidden = new Set();
  const places = item.x;
  const references = item.reference || [];
  const means = item.series.flatMap((series) => series.mean).filter(finite);
  let log = means.length > 0 && least(means) > 0 && most(means) / least(means) > 20;
  let at = null; // index of the place under the pointer
  let view = null; // scales of the last drawing

  const plot = h("div", { class: "plot", tabindex: 0, role: "group",
    "aria-label": `${item.title}: ${item.y_label} over ${item.x_label}. Left and right arrow keys read the values.` });
  const toggle = h("button", { type: "button", class: "log", "aria-pressed": String(log), onclick: () => {
    log = !log;
    toggle.setAttribute("aria-pressed", String(log));
    draw();
  } }, "Log scale");
  const legend = h("div", { class: "legend", role: "group", "aria-label": "Methods shown" }, item.series.map((series, k) => {
    const button = h("button", { type: "button", "aria-pressed": "true", onclick: () => {
      if (!hidden.delete(k)) hidden.add(k);
      button.setAttribute("aria-pressed", String(!hidden.has(k)));
      draw();
    } }, swatch(series), series.name);
    return button;
  }));
  const shown = () => item.series.filter((_, k) => !hidden.has(k));

  function draw() {
    const width = Math.max(plot.clientWidth, 240);
    const height = Math.round(clamp(width * 0.46, 250, 400));
    const ys = valueRange(shown(), references, log);
    const xs = places.filter(finite);
    if (!ys || !xs.length) {
      view = null;
      plot.replaceChildren(drawNothing(width, height));
      return;
    }
    const clip = `${idOf(item)}-clip`;
    const scales = plotScales(xs, ys, log, width, height, item.x_ticks);
    const bands = s("g", { "clip-path": `url(#${clip})` });
    const lines = s("g", { "clip-path": `url(#${clip})` });
    item.series.forEach((series, k) => {
      if (hidden.has(k)) return;
      const [band, line] = drawSeries(scales, places, series, k);
      bands.append(band);
      lines.append(line);
    });
    const hover = s("g");
    const svg = drawAxes(scales, item, clip);
    svg.append(bands, drawReferences(scales, references), lines, hover);
    plot.replaceChildren(svg);
    view = { ...scales, hover };
    if (at !== null && !tip.hidden) point(at);
  }

  function point(index) {
    at = index;
    if (!view || at === null) return;
    const { x, y, area, hover, width } = view;
    const px = x(places[at]);
    hover.replaceChildren(s("line", { class: "cross", x1: px, x2: px, y1: area.top, y2: area.bottom }));
    const list = shown().filter((series) => onScale(log)(series.mean[at])).sort((a, b) => b.mean[at] - a.mean[at]);
    for (const series of list) {
      hover.append(s("g", { class: "series", own: series.colour }, s("circle", { class: "dot", cx: px, cy: y(series.mean[at]), r: 4.5 })));
    }
    const box = plot.getBoundingClientRect();
    const interval = (series) => (finite(series.low[at]) && finite(series.high[at])
      ? `${precise(series.low[at])} to ${precise(series.high[at])}` : "");
    showTip(box.left + (px * box.width) / width, box.top + (area.top + area.bottom) / 2, box.bottom,
      h("strong", null, `${item.x_label}: ${whole(places[at])}`),
      h("div", { class: "rows" }, list.map((series) => h("div", { class: "row" },
        swatch(series), h("span", null, series.name), h("span", { class: "value" }, precise(series.mean[at])), h("em", null, interval(series)))),
      references.map(([name, value]) => h("div", { class: "row faint" },
        h("span"), h("span", null, name), h("span", { class: "value" }, precise(value)), h("em")))));
  }
  function leave() {
    at = null;
    if (view) view.hover.replaceChildren();
    hideTip();
  }

  plot.addEventListener("pointermove", (event) => {
    if (!view) return;
    const box = plot.getBoundingClientRect();
    const px = ((event.clientX - box.left) * view.width) / box.width;
    let best = null;
    places.forEach((place, t) => {
      if (finite(place) && (best === null || Math.abs(view.x(place) - px) < Math.abs(view.x(places[best]) - px))) best = t;
    });
    point(best);
  });
  plot.addEventListener("pointerleave", leave);
  plot.addEventListener("blur", leave);
  plot.addEventListener("focus", () => { if (plot.matches(":focus-visible")) point(places.length - 1); });
  plot.addEventListener("keydown", (event) => {
    const last = places.length - 1;
    const here = at ?? last;
    const next = { ArrowLeft: here - 1, ArrowRight: here + 1, PageUp: here - 10, PageDown: here + 10, Home: 0, End: last }[event.key];
    if (event.key === "Escape") leave();
    if (next === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    point(clamp(next, 0, last));
  });
  onResize(plot, draw);

  const rows = () => [[item.x_label, ...item.series.flatMap((series) => ["mean", "low", "high"].map((part) => `${series.name} ${part}`))],
    ...places.map((place, t) => [place, ...item.series.flatMap((series) => [series.mean[t], series.low[t], series.high[t]])])];
  return frame(item, [toggle, copyButton(rows)], legend, plot);
}
