// What every figure and table has: one tooltip for the page, copying as CSV, and the frame with title and provenance.

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

function frame(item, tools, ...body) {
  const from = item.provenance;
  const line = (name, value) => [h("dt", null, name), h("dd", null, h("code", null, value))];
  return h("figure", { class: "card", id: item.id, "aria-labelledby": idOf(item) },
    h("div", { class: "top" },
      h("h3", { id: idOf(item) }, item.title, item.label ? h("span", { class: "label" }, item.label) : null),
      h("div", { class: "tools" }, tools)),
    ...body,
    item.note ? h("p", { class: "note" }, item.note) : null,
    h("details", null,
      h("summary", null, "How this was made"),
      h("dl", null, line("Command", from.command), line("Seeds", from.seeds), line("Versions", from.versions), line("Data hash", from.hash))));
}

const drawings = []; // functions that draw what has another width than before
function onResize(element, draw) {
  let width = 0;
  const redraw = () => {
    if (element.clientWidth && element.clientWidth !== width) {
      width = element.clientWidth;
      draw();
    }
  };
  drawings.push(redraw);
  new ResizeObserver(redraw).observe(element);
}
