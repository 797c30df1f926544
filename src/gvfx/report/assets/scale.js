// The colour scale of maps.

const INFERNO = // 64 colours, dark to bright, six hexadecimal digits each
  "00000402010a04031207051b0b072410092d150b371b0c41210c4a280b532f0a5b3609613d0965440a684a0c6b510e6c59106e5f136e65156e6c186e721a6e78" +
  "1c6d7f1e6c85216b8c23699225689827669f2a63a52c60ab2f5eb1325ab73557bf3952c43c4eca404acf4446d44842d94d3dde5238e25734e65d2fea632aed69" +
  "25f06f20f3761bf57d15f78410f98b0bfa9407fb9b06fca309fcaa0ffcb216fbba1ffac228f9c932f7d13df5d949f4e156f2e865f1ef75f3f586f6fa96fcffa4";
const COLOURS = Array.from({ length: 64 }, (_, k) => [0, 2, 4].map((i) => parseInt(INFERNO.slice(6 * k + i, 6 * k + i + 2), 16)));

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

