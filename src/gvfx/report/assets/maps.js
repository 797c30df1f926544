// Maps of a grid over time: a slider, values by pointer and arrow keys.

function maps(item) {
  const walls = new Set(item.walls);
  const inGoal = (k) => item.goals.some(([row, column]) => Math.hypot(Math.floor(k / item.width) - row, (k % item.width) - column) <= item.radius + 1e-9);
  const scale = mapScale(item, walls);
  const cells = item.height * item.width;
  const free = Array.from({ length: cells }, (_, k) => k).filter((k) => !walls.has(k) && !inGoal(k));
  const longest = longestArrow(item.panels, free);
  let time = item.times.length - 1;
  let chosen = null; // the cell under the pointer

  const views = item.panels.flatMap((panel) => (item.early ? [{ panel, first: true }, { panel }] : [{ panel }])); // a canvas each
  const timeOf = (view) => (view.first ? 0 : time);
  const titleOf = (view) => view.panel.title + (item.early ? `, step ${whole(item.times[timeOf(view)])}` : "");
  const titles = views.map((view) => h("h4", null, titleOf(view)));

  const canvases = views.map(({ panel }, p) => {
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
    const list = views.length <= 8 ? views : [views[p]];
    showTip(box.left + ((column + 1) / item.width) * box.width, box.top + ((row + 0.5) / item.height) * box.height, box.bottom,
      h("strong", null, `Row ${row}, column ${column}${walls.has(chosen) ? ": wall" : ""}`),
      h("div", { class: "rows plain" }, walls.has(chosen) ? [] : list.map((view) => h("div", { class: view === views[p] ? "row" : "row faint" },
        h("span", null, titleOf(view)), h("span", { class: "value" }, precise(view.panel.frames[timeOf(view)][chosen]))))));
  }

  function draw() {
    views.forEach((view, p) => {
      const [panel, t] = [view.panel, timeOf(view)];
      titles[p].textContent = titleOf(view);
      const sheet = paper(canvases[p], item);
      paintCells(sheet, cells, panel.frames[t] || [], walls, (v) => colourAt(scale.share(v)), item.numbers);
      if (panel.arrows && panel.arrows[t] && longest > 0) paintArrows(sheet, panel.arrows[t], longest, free);
      if (panel.paths && panel.paths[t]) paintPaths(sheet, panel.paths[t]);
      if (item.numbers) paintNumbers(sheet, panel.frames[t] || [], walls, scale.share);
      else paintGoals(sheet, item.goals, item.radius);
      if (chosen !== null) paintChosen(sheet, chosen);
    });
  }

  const panels = h("div", { class: "panels" }, views.map((_, p) => h("div", { class: "panel" }, titles[p], canvases[p])));
  if (item.columns) {
    panels.classList.add("rows");
    panels.style.setProperty("--columns", item.columns);
  }
  const below = h("div", { class: "below" }, colourBar(item, scale));
  if (item.times.length > 1) below.append(timeSlider(item, time, (chosenTime) => { time = chosenTime; draw(); }));
  onResize(panels, draw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return frame(item, [], panels, below, mapKeys(item, walls));
}

function longestArrow(panels, free) {
  let longest = 0;
  for (const panel of panels) {
    for (const arrows of panel.arrows || []) {
      for (const k of free) longest = Math.max(longest, Math.hypot(arrows[2 * k] ?? 0, arrows[2 * k + 1] ?? 0));
    }
  }
  return longest;
}

function timeSlider(item, first, move) {
  const name = `${idOf(item)}-time`;
  const output = h("output", { for: name });
  const slider = h("input", { type: "range", id: name, min: 0, max: item.times.length - 1, step: 1, value: first });
  const tell = () => {
    const step = whole(item.times[Number(slider.value)]);
    output.textContent = step;
    slider.setAttribute("aria-valuetext", `step ${step}`);
  };
  slider.addEventListener("input", () => {
    tell();
    move(Number(slider.value));
  });
  tell();
  return h("div", { class: "time" }, h("div", null, h("label", { for: name }, "Step"), output), slider);
}

function mapKeys(item, walls) { // what walls, goals, starts of paths and cells without a value look like, if there are any
  const gaps = item.panels.some((panel) => panel.frames.some((values) => values.some((v, k) => !finite(v) && !walls.has(k))));
  const keys = h("p", { class: "keys" },
    item.walls.length ? h("span", null, h("i"), "wall") : null,
    item.goals.length && !item.numbers ? h("span", null, h("i", { class: "goal" }), "goal") : null,
    item.panels.some((panel) => panel.paths) ? h("span", null, h("i", { class: "start" }), "start") : null,
    gaps && !item.numbers ? h("span", null, h("i", { class: "gap" }), "no value") : null);
  return keys.childElementCount ? keys : null;
}
