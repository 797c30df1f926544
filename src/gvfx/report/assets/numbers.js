// Numbers as text, and the ticks of axes.

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
