// The colours, shapes and texts that the drawings share.

const looks = new Map(); // by theme: reading styles is slow

// readLook returns the colours of the present theme.
function readLook(element) {
  const theme = document.documentElement.dataset.theme;
  if (looks.has(theme)) return looks.get(theme);
  const style = getComputedStyle(element);
  const v = (name) => style.getPropertyValue("--" + name).trim();
  const look = { onTone: v("on-tone"), sans: v("sans"), mono: v("mono"), terms: [] };
  for (const name of ["paper", "ink", "faint", "line", "chosen", "accent", "message"]) look[name] = v(name);
  for (const tone of ["calm", "ask", "lead", "idle", "down", "info", "warn", "bad"]) look[tone] = v(tone);
  for (const tone of ["info", "warn", "bad"]) look[tone + "Ink"] = v(tone + "-ink");
  for (let i = 0; i < termColors; i++) look.terms.push(v("term-line-" + i));
  looks.set(theme, look);
  return look;
}

const termColors = 7;

// fit shortens a text to a width.
function fit(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(text.slice(0, middle) + "…").width <= width) low = middle;
    else high = middle - 1;
  }
  return text.slice(0, low) + "…";
}

// wrap breaks a text into lines of a width, and shortens the last one if there are more than max.
function wrap(pen, text, width, max) {
  const lines = [];
  let line = "";
  for (const word of text.split(" ")) {
    const longer = line ? `${line} ${word}` : word;
    if (line && lines.length < max - 1 && pen.measureText(longer).width > width) {
      lines.push(line);
      line = word;
    } else line = longer;
  }
  return [...lines, fit(pen, line, width)];
}

// distance returns the distance of a point from the line between two others.
function distance(a, b, x, y) {
  const length = (b.x - a.x) ** 2 + (b.y - a.y) ** 2;
  const share = length ? Math.max(0, Math.min(1, ((x - a.x) * (b.x - a.x) + (y - a.y) * (b.y - a.y)) / length)) : 0;
  return Math.hypot(x - a.x - share * (b.x - a.x), y - a.y - share * (b.y - a.y));
}

function describeMessage(model, m) {
  const name = (lane) => model.lanes[lane].name;
  const took = m.taken ? `took ${showTime(m.taken.t - m.t)}` : "never received";
  return `${m.k}  ${name(m.f)} → ${name(m.o)}, ${took}` + (m.x ? `\n${shorten(m.x, 240)}` : "");
}

function describeRow(model, row) {
  if (row.mark) return row.mark.x;
  const { step } = row;
  return `${model.lanes[step.l].name}: ${describeState(model, step, ", ")}` + (step.x ? `\n${step.x}` : "");
}

// describeState returns the role of a node, with its number if it has one.
function describeState(model, step, between) {
  const number = model.number && step.n ? `${between}${model.number} ${step.n}` : "";
  return model.states[step.s].name + number;
}

function shorten(text, max) { return text.length > max ? text.slice(0, max) + "…" : text; }

// make builds an element: make("p.note", "text", child…).
function make(what, ...content) {
  const [tag, ...classes] = what.split(".");
  const element = document.createElement(tag);
  element.className = classes.join(" ");
  element.append(...content.filter((c) => c !== null && c !== undefined));
  return element;
}

function badge(state, title) {
  const element = make("span.badge." + state.tone, state.letter);
  element.title = title || state.name;
  return element;
}
