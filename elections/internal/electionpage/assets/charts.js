// The charts: for a scenario and a size, one card per measure, with one line per algorithm. A track consists of plain
// elements that are placed in percent, so that it need not be redrawn when the window changes.

const lab = JSON.parse(document.getElementById("numbers").textContent);
const chosen = { scenario: Math.max(0, lab.scenarios.findIndex((s) => s.name === "leader-crash")), size: lab.shown };
const never = -1;

// build makes an element: build("span.dot", "text", child…).
function build(what, ...content) {
  const [tag, ...classes] = what.split(".");
  const element = document.createElement(tag);
  element.className = classes.join(" ");
  element.append(...content);
  return element;
}

// number formats a value; times are in milliseconds.
function number(value, unit) {
  if (value === never) return "–";
  if (unit !== "ns") return value.toLocaleString("en", { maximumFractionDigits: 1 });
  const ms = value / 1e6;
  return ms.toLocaleString("en", { maximumFractionDigits: ms < 10 ? 1 : 0 });
}

// short formats a value for an axis.
function short(value, unit) {
  if (!value) return "0";
  if (unit === "ns") return value >= 1e9 ? value / 1e9 + " s" : value >= 1e6 ? value / 1e6 + " ms" : value / 1e3 + " µs";
  if (unit === "%") return value + " %";
  return value >= 1e6 ? value / 1e6 + " M" : value >= 1e3 ? value / 1e3 + " k" : String(value);
}

// lines returns the lines of a card, the best first. A share has only one value.
function lines(measure) {
  const m = lab.measures[measure];
  const all = lab.cells.filter((c) => c.s === chosen.scenario && c.n === chosen.size).map((c) => {
    const [median, p99, worst, sum] = c.v[measure];
    const share = Math.floor((sum * 1000) / c.r) / 10;
    return { algorithm: lab.algorithms[c.a], values: m.unit === "%" ? [share] : [median, p99, worst], runs: c.r };
  });
  const rank = (v) => (v === never ? Infinity : m.unit === "%" ? -v : v);
  const compare = (a, b) => a.values.reduce((d, v, i) => d || (rank(v) === rank(b.values[i]) ? 0 : rank(v) - rank(b.values[i])), 0);
  return all.sort(compare);
}

// scale returns how to place values on a track, in percent. The scale is logarithmic if the largest value is many times
// the smallest; zero then has a place of its own.
function scale(rows, unit) {
  const values = rows.flatMap((row) => row.values).filter((v) => v !== never);
  const above = values.filter((v) => v > 0);
  const max = unit === "%" ? 100 : Math.max(...above, unit === "ns" ? 1e6 : 1);
  const low = Math.min(...above, max);
  if (!above.length && unit !== "%") return { log: false, ticks: [0], at: (v) => (v === never ? 97 : 2) };
  const right = rows.some((row) => row.values.includes(never)) ? 88 : 96;
  if (unit === "%" || max / low < 60) {
    const step = niceStep(max);
    const top = Math.ceil(max / step) * step;
    const ticks = [];
    for (let v = 0; v <= top; v += step) ticks.push(v);
    return { log: false, ticks, at: (v) => (v === never ? 97 : 2 + (v / top) * (right - 2)) };
  }
  const from = Math.floor(Math.log10(low));
  const to = Math.ceil(Math.log10(max));
  const left = values.includes(0) ? 13 : 2;
  const every = Math.ceil((to - from) / 5);
  const ticks = values.includes(0) ? [0] : [];
  for (let e = from; e <= to; e += every) ticks.push(10 ** e);
  const at = (v) => (v === never ? 97 : v === 0 ? 2 : left + ((Math.log10(v) - from) / (to - from)) * (right - left));
  return { log: true, ticks, at };
}

function niceStep(max) {
  const raw = max / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  return Math.max([1, 2, 5, 10].find((f) => f * power >= raw) * power, 1);
}

function card(measure) {
  const m = lab.measures[measure];
  const all = lines(measure);
  const rows = m.name === "two-in-term" ? all.filter((row) => row.values[0] !== never) : all;
  const left = all.length - rows.length;
  const place = scale(rows, m.unit);
  const title = m.title[0].toUpperCase() + m.title.slice(1);
  const unit = m.unit === "ns" ? "ms" : m.unit;
  const notes = [m.meaning[0].toUpperCase() + m.meaning.slice(1) + ".", place.log ? " Logarithmic scale." : "",
    left ? ` Without terms, and left out: ${left}.` : ""].join("");
  const heads = m.unit === "%" ? ["share"] : ["median", "p99", "worst"];
  const head = build("div.line.names", build("span"), build("span"), ...heads.map((h) => build("span.value", h)));
  const box = build("div.plot" + (heads.length === 1 ? ".single" : ""), head, ...rows.map((row) => line(row, m, place)), axis(place, m.unit, rows));
  const element = build("section.card", build("h2", title, unit ? build("i", " in " + unit) : ""), build("p", notes), box);
  element.dataset.measure = m.name;
  return element;
}

function line(row, m, place) {
  const bad = m.bad && row.values.some((v) => v > 0) ? ".red" : "";
  const track = build("span.track");
  const [first, p99, worst] = row.values.map(place.at);
  if (m.unit === "%") track.append(at(build("span.bar"), place.at(0), first), at(build("span.dot"), first));
  else track.append(at(build("span.thin"), p99, worst), at(build("span.bar"), first, p99), at(build("span.ring"), worst), at(build("span.dot"), first));
  const name = build("span.name", row.algorithm.title);
  name.title = row.algorithm.title;
  const element = build("div.line" + bad, name, track, ...row.values.map((v) => build("span.value", number(v, m.unit))));
  element.dataset.algorithm = row.algorithm.name;
  return element;
}

