// One map on a canvas: cells, arrows, paths, goals, and the cell under the pointer.

const GOAL = "#51cf66";
const START = "#fa5252"; // where a trajectory starts
const PATHS = ["#74c0fc", "#ffffff", "#ffd43b", "#faa2c1", "#63e6be"]; // of trajectories over a map

function paper(canvas, item) { // the canvas in its present size, and where cells lie on it
  const ratio = window.devicePixelRatio || 1;
  const width = Math.max(Math.round(canvas.clientWidth * ratio), item.width);
  const height = Math.max(Math.round((width * item.height) / item.width), item.height);
  if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
  const left = (column) => Math.round(column * (width / item.width));
  const top = (row) => Math.round((row * height) / item.height);
  const box = (k) => { // the corners of cell k
    const [row, column] = [Math.floor(k / item.width), k % item.width];
    return { x0: left(column), y0: top(row), x1: left(column + 1), y1: top(row + 1) };
  };
  return { pen: canvas.getContext("2d"), ratio, size: width / item.width, columns: item.width, box };
}

function paintCells({ pen, size, box }, count, values, walls, colourOf, outlined) {
  const theme = getComputedStyle(document.documentElement);
  const wall = theme.getPropertyValue("--wall").trim();
  const empty = theme.getPropertyValue("--card").trim();
  for (let k = 0; k < count; k++) {
    const { x0, y0, x1, y1 } = box(k);
    pen.fillStyle = walls.has(k) ? wall : finite(values[k]) ? colourOf(values[k]) : empty;
    pen.fillRect(x0, y0, x1 - x0, y1 - y0);
    if (walls.has(k) || finite(values[k])) continue;
    if (outlined) { // most cells have no value
      pen.strokeStyle = theme.getPropertyValue("--rule").trim();
      pen.lineWidth = 1;
      pen.strokeRect(x0 + 0.5, y0 + 0.5, x1 - x0, y1 - y0);
    } else { // no value: a stroke across the cell
      pen.strokeStyle = wall;
      pen.lineWidth = Math.max(1, 0.08 * size);
      pen.beginPath();
      pen.moveTo(x0, y1);
      pen.lineTo(x1, y0);
      pen.stroke();
    }
  }
}

function paintArrows({ pen, size, columns }, arrows, longest, free) {
  for (const k of free) {
    if (finite(arrows[2 * k]) && finite(arrows[2 * k + 1])) {
      paintArrow(pen, ((k % columns) + 0.5) * size, (Math.floor(k / columns) + 0.5) * size, arrows[2 * k] / longest, arrows[2 * k + 1] / longest, size);
    }
  }
}

function paintArrow(pen, x, y, dx, dy, size) { // lengths are square roots, so that short ones stay readable
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

function paintPaths({ pen, size, ratio }, paths) {
  paths.forEach((path, k) => {
    pen.strokeStyle = PATHS[k % PATHS.length];
    pen.lineWidth = 1.2 * ratio;
    pen.lineJoin = "round";
    pen.beginPath();
    for (let i = 0; i < path.length; i += 2) pen.lineTo(path[i] * size, path[i + 1] * size);
    pen.stroke();
    paintDot(pen, path[0] * size, path[1] * size, Math.max(size * 0.32, 2.5 * ratio), size, START);
  });
}

function paintDot(pen, x, y, radius, size, colour) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fillStyle = colour;
  pen.fill();
  pen.lineWidth = Math.max(1, 0.06 * size);
  pen.strokeStyle = "#ffffff";
  pen.stroke();
}

function paintGoals({ pen, size, ratio }, goals, radius) { // a dot at the centre, and the disc's edge if it is one
  for (const [row, column] of goals) {
    const [x, y] = [(column + 0.5) * size, (row + 0.5) * size];
    paintDot(pen, x, y, Math.max(size * 0.32, 2.5 * ratio), size, GOAL);
    if (!radius) continue;
    pen.beginPath();
    pen.arc(x, y, radius * size, 0, 2 * Math.PI);
    pen.lineWidth = 2 * ratio;
    pen.strokeStyle = GOAL;
    pen.stroke();
  }
}

function paintNumbers({ pen, size, box }, values, walls, share) { // black on bright colours, white on dark ones
  pen.font = `${Math.max(0.46 * size, 7)}px system-ui, sans-serif`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  values.forEach((v, k) => {
    if (!finite(v) || walls.has(k)) return;
    const { x0, y0, x1, y1 } = box(k);
    pen.fillStyle = share(v) > 0.62 ? "#000000" : "#ffffff";
    pen.fillText(tidy(v), (x0 + x1) / 2, (y0 + y1) / 2);
  });
}

function paintChosen({ pen, ratio, box }, k) { // a white and a black outline, visible on any colour
  const { x0, y0, x1, y1 } = box(k);
  const edge = Math.max(1, Math.round(1.5 * ratio));
  for (const [colour, inset] of [["#ffffff", 0], ["#000000", edge]]) {
    pen.lineWidth = edge;
    pen.strokeStyle = colour;
    pen.strokeRect(x0 + inset + edge / 2, y0 + inset + edge / 2, x1 - x0 - 2 * inset - edge, y1 - y0 - 2 * inset - edge);
  }
}
