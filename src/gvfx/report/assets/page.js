// The page itself: summary, contents, sections and facts, from the data in the document.

const page = JSON.parse(document.getElementById("data").textContent);
const paragraphs = (text) => text.split(/\n\s*\n/).filter((part) => part.trim()).map((part) => h("p", null, part.trim()));
const kinds = { Curves: curves, Maps: maps, DataTable: table, Pictures: pictures, Intervals: intervals };
const anchor = (id) => `#${encodeURIComponent(id)}`;
const { asked, headline, bullets, failed, failed_title } = page.summary;

const few = page.sections.reduce((count, section) => count + section.items.length, 0) <= FEW;
const figure = (item) => (few ? kinds[item.kind](item) : whenNear(item, () => kinds[item.kind](item)));
const link = (id, title) => h("li", null, h("a", { href: anchor(id) }, title));
const sections = page.sections.map((section) => h("section", { id: section.id, "aria-labelledby": idOf(section) },
  h("h2", { id: idOf(section) }, section.title), paragraphs(section.text), section.items.map(figure)));
const contents = h("nav", { "aria-label": "Contents" },
  h("p", { class: "eyebrow" }, "Contents"), h("ol", null, link("summary", "Summary"), page.sections.map((section) => link(section.id, section.title))));
const summary = h("div", { class: "card summary", id: "summary", role: "region", "aria-label": "Summary" },
  asked ? [h("p", { class: "eyebrow" }, "The question"), h("p", { class: "asked" }, asked)] : [],
  h("p", { class: "eyebrow" }, "The answer"), h("p", { class: "headline" }, headline),
  bullets.length ? h("ul", null, bullets.map((text) => h("li", null, text))) : null,
  failed.length ? h("div", { class: "failed" }, h("p", { class: "eyebrow" }, failed_title), h("ul", null, failed.map((text) => h("li", null, text)))) : null);
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

window.addEventListener("beforeprint", () => {
  buildAll();
  document.querySelectorAll("details:not([open])").forEach((part) => {
    part.open = true;
    window.addEventListener("afterprint", () => { part.open = false; }, { once: true });
  });
});
if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
