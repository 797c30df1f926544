(() => {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";
  const INFERNO = // 64 colours, dark to bright, six hexadecimal digits each
    "00000402010a04031207051b0b072410092d150b371b0c41210c4a280b532f0a5b3609613d0965440a684a0c6b510e6c59106e5f136e65156e6c186e721a6e78" +
    "1c6d7f1e6c85216b8c23699225689827669f2a63a52c60ab2f5eb1325ab73557bf3952c43c4eca404acf4446d44842d94d3dde5238e25734e65d2fea632aed69" +
    "25f06f20f3761bf57d15f78410f98b0bfa9407fb9b06fca309fcaa0ffcb216fbba1ffac228f9c932f7d13df5d949f4e156f2e865f1ef75f3f586f6fa96fcffa4";
  const COLOURS = Array.from({ length: 64 }, (_, k) => [0, 2, 4].map((i) => parseInt(INFERNO.slice(6 * k + i, 6 * k + i + 2), 16)));
  const GOAL = "#51cf66";
  const PATHS = ["#74c0fc", "#ffffff", "#ffd43b", "#faa2c1", "#63e6be"]; // of trajectories over a map

  // ---------- elements: every child string becomes a text node, never markup

  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name === "own") element.style.setProperty("--own", value);
      else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
    return element;
  }
  const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  const numbered = new Map(); // elements that point at each other need ids that hold no odd characters
  function title(part) {
    if (!numbered.has(part)) numbered.set(part, `gvfx-${numbered.size}`);
    return numbered.get(part);
  }

  // ---------- numbers

  const finite = (v) => typeof v === "number" && Number.isFinite(v);
  const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
  const most = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
  const clamp = (v, low, high) => Math.min(Math.max(v, low), high);
  const tidy = (v) => String(parseFloat(v.toPrecision(6))).replace("-", "\u2212");
  const raised = (n) => String(n).replace(/./g, (c) => (c === "-" ? "\u207b" : "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"[c]));

  function power(v, digits) {
    const [mantissa, exponent] = v.toExponential(digits).split("e").map(Number);
    if (mantissa === 1) return "10" + raised(exponent);
    return tidy(mantissa) + "\u00d710" + raised(exponent);
  }
  function short(v) { // for ticks: 0.02, 5, 500k, 1.5M, 10 to the minus 5
    const size = Math.abs(v);
    if (size === 0) return "0";
    if (size >= 1e9 || size < 9.99e-4) return power(v, 2);
    if (size >= 1e6) return tidy(v / 1e6) + "M";
    return size >= 1e3 ? tidy(v / 1e3) + "k" : tidy(v);
  }
  function precise(v) { // for tooltips: four digits
    if (!finite(v)) return "\u2013";
    const size = Math.abs(v);
    if (size !== 0 && (size >= 1e7 || size < 1e-3)) return power(v, 3);
    return v.toLocaleString("en", { maximumSignificantDigits: size >= 1e4 ? 7 : 4, maximumFractionDigits: 6 }).replace("-", "\u2212");
  }
  const whole = (v) => v.toLocaleString("en", { maximumFractionDigits: 3 });

  function linearTicks(low, high, count) {
    const rough = (high - low) / Math.max(count, 1);
    if (!(rough > 0)) return [low];
    const base = 10 ** Math.floor(Math.log10(rough));
    const step = base * [1, 2, 5, 10].find((m) => m * base >= rough * 0.999);
    const first = Math.ceil(low / step - 1e-9);
    const last = Math.floor(high / step + 1e-9);
    return Array.from({ length: Math.max(last - first + 1, 0) }, (_, k) => parseFloat(((first + k) * step).toPrecision(12)));
  }
  function logTicks(low, high, count) {
    const within = (multiples) => {
      const found = [];
      for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
        for (const m of multiples) {
          const v = parseFloat(`${m}e${e}`);
          if (v >= low * 0.9999 && v <= high * 1.0001) found.push(v);
        }
      }
      return found;
    };
    const decades = within([1]);
    if (decades.length > count) {
      const every = Math.ceil(decades.length / count);
      return decades.filter((v) => Math.round(Math.log10(v)) % every === 0);
    }
    if (decades.length >= 4) return decades;
    const finer = [[1, 2, 5], [1, 3], [1]].map(within).find((ticks) => ticks.length <= count + 2) || decades;
    return finer.length >= 3 ? finer : linearTicks(low, high, count).filter((v) => v > 0);
  }

  // ---------- one tooltip for the page

  const tip = h("div", { class: "tip", role: "status", hidden: true });
  function showTip(x, y, under, ...children) { // beside (x, y) in the window, or below `under` where neither side has room
    tip.replaceChildren(...children);
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const room = document.documentElement.clientWidth - 8;
    const [right, left] = [x + 16 + width <= room, x - 16 - width >= 8];
    const top = right || left ? y - height / 2 : under + 8;
    tip.style.left = `${right ? x + 16 : left ? x - 16 - width : clamp(x - width / 2, 8, Math.max(8, room - width))}px`;
    tip.style.top = `${clamp(top, 8, Math.max(8, window.innerHeight - height - 8))}px`;
  }
  const hideTip = () => { tip.hidden = true; };

  function swatch(series) {
    return s("svg", { viewBox: "0 0 18 10", class: "series", own: series.colour, "aria-hidden": "true" },
      s("line", { class: series.dashed ? "line dashed" : "line", x1: 1, x2: 17, y1: 5, y2: 5 }));
  }

  // ---------- copying

  const quoted = (cell) => (/[",\n\r]/.test(cell) ? `"${cell.replace(/"/g, '""')}"` : cell);
  const csv = (rows) => rows.map((row) => row.map((cell) => quoted(String(cell ?? ""))).join(",")).join("\n") + "\n";

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = h("textarea", { readonly: true, style: "position:fixed;opacity:0" });
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  }
  function copyButton(rows) {
    const say = (text) => { button.textContent = text; };
    const button = h("button", { type: "button", class: "copy", "aria-live": "polite", onclick: async () => {
      const done = await copy(csv(rows()));
      button.focus();
      say(done ? "Copied" : "Could not copy");
      setTimeout(say, 1600, "Copy as CSV");
    } }, "Copy as CSV");
    return button;
  }

  // ---------- the frame around every figure and table

  function frame(item, tools, ...body) {
    const from = item.provenance;
    const line = (name, value) => [h("dt", null, name), h("dd", null, h("code", null, value))];
    return h("figure", { class: "card", id: item.id, "aria-labelledby": title(item) },
      h("div", { class: "top" },
        h("h3", { id: title(item) }, item.title, item.label ? h("span", { class: "label" }, item.label) : null),
        h("div", { class: "tools" }, tools)),
      ...body,
      item.note ? h("p", { class: "note" }, item.note) : null,
      h("details", null,
        h("summary", null, "How this was made"),
        h("dl", null, line("Command", from.command), line("Seeds", from.seeds), line("Versions", from.versions), line("Data hash", from.hash))));
  }

  function onResize(element, draw) {
    let width = 0;
    new ResizeObserver(() => {
      if (element.clientWidth && element.clientWidth !== width) {
        width = element.clientWidth;
        draw();
      }
    }).observe(element);
  }

  // ---------- curves

  function curves(item) {
    const hidden = new Set();
    const steps = item.steps;
    const references = item.reference || [];
    const means = item.series.flatMap((series) => series.mean).filter(finite);
    let log = means.length > 0 && least(means) > 0 && most(means) / least(means) > 20;
    let at = null; // index of the step under the pointer
    let view = null; // scales of the last drawing

    const plot = h("div", { class: "plot", tabindex: 0, role: "group",
      "aria-label": `${item.title}: ${item.y_label} over steps. Left and right arrow keys read the values.` });
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
    const usable = (v) => finite(v) && (!log || v > 0);

    function range() {
      const list = shown();
      const lines = list.flatMap((series) => series.mean).concat(references.map((r) => r[1])).filter(usable);
      const edges = list.flatMap((series) => series.low.concat(series.high)).filter(usable);
      if (!lines.length) return null;
      let low = least(lines.concat(edges));
      let high = most(lines.concat(edges));
      if (log) {
        low = Math.max(low, least(lines) / 8); // a band that nearly reaches zero must not flatten the rest
        const room = Math.max((high / low) ** 0.04, 1.05);
        return [low / room, high * room];
      }
      if (low > 0 && low < 0.6 * high) low = 0;
      const room = (high - low || Math.abs(high) || 1) * 0.05;
      return [low === 0 ? 0 : low - room, high + room];
    }

    function draw() {
      const width = Math.max(plot.clientWidth, 240);
      const height = Math.round(clamp(width * 0.46, 250, 400));
      const ys = range();
      const xs = steps.filter(finite);
      if (!ys || !xs.length) {
        view = null;
        plot.replaceChildren(s("svg", { viewBox: `0 0 ${width} ${height}`, height },
          s("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "Nothing to draw: no method with values is shown.")));
        return;
      }
      const up = log ? Math.log : (v) => v;
      const yTicks = (log ? logTicks : linearTicks)(ys[0], ys[1], Math.round(height / 55));
      const left = 14 + 7 * most([2, ...yTicks.map((v) => short(v).length)]);
      const area = { left, right: width - 16, top: 26, bottom: height - 40 };
      const x1 = most(xs);
      const x0 = least(xs) > 0 && least(xs) <= 0.1 * x1 ? 0 : least(xs); // a run seen nearly from its start begins at zero
      const x = (v) => (x1 > x0 ? area.left + ((v - x0) / (x1 - x0)) * (area.right - area.left) : (area.left + area.right) / 2);
      const y = (v) => area.bottom - ((up(v) - up(ys[0])) / (up(ys[1]) - up(ys[0]))) * (area.bottom - area.top);
      const clip = `${title(item)}-clip`;
      const two = (v) => v.toFixed(2);

      const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, height, "aria-hidden": "true" },
        s("clipPath", { id: clip }, s("rect", { x: area.left, y: area.top - 2, width: area.right - area.left + 2, height: area.bottom - area.top + 2 })),
        s("text", { x: 0, y: 12 }, item.y_label + (log ? " (log scale)" : "")));
      for (const v of yTicks) {
        svg.append(s("line", { class: "gridline", x1: area.left, x2: area.right, y1: y(v), y2: y(v) }),
          s("text", { class: "tick y", x: area.left - 8, y: y(v) + 4, "text-anchor": "end" }, short(v)));
      }
      svg.append(s("line", { class: "axis", x1: area.left, x2: area.right, y1: area.bottom, y2: area.bottom }));
      for (const v of linearTicks(x0, x1, clamp(Math.floor(width / 95), 2, 8))) {
        const anchor = x(v) > area.right - 12 ? "end" : "middle";
        svg.append(s("line", { class: "axis", x1: x(v), x2: x(v), y1: area.bottom, y2: area.bottom + 4 }),
          s("text", { class: "tick x", x: anchor === "end" ? area.right + 6 : x(v), y: area.bottom + 18, "text-anchor": anchor }, short(v)));
      }
      svg.append(s("text", { x: (area.left + area.right) / 2, y: height - 4, "text-anchor": "middle" }, "steps"));

      const bands = s("g", { "clip-path": `url(#${clip})` });
      const lines = s("g", { "clip-path": `url(#${clip})` });
      item.series.forEach((series, k) => {
        if (hidden.has(k)) return;
        const runs = (ok) => { // unbroken stretches of steps
          const found = [];
          steps.forEach((step, t) => {
            if (!finite(step) || !ok(t)) return;
            const last = found[found.length - 1];
            if (last && last[last.length - 1] === t - 1) last.push(t);
            else found.push([t]);
          });
          return found;
        };
        const floor = (v) => (log && v <= 0 ? ys[0] : v);
        const band = runs((t) => usable(series.high[t]) && finite(series.low[t])).map((run) =>
          "M" + run.map((t) => `${two(x(steps[t]))},${two(y(series.high[t]))}`).join("L") +
          "L" + run.reverse().map((t) => `${two(x(steps[t]))},${two(y(floor(series.low[t])))}`).join("L") + "Z").join("");
        const line = runs((t) => usable(series.mean[t])).map((run) =>
          "M" + run.map((t) => `${two(x(steps[t]))},${two(y(series.mean[t]))}`).join("L") + (run.length === 1 ? "h0.01" : "")).join("");
        bands.append(s("g", { class: "series", own: series.colour }, s("path", { class: "band", d: band, "data-series": k })));
        lines.append(s("g", { class: "series", own: series.colour },
          s("path", { class: series.dashed ? "line dashed" : "line", d: line, "data-series": k })));
      });
      const marks = s("g");
      let previous = -Infinity;
      for (const [name, value] of references.filter((r) => usable(r[1])).sort((a, b) => b[1] - a[1])) {
        const below = y(value) - previous < 18;
        previous = y(value);
        marks.append(s("line", { class: "reference", x1: area.left, x2: area.right, y1: y(value), y2: y(value) }),
          s("text", { class: "halo", x: area.right, y: y(value) + (below ? 15 : -6), "text-anchor": "end" }, name));
      }
      const hover = s("g");
      svg.append(bands, marks, lines, hover);
      plot.replaceChildren(svg);
      view = { x, y, area, hover, width };
      if (at !== null && !tip.hidden) point(at);
    }

    function point(index) {
      at = index;
      if (!view || at === null) return;
      const { x, y, area, hover, width } = view;
      const px = x(steps[at]);
      hover.replaceChildren(s("line", { class: "cross", x1: px, x2: px, y1: area.top, y2: area.bottom }));
      const list = shown().filter((series) => usable(series.mean[at])).sort((a, b) => b.mean[at] - a.mean[at]);
      for (const series of list) {
        hover.append(s("g", { class: "series", own: series.colour }, s("circle", { class: "dot", cx: px, cy: y(series.mean[at]), r: 4.5 })));
      }
      const box = plot.getBoundingClientRect();
      const interval = (series) => (finite(series.low[at]) && finite(series.high[at])
        ? `${precise(series.low[at])} to ${precise(series.high[at])}` : "");
      showTip(box.left + (px * box.width) / width, box.top + (area.top + area.bottom) / 2, box.bottom,
        h("strong", null, `Step ${whole(steps[at])}`),
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
      steps.forEach((step, t) => {
        if (finite(step) && (best === null || Math.abs(view.x(step) - px) < Math.abs(view.x(steps[best]) - px))) best = t;
      });
      point(best);
    });
    plot.addEventListener("pointerleave", leave);
    plot.addEventListener("blur", leave);
    plot.addEventListener("focus", () => { if (plot.matches(":focus-visible")) point(steps.length - 1); });
    plot.addEventListener("keydown", (event) => {
      const last = steps.length - 1;
      const here = at ?? last;
      const next = { ArrowLeft: here - 1, ArrowRight: here + 1, PageUp: here - 10, PageDown: here + 10, Home: 0, End: last }[event.key];
      if (event.key === "Escape") leave();
      if (next === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      point(clamp(next, 0, last));
    });
    onResize(plot, draw);

    const rows = () => [["step", ...item.series.flatMap((series) => ["mean", "low", "high"].map((part) => `${series.name} ${part}`))],
      ...steps.map((step, t) => [step, ...item.series.flatMap((series) => [series.mean[t], series.low[t], series.high[t]])])];
    return frame(item, [toggle, copyButton(rows)], legend, plot);
  }

  // ---------- maps

  function colourAt(share) {
    const place = clamp(share, 0, 1) * (COLOURS.length - 1);
    const k = Math.min(Math.floor(place), COLOURS.length - 2);
    return `rgb(${COLOURS[k].map((c, i) => Math.round(c + (COLOURS[k + 1][i] - c) * (place - k))).join(",")})`;
  }

  function mapScale(item, walls) { // one scale over all panels and all times
    const values = item.panels.flatMap((panel) => panel.frames.flatMap((values) => values.filter((v, k) => finite(v) && !walls.has(k))));
    const used = (item.log ? values.filter((v) => v > 0) : values).sort((a, b) => a - b);
    const smallest = least(values);
    if (!used.length) return { low: 0, high: 1, share: () => 0, log: false, clipped: false };
    let low = used[0];
    let high = used[used.length - 1];
    if (!item.log) {
      if (low === high) [low, high] = [Math.min(low, 0), Math.max(high, low + 1)];
      return { low, high, share: (v) => (v - low) / (high - low), log: false, clipped: false };
    }
    low = Math.max(used[Math.floor(0.01 * used.length)], high * 1e-6);
    low = Math.min(low, high / 10);
    return { low, high, share: (v) => (v > 0 ? Math.log(v / low) / Math.log(high / low) : 0), log: true, clipped: smallest < low };
  }

  function colourBar(item, scale) {
    const place = (v) => 100 * scale.share(v);
    const digits = (v) => short(parseFloat(v.toPrecision(2)));
    const marks = [{ at: 0, text: (scale.clipped ? "\u2264 " : "") + digits(scale.low), side: "first" }, { at: 100, text: digits(scale.high), side: "last" }];
    for (const v of (scale.log ? logTicks : linearTicks)(scale.low, scale.high, 5)) {
      if (marks.every((mark) => Math.abs(mark.at - place(v)) > 15)) marks.push({ at: place(v), text: short(v), side: "" });
    }
    const bar = h("div", { class: "bar" });
    bar.style.background = `linear-gradient(to right, ${COLOURS.map((_, k) => colourAt(k / (COLOURS.length - 1))).join(",")})`;
    return h("div", { class: "scale" }, item.unit + (scale.log ? " (log scale)" : ""), bar,
      h("div", { class: "marks" }, marks.map((mark) => {
        const label = h("span", { class: mark.side }, mark.text);
        label.style.left = `${mark.at}%`;
        return label;
      })));
  }

  function maps(item) {
    const walls = new Set(item.walls);
    const goals = new Set(item.goals.map(([row, column]) => row * item.width + column));
    const scale = mapScale(item, walls);
    const cells = item.height * item.width;
    let time = item.times.length - 1;
    let chosen = null; // the cell under the pointer

    let longest = 0;
    for (const panel of item.panels) {
      for (const arrows of panel.arrows || []) {
        for (let k = 0; k < cells; k++) if (!walls.has(k) && !goals.has(k)) longest = Math.max(longest, Math.hypot(arrows[2 * k] ?? 0, arrows[2 * k + 1] ?? 0));
      }
    }

    const canvases = item.panels.map((panel, p) => {
      const canvas = h("canvas", { tabindex: 0, role: "img", "aria-label": `${panel.title}, map of ${item.unit}. Arrow keys read the cells.` });
      canvas.style.aspectRatio = `${item.width} / ${item.height}`;
      const pick = (cell) => { chosen = cell; draw(); tell(p); };
      const leave = () => { chosen = null; draw(); hideTip(); };
      canvas.addEventListener("pointermove", (event) => {
        const box = canvas.getBoundingClientRect();
        const column = clamp(Math.floor(((event.clientX - box.left) / box.width) * item.width), 0, item.width - 1);
        const row = clamp(Math.floor(((event.clientY - box.top) / box.height) * item.height), 0, item.height - 1);
        if (chosen !== row * item.width + column || tip.hidden) pick(row * item.width + column);
      });
      canvas.addEventListener("pointerleave", leave);
      canvas.addEventListener("blur", leave);
      canvas.addEventListener("keydown", (event) => {
        const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
        if (event.key === "Escape") leave();
        if (!move || event.ctrlKey || event.altKey || event.metaKey) return;
        event.preventDefault();
        if (chosen === null) return pick(0);
        const row = clamp(Math.floor(chosen / item.width) + move[0], 0, item.height - 1);
        pick(row * item.width + clamp((chosen % item.width) + move[1], 0, item.width - 1));
      });
      return canvas;
    });

    function tell(p) {
      const box = canvases[p].getBoundingClientRect();
      const [row, column] = [Math.floor(chosen / item.width), chosen % item.width];
      const list = item.panels.length <= 8 ? item.panels : [item.panels[p]];
      showTip(box.left + ((column + 1) / item.width) * box.width, box.top + ((row + 0.5) / item.height) * box.height, box.bottom,
        h("strong", null, `Row ${row}, column ${column}${walls.has(chosen) ? ": wall" : ""}`),
        h("div", { class: "rows plain" }, walls.has(chosen) ? [] : list.map((panel) => h("div", { class: panel === item.panels[p] ? "row" : "row faint" },
          h("span", null, panel.title), h("span", { class: "value" }, precise(panel.frames[time][chosen]))))));
    }

    function draw() {
      const theme = getComputedStyle(document.documentElement);
      const wall = theme.getPropertyValue("--wall").trim();
      const empty = theme.getPropertyValue("--card").trim();
      item.panels.forEach((panel, p) => {
        const canvas = canvases[p];
        const ratio = window.devicePixelRatio || 1;
        const width = Math.max(Math.round(canvas.clientWidth * ratio), item.width);
        const height = Math.max(Math.round((width * item.height) / item.width), item.height);
        if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
        const pen = canvas.getContext("2d");
        const size = width / item.width;
        const left = (column) => Math.round(column * size);
        const top = (row) => Math.round((row * height) / item.height);
        const values = panel.frames[time] || [];
        for (let k = 0; k < cells; k++) {
          const [row, column] = [Math.floor(k / item.width), k % item.width];
          pen.fillStyle = walls.has(k) ? wall : finite(values[k]) ? colourAt(scale.share(values[k])) : empty;
          pen.fillRect(left(column), top(row), left(column + 1) - left(column), top(row + 1) - top(row));
          if (!walls.has(k) && !finite(values[k])) {
            pen.strokeStyle = wall;
            pen.lineWidth = Math.max(1, 0.08 * size);
            pen.beginPath();
            pen.moveTo(left(column), top(row + 1));
            pen.lineTo(left(column + 1), top(row));
            pen.stroke();
          }
        }
        const arrows = panel.arrows && panel.arrows[time];
        if (arrows && longest > 0) {
          for (let k = 0; k < cells; k++) {
            if (!walls.has(k) && !goals.has(k) && finite(arrows[2 * k]) && finite(arrows[2 * k + 1])) {
              arrow(pen, ((k % item.width) + 0.5) * size, (Math.floor(k / item.width) + 0.5) * size, arrows[2 * k] / longest, arrows[2 * k + 1] / longest, size);
            }
          }
        }
        ((panel.paths && panel.paths[time]) || []).forEach((path, k) => {
          pen.strokeStyle = pen.fillStyle = PATHS[k % PATHS.length];
          pen.lineWidth = 1.4 * ratio;
          pen.lineJoin = "round";
          pen.beginPath();
          for (let i = 0; i < path.length; i += 2) pen.lineTo(path[i] * size, path[i + 1] * size);
          pen.stroke();
          pen.fillRect(path[0] * size - 2.5 * ratio, path[1] * size - 2.5 * ratio, 5 * ratio, 5 * ratio); // where it starts
        });
        for (const [row, column] of item.goals) {
          pen.beginPath();
          pen.arc((column + 0.5) * size, (row + 0.5) * size, Math.max(size * 0.32, 2.5 * ratio), 0, 2 * Math.PI);
          pen.fillStyle = GOAL;
          pen.fill();
          pen.lineWidth = Math.max(1, 0.06 * size);
          pen.strokeStyle = "#ffffff";
          pen.stroke();
        }
        if (chosen !== null) {
          const [row, column] = [Math.floor(chosen / item.width), chosen % item.width];
          const edge = Math.max(1, Math.round(1.5 * ratio));
          for (const [colour, inset] of [["#ffffff", 0], ["#000000", edge]]) {
            pen.lineWidth = edge;
            pen.strokeStyle = colour;
            pen.strokeRect(left(column) + inset + edge / 2, top(row) + inset + edge / 2,
              left(column + 1) - left(column) - 2 * inset - edge, top(row + 1) - top(row) - 2 * inset - edge);
          }
        }
      });
    }

    function arrow(pen, x, y, dx, dy, size) { // lengths are square roots, so that short ones stay readable
      const length = Math.sqrt(Math.hypot(dx, dy)) * size * 0.84;
      if (length < 0.1 * size) return;
      const turn = Math.atan2(dy, dx);
      const head = Math.min(0.45 * length, 0.26 * size);
      pen.save();
      pen.translate(x, y);
      pen.rotate(turn);
      pen.lineCap = pen.lineJoin = "round";
      for (const [colour, weight] of [["rgb(0 0 0 / 55%)", 0.2], ["#ffffff", 0.085]]) {
        pen.strokeStyle = colour;
        pen.lineWidth = Math.max(weight * size, weight * 12);
        pen.beginPath();
        pen.moveTo(-length / 2, 0);
        pen.lineTo(length / 2, 0);
        pen.moveTo(length / 2 - head, -head * 0.8);
        pen.lineTo(length / 2, 0);
        pen.lineTo(length / 2 - head, head * 0.8);
        pen.stroke();
      }
      pen.restore();
    }

    const panels = h("div", { class: "panels" }, item.panels.map((panel, p) => h("div", { class: "panel" }, h("h4", null, panel.title), canvases[p])));
    const below = h("div", { class: "below" }, colourBar(item, scale));
    if (item.times.length > 1) {
      const name = `${title(item)}-time`;
      const output = h("output", { for: name });
      const slider = h("input", { type: "range", id: name, min: 0, max: item.times.length - 1, step: 1, value: time });
      const tellTime = () => {
        output.textContent = whole(item.times[time]);
        slider.setAttribute("aria-valuetext", `step ${whole(item.times[time])}`);
      };
      slider.addEventListener("input", () => {
        time = Number(slider.value);
        tellTime();
        draw();
      });
      tellTime();
      below.append(h("div", { class: "time" }, h("div", null, h("label", { for: name }, "Step"), output), slider));
    }
    const keys = h("p", { class: "keys" },
      item.walls.length ? h("span", null, h("i"), "wall") : null, item.goals.length ? h("span", null, h("i", { class: "goal" }), "goal") : null,
      item.panels.some((panel) => panel.frames.some((values) => values.some((v, k) => !finite(v) && !walls.has(k))))
        ? h("span", null, h("i", { class: "gap" }), "no value") : null);
    onResize(panels, draw);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    return frame(item, [], panels, below, keys.childElementCount ? keys : null);
  }

  // ---------- tables

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
    const grid = h("table", { "aria-labelledby": title(item) },
      h("thead", null, h("tr", null, item.columns.map((name, c) => h("th", { scope: "col", class: kind(c) || null }, name)))),
      h("tbody", null, item.rows.map((row, r) => h("tr", null, row.map((text, c) => cell(text, r, c))))));
    const scroll = h("div", { class: "scroll", role: "region", "aria-labelledby": title(item) }, grid);
    onResize(scroll, () => { // only a table that scrolls needs a place in the tab order
      if (scroll.scrollWidth > scroll.clientWidth) scroll.tabIndex = 0;
      else scroll.removeAttribute("tabindex");
    });
    return frame(item, [copyButton(() => [item.columns, ...item.rows])], scroll);
  }

  // ---------- pictures

  function pictures(item) {
    const row = ([name, images]) => h("tr", null, h("th", { scope: "row" }, name),
      images.map((source, c) => h("td", null, h("img", { src: source, alt: `${name}, ${item.columns[c]}`, loading: "lazy" }))));
    const grid = h("table", { class: "pictures", "aria-labelledby": title(item) },
      h("thead", null, h("tr", null, h("td", null), item.columns.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, item.rows.map(row)));
    return frame(item, [], h("div", { class: "scroll", role: "region", tabindex: "0", "aria-labelledby": title(item) }, grid));
  }

  // ---------- the page

  const page = JSON.parse(document.getElementById("data").textContent);
  const paragraphs = (text) => text.split(/\n\s*\n/).filter((part) => part.trim()).map((part) => h("p", null, part.trim()));
  const draw = { Curves: curves, Maps: maps, DataTable: table, Pictures: pictures };
  const anchor = (id) => `#${encodeURIComponent(id)}`;
  const { asked, headline, bullets, failed } = page.summary;

  const link = (id, title) => h("li", null, h("a", { href: anchor(id) }, title));
  const sections = page.sections.map((section) => h("section", { id: section.id, "aria-labelledby": title(section) },
    h("h2", { id: title(section) }, section.title), paragraphs(section.text), section.items.map((item) => draw[item.kind](item))));
  const contents = h("nav", { "aria-label": "Contents" },
    h("p", { class: "eyebrow" }, "Contents"), h("ol", null, link("summary", "Summary"), page.sections.map((section) => link(section.id, section.title))));
  const summary = h("div", { class: "card summary", id: "summary", role: "region", "aria-label": "Summary" },
    asked ? [h("p", { class: "eyebrow" }, "The question"), h("p", { class: "asked" }, asked)] : [],
    h("p", { class: "eyebrow" }, "The answer"), h("p", { class: "headline" }, headline),
    bullets.length ? h("ul", null, bullets.map((text) => h("li", null, text))) : null,
    failed.length ? h("div", { class: "failed" }, h("p", { class: "eyebrow" }, "Not reproduced"), h("ul", null, failed.map((text) => h("li", null, text)))) : null);
  const facts = Object.entries(page.facts);

  document.body.append(
    h("a", { class: "skip", href: "#main" }, "Skip to the figures"),
    h("div", { class: "page" },
      h("header", null, h("h1", null, page.title), page.subtitle ? h("p", { class: "subtitle" }, page.subtitle) : null),
      summary,
      h("div", { class: "layout" }, contents, h("main", { id: "main", tabindex: -1 }, sections)),
      facts.length ? h("footer", null, h("p", { class: "eyebrow" }, "Facts"),
        h("dl", null, facts.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]))) : null),
    tip);

  const links = [...contents.querySelectorAll("a")];
  const places = [summary, ...sections];
  function mark() { // the section being read, in the contents
    const line = window.innerHeight * 0.3;
    let current = places.filter((part) => part.getBoundingClientRect().top <= line).length - 1;
    if (window.scrollY > 0 && window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 2) current = places.length - 1;
    links.forEach((a, k) => {
      const now = k === Math.max(current, 0);
      if (now && a.getAttribute("aria-current") !== "true" && contents.scrollWidth > contents.clientWidth) {
        contents.scrollLeft = a.offsetLeft - contents.clientWidth / 3;
      }
      a.setAttribute("aria-current", String(now));
    });
  }
  window.addEventListener("scroll", () => { hideTip(); mark(); }, { passive: true });
  mark();

  window.addEventListener("beforeprint", () => document.querySelectorAll("details:not([open])").forEach((part) => {
    part.open = true;
    window.addEventListener("afterprint", () => { part.open = false; }, { once: true });
  }));
  if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
})();
