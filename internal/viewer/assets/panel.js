// Panel shows the state at the chosen row in words and tables.

const listHeight = 24; // of a line in the list of decisions

class Panel {
  constructor(root, select) {
    this.root = root;
    this.select = select;
    this.find = root.querySelector(".find");
    this.list = root.querySelector(".list");
    this.find.addEventListener("input", () => this.filter());
    this.find.addEventListener("keydown", (e) => e.key === "Enter" && this.next());
    this.list.addEventListener("scroll", () => this.fillList());
    new ResizeObserver(() => this.model && this.showNodes()).observe(root.querySelector(".nodes"));
  }

  show(model, row) {
    this.model = model;
    this.row = row;
    this.filter();
    this.at(row);
  }

  at(row) {
    this.row = row;
    this.showStep();
    this.showNodes();
    this.fillList(true);
  }

  showStep() {
    const { model, row } = this;
    const { t, step, mark } = model.rows[row];
    const box = this.root.querySelector(".now");
    const place = make("p.place", `Row ${(row + 1).toLocaleString("en")} of ${model.rows.length.toLocaleString("en")}`, " · ", showTime(t, model.wall));
    if (mark) {
      box.replaceChildren(place, make("p.sentence." + mark.c, signs[mark.c] + " ", mark.x));
      return;
    }
    const state = model.states[step.s];
    const who = make("p.who", badge(state), make("b", model.lanes[step.l].name), " " + describeState(model, step, " · "));
    box.replaceChildren(place, who, make("p.sentence", step.x || "nothing to decide"), ...this.details(step), ...this.mail());
  }

  details(step) {
    return (step.d || []).map((line) => make("p.detail", shorten(line, 400)));
  }

  // mail lists the messages of the step. A click on one goes to its other end.
  mail() {
    const { sent, taken } = this.model.touching(this.row);
    const line = (m, sign, other, row) => {
      const button = make("button.mail" + (m.taken ? "" : ".lost"), `${sign} ${this.model.lanes[other].name}  `,
        make("b", m.k), make("span", " " + shorten(m.x || "", 120)), m.taken ? null : make("i", " never received"));
      button.title = button.textContent;
      button.addEventListener("click", () => this.select(row));
      return button;
    };
    const lines = [
      ...taken.map((m) => line(m, "from", m.f, m.from)),
      ...sent.map((m) => line(m, "to", m.o, m.taken ? m.to : m.from)),
    ];
    const more = lines.length - 12;
    return [...lines.slice(0, 12), ...(more > 0 ? [make("p.detail", `and ${more} messages more`)] : [])];
  }

  showNodes() {
    const { model, row } = this;
    const steps = model.lanes.map((_, lane) => model.stepOf(lane, row));
    const logs = steps.map((step) => step && step.log).filter(Boolean);
    const box = this.root.querySelector(".nodes");
    this.window = logs.length ? this.logWindow(box, logs) : null;
    const cards = model.lanes.map((lane, i) => this.card(lane, steps[i], i));
    const cut = describeCuts(model, model.cutAt(row));
    box.replaceChildren(...(cut ? [make("p.cut", signs.warn + " ", cut)] : []), ...cards);
    this.root.querySelector(".loglegend").hidden = !logs.length;
    const here = box.querySelector(".here");
    if (!here || box.scrollHeight <= box.clientHeight) return;
    const top = here.offsetTop - box.offsetTop;
    if (top < box.scrollTop || top + here.offsetHeight > box.scrollTop + box.clientHeight) {
      box.scrollTop = top - box.clientHeight / 3;
    }
  }

  card(lane, step, index) {
    const { model } = this;
    const here = model.rows[this.row].step?.l === index ? ".here" : "";
    const head = make("div.head", make("b", lane.name), lane.text ? make("span.extra", lane.text) : null);
    const card = make("div.node" + here, head);
    if (!step) {
      head.prepend(make("span.badge.none", "–"));
      head.append(make("span.role", "not started yet"));
      return card;
    }
    const state = model.states[step.s];
    head.prepend(badge(state));
    head.append(make("span.role", describeState(model, step, " · ")));
    const values = model.values.flatMap((name, i) => step.v[i] ? [make("span.value", make("i", name), " ", step.v[i])] : []);
    if (values.length) head.append(make("div.values", ...values));
    if (this.window && step.log) card.append(this.drawLog(step.log));
    return card;
  }