// at places an element from one share of the track to another.
function at(element, from, to) {
  element.style.left = from + "%";
  if (to !== undefined) element.style.width = Math.max(to - from, 0) + "%";
  return element;
}

function axis(place, unit, rows) {
  const track = build("span.track.axis");
  for (const tick of place.ticks) track.append(at(build("span.grid"), place.at(tick)), at(build("span.tick", short(tick, unit)), place.at(tick)));
  if (rows.some((row) => row.values.includes(never))) track.append(at(build("span.grid.dashed"), 97), at(build("span.tick", "never"), 97));
  return build("div.line.scale", build("span"), track);
}

// table fills the table with all numbers of the scenario and size.
function table() {
  const head = build("tr", build("th", "algorithm"), ...lab.measures.map((m) => build("th", m.title + (m.unit === "ns" ? ", ms" : ""))));
  const rows = lab.algorithms.map((algorithm) => build("tr", build("th", algorithm.title), ...lab.measures.map((m, i) => {
    const row = lines(i).find((l) => l.algorithm === algorithm);
    return build("td", row ? row.values.map((v) => number(v, m.unit)).join(" / ") + (m.unit === "%" ? " %" : "") : "");
  })));
  document.querySelector(".numbers table").replaceChildren(build("thead", head), build("tbody", ...rows));
}

function show() {
  const runs = lab.cells.find((c) => c.s === chosen.scenario && c.n === chosen.size)?.r ?? 0;
  document.querySelector(".pick").replaceChildren(
    picker("scenario", lab.scenarios.map((s) => s.title), chosen.scenario, (i) => (chosen.scenario = i)),
    picker("members", sizes().map(String), sizes().indexOf(chosen.size), (i) => (chosen.size = sizes()[i])),
    build("span.runs", `runs of each: ${runs.toLocaleString("en")}; a cell of the table is median / p99 / worst`));
  document.querySelector(".cards").replaceChildren(...lab.measures.map((_, i) => card(i)));
  thin();
  table();
}

// thin hides labels of axes that would cover others; "never", the last of an axis, stays.
function thin() {
  for (const track of document.querySelectorAll(".axis")) {
    const kept = [];
    for (const tick of [...track.querySelectorAll(".tick")].sort((a, b) => (b.textContent === "never") - (a.textContent === "never"))) {
      tick.hidden = false;
      const box = tick.getBoundingClientRect();
      tick.hidden = kept.some((other) => box.left < other.right + 6 && other.left < box.right + 6);
      if (!tick.hidden) kept.push(box);
    }
  }
}
window.addEventListener("resize", thin);

// sizes returns the cluster sizes at which the scenario was run.
function sizes() {
  return lab.sizes.filter((n) => lab.cells.some((c) => c.s === chosen.scenario && c.n === n));
}

function picker(name, options, current, choose) {
  const select = build("select", ...options.map((o) => build("option", o)));
  select.selectedIndex = current;
  select.addEventListener("change", () => {
    choose(select.selectedIndex);
    if (!sizes().includes(chosen.size)) chosen.size = sizes()[0];
    show();
    document.querySelector(`.pick label:nth-child(${name === "scenario" ? 1 : 2}) select`).focus();
  });
  return build("label", name + " ", select);
}

// The line under the mouse is highlighted in all cards.
document.querySelector(".cards").addEventListener("mouseover", (e) => {
  const name = e.target.closest(".line")?.dataset.algorithm;
  for (const other of document.querySelectorAll(".cards .line")) other.classList.toggle("lit", !!name && other.dataset.algorithm === name);
});

// The charts follow the scenario of the diagrams.
document.addEventListener("place", (e) => {
  const scenario = lab.scenarios.findIndex((s) => s.title === e.detail);
  if (scenario < 0) return;
  chosen.scenario = scenario;
  if (!sizes().includes(chosen.size)) chosen.size = sizes()[0];
  show();
});

// The tour: the stop that was chosen last shows its text.
const stops = [...document.querySelectorAll(".tour a")];
function visit(stop) {
  stops.forEach((other) => other.removeAttribute("aria-current"));
  stop?.setAttribute("aria-current", "step");
  if (stop) stop.closest(".tour").scrollLeft = stop.offsetLeft - stop.closest(".tour").offsetLeft; // on a narrow screen
  document.querySelectorAll(".told p").forEach((text, i) => (text.hidden = stops[i] !== stop));
}
for (const stop of stops) stop.addEventListener("click", () => visit(stop));
// A link leads to a stop if it shows the same diagrams.
const shows = (hash) => ["diagram", "diagram2"].map((name) => new URLSearchParams(hash.slice(1)).get(name)).join();
const stopAt = (hash) => stops.find((stop) => shows(stop.hash) === shows(hash));
addEventListener("hashchange", () => visit(stopAt(location.hash)));
// A reader who chooses a scenario or an algorithm leaves the tour.
document.addEventListener("change", (e) => e.target.matches("#together select, .choose select") && visit(), true);
visit(location.hash ? stopAt(location.hash) : stops[0]);
show();
