// Long pages: a figure is built when it comes near, the others while the browser has nothing to do, all of them before printing.

const FEW = 20; // figures that are built at once
const SLICE = 12; // milliseconds of building, after which the browser may do something else
const waiting = new Map(); // from the place of a figure that is not built yet to the function that builds it
const near = new IntersectionObserver((entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => build(entry.target)),
  { rootMargin: "100% 0px" });

function whenNear(item, make) {
  const place = h("figure", { class: "card waiting", id: item.id, "aria-labelledby": idOf(item) },
    h("div", { class: "top" }, h("h3", { id: idOf(item) }, item.title)));
  waiting.set(place, make);
  near.observe(place);
  return place;
}

function build(place) {
  const make = waiting.get(place);
  if (!make) return;
  waiting.delete(place);
  near.unobserve(place);
  place.replaceWith(make());
}

const idle = (run) => (window.requestIdleCallback ? window.requestIdleCallback(run) : setTimeout(run, 50));
function buildSome() {
  const begun = performance.now();
  for (const place of waiting.keys()) {
    if (performance.now() - begun > SLICE) break;
    build(place);
  }
  if (waiting.size) idle(buildSome);
}
window.addEventListener("load", () => idle(buildSome));

function buildAll() {
  [...waiting.keys()].forEach(build);
  drawings.forEach((draw) => draw());
}