  // logWindow returns the indexes that the logs show: the same for all, so that equal indexes are aligned.
  logWindow(box, logs) {
    const room = Math.max(6, Math.floor((box.clientWidth - 84) / 25));
    const last = Math.max(...logs.map((log) => log.last), room);
    return { from: last - room + 1, to: last };
  }

  drawLog(log) {
    const { from, to } = this.window;
    const line = make("div.log");
    const before = make("span.before", from > 1 ? `…${from - 1}` : "");
    line.append(before);
    for (let i = from; i <= to; i++) line.append(this.cell(log, i));
    if (log.last < from && log.last > 0) line.append(make("span.behind", `ends at ${log.last}, ${this.model.number || "term"} ${entryAt(log, log.last).t}`));
    if (!log.last) line.append(make("span.behind", "empty"));
    return line;
  }

  cell(log, index) {
    const run = index <= log.last ? entryAt(log, index) : null;
    if (!run) return make("span.cell.absent");
    const durable = index <= log.durable ? "" : ".volatile";
    const committed = index <= log.committed ? ".committed" : "";
    const cell = make(`span.cell.term${run.t % termColors}${committed}${durable}`, String(run.t));
    cell.title = `entry ${index}, ${this.model.number || "term"} ${run.t}${run.k ? ", " + run.k : ""}: ` +
      (committed ? "committed" : "not committed here") + (durable ? ", not on disk yet" : "");
    return cell;
  }

  filter() {
    const words = this.find.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (text) => words.every((word) => text.includes(word));
    this.found = this.model.stops.filter((row) => !words.length || fits(this.sentence(row).toLowerCase()));
    this.root.querySelector(".count").textContent =
      `${this.found.length.toLocaleString("en")} of ${this.model.stops.length.toLocaleString("en")}`;
    this.fillList(true);
  }

  // next goes to the next row that the filter found; after the last one it begins again at the first.
  next() {
    const row = this.found.find((r) => r > this.row) ?? this.found[0];
    if (row !== undefined) this.select(row);
  }

  sentence(row) {
    const { step, mark } = this.model.rows[row];
    return mark ? mark.x : `${this.model.lanes[step.l].name} ${step.x || ""}`;
  }

  // fillList draws the lines in view; follow scrolls to the chosen row.
  fillList(follow) {
    const near = Math.max(0, countUpTo(this.found, this.row, (row) => row) - 1);
    const height = this.list.clientHeight;
    if (follow && Math.abs(near * listHeight - this.list.scrollTop - height / 2) > height / 2 - listHeight) {
      this.list.scrollTop = near * listHeight - height / 2;
    }
    const from = Math.max(0, Math.floor(this.list.scrollTop / listHeight) - 2);
    const lines = this.found.slice(from, from + Math.ceil(height / listHeight) + 4).map((row, i) => this.line(row, from + i));
    const inner = this.list.firstElementChild;
    inner.style.height = `${Math.max(this.found.length, 1) * listHeight}px`;
    inner.replaceChildren(...(this.found.length ? lines : [make("p.none", "no decision matches")]));
  }

  line(row, position) {
    const { t, step, mark } = this.model.rows[row];
    const sign = mark ? make("span.sign." + mark.c, signs[mark.c]) : badge(this.model.states[step.s]);
    const line = make("button.decision" + (row === this.row ? ".chosen" : "") + (mark ? "." + mark.c : ""),
      make("span.time", showTime(t, this.model.wall)), sign, make("span.text", this.sentence(row)));
    line.style.top = `${position * listHeight}px`;
    line.title = this.sentence(row);
    line.tabIndex = -1;
    line.addEventListener("click", () => this.select(row));
    return line;
  }
}

// describeCuts describes which members cannot hear which others.
function describeCuts(model, cut) {
  if (!cut.length) return "";
  const name = (lane) => model.lanes[lane].name;
  const both = cut.filter(([a, b]) => a < b && cut.some(([c, d]) => c === b && d === a));
  const oneWay = cut.filter(([a, b]) => !cut.some(([c, d]) => c === b && d === a));
  const texts = [
    ...both.map(([a, b]) => `${name(a)} ✕ ${name(b)}`),
    ...oneWay.map(([a, b]) => `${name(a)} ✕→ ${name(b)}`),
  ];
  const shown = texts.slice(0, 10).join(", ") + (texts.length > 10 ? `, and ${texts.length - 10} more` : "");
  return "cut links: " + shown;
}
