// The page: one viewer or several side by side, the theme, the keys, opened files, and links to rows.

const readers = []; // functions that make diagrams of files; see addReader
const keys = {
  ArrowLeft: "back", ArrowUp: "back", ArrowRight: "on", ArrowDown: "on", Home: "first", End: "last",
  PageUp: "pageBack", PageDown: "pageOn", " ": "play", "+": "larger", "=": "larger", "-": "smaller", f: "failure", "/": "find",
};
const shifted = { ArrowLeft: "stopBack", ArrowUp: "stopBack", ArrowRight: "stopOn", ArrowDown: "stopOn" };

// addReader adds a function that receives files ([{name, text}]) and returns a list of diagrams, or null for files of an
// unknown kind. The page shows the message of an error that it throws.
function addReader(read) { readers.push(read); }

class Page {
  constructor(data) {
    this.axes = data.axes || [];
    this.shared = this.axes.indexOf(data.shared);
    this.about = data.about || {};
    this.home = data.start || "";
    this.diagrams = data.diagrams || [];
    this.panes = [];
    this.chosen = [];
    this.wanted = data.panes;
    this.listen();
    if (data.files) this.open(data.files);
    else if (this.diagrams.length) this.begin();
    else if (readers.length) this.accepted();
  }

  // begin creates new panes.
  begin() {
    const count = Math.min(this.wanted, this.diagrams.length);
    this.hash = location.hash;
    const place = new URLSearchParams(this.hash.slice(1) || this.home);
    this.panes = [];
    for (let i = 0; i < count; i++) this.panes.push(new Viewer((viewer) => this.moved(viewer)));
    const main = document.getElementById("panes");
    main.className = count > 1 ? "several" : "";
    main.replaceChildren(...this.panes.map((viewer) => viewer.root));
    this.activate(this.panes[0]);
    this.bind(count);
    this.panes.forEach((viewer, i) => {
      viewer.root.addEventListener("pointerdown", () => this.activate(viewer));
      viewer.root.addEventListener("focusin", () => this.activate(viewer));
      const about = viewer.root.querySelector(".about");
      about.addEventListener("toggle", () => this.openAbout(about.open));
      const { diagram, row } = readPlace(place, i);
      this.choose(i, this.diagrams[diagram ?? i] ? diagram ?? i : i, row);
    });
    this.showShared();
    this.settled = true;
    if (place.has("row") && !place.has("row2")) this.accompany(this.active);
  }

  // activate makes the keys control a viewer, and marks it as the active one.
  activate(viewer) {
    this.active = viewer;
    this.panes.forEach((other) => other.root.classList.toggle("active", other === viewer));
  }

  choose(pane, diagram, row) {
    this.chosen[pane] = this.agree(pane, diagram);
    this.showChoices(pane);
    this.showAbout(pane);
    this.panes[pane].show(this.diagrams[this.chosen[pane]], this.chosen[pane] === diagram ? row : undefined);
    this.showLegend();
  }

  // showLegend explains the signs of all panes at one place.
  showLegend() {
    const models = this.panes.map((viewer) => viewer.model).filter(Boolean);
    document.querySelector("#together .legend")?.replaceChildren(...legend(models));
  }

  // showChoices lets the reader choose a pane's diagram: by the axes, or by title if there are none.
  showChoices(pane) {
    const box = this.panes[pane].root.querySelector(".choose");
    const current = this.diagrams[this.chosen[pane]];
    if (this.diagrams.length <= 1) return;
    if (!this.axes.length) {
      const titles = this.diagrams.map((d) => d.title);
      box.replaceChildren(chooser("diagram", titles, this.chosen[pane], (i) => this.choose(pane, i)));
      return;
    }
    box.replaceChildren(...this.axes.flatMap((axis, a) => {
      if (a === this.shared) return [];
      const options = this.places(a);
      return [chooser(axis, options, options.indexOf(current.at[a]), (i) => this.choose(pane, this.nearest(current, a, options[i])))];
    }));
  }

  places(axis) { return [...new Set(this.diagrams.map((d) => d.at[axis]))]; }

  // agree returns the diagram to show in a pane instead of the given one, with the same value on the shared axis as the
  // diagram of the first pane.
  agree(pane, diagram) {
    if (this.shared < 0 || pane === 0) return diagram;
    const place = this.diagrams[this.chosen[0]].at[this.shared];
    const { at } = this.diagrams[diagram];
    return at[this.shared] === place ? diagram : this.nearest(this.diagrams[diagram], this.shared, place);
  }

  // showShared lets the reader choose for all panes at once.
  showShared() {
    if (this.shared < 0) return;
    const options = this.places(this.shared);
    const place = this.diagrams[this.chosen[0]].at[this.shared];
    const select = chooser(this.axes[this.shared], options, options.indexOf(place), (i) => {
      this.alone(() => this.panes.forEach((_, pane) => {
        this.choose(pane, this.nearest(this.diagrams[this.chosen[pane]], this.shared, options[i]));
      }));
      this.showShared();
      this.accompany(this.panes[0]);
    });
    document.dispatchEvent(new CustomEvent("place", { detail: place })); // the rest of the page may follow
    const about = (this.about[place] || []).map((fact) => make("span.meaning", fact.text));
    document.querySelector("#together .shared").replaceChildren(select, ...about);
  }

  // showAbout shows the facts about the present value of a pane's axis.
  showAbout(pane) {
    const box = this.panes[pane].root.querySelector(".about");
    const { at } = this.diagrams[this.chosen[pane]];
    const place = at?.find((value, axis) => axis !== this.shared && this.about[value]);
    box.hidden = !place;
    if (!place) return;
    box.querySelector("summary").textContent = box.querySelector("summary").title = "About " + place;
    box.querySelector("dl").replaceChildren(...this.about[place].flatMap(({ name, text }) => [make("dt", name), make("dd", text)]));
    this.openAbout(box.open);
  }

  // openAbout opens or closes what is said about the diagrams in all panes, with the same height, so that they stay aligned.
  openAbout(open) {
    const texts = this.panes.map((viewer) => viewer.root.querySelector(".about dl"));
    this.panes.forEach((viewer) => (viewer.root.querySelector(".about").open = open));
    texts.forEach((text) => (text.style.minHeight = ""));
    const beside = new Set(this.panes.map((viewer) => viewer.root.offsetTop)).size === 1;
    const height = Math.max(...texts.map((text) => text.offsetHeight));
    if (open && beside) texts.forEach((text) => (text.style.minHeight = `${height}px`));
  }

  // bind lets the reader choose whether several panes move together.
  bind(count) {
    const box = document.getElementById("together");
    box.hidden = count < 2 && this.shared < 0;
    const check = make("input");
    check.type = "checkbox";
    check.checked = this.bound = count > 1 && this.shared >= 0;
    check.addEventListener("change", () => { this.bound = check.checked; this.accompany(this.active); });
    box.replaceChildren(make("div.shared"), count > 1 ? make("label.bound", check, " both move together in time") : "", count > 1 ? make("div.legend") : "");
  }

  // accompany moves the other panes to the time of a viewer.
  accompany(viewer) {
    if (!this.bound) return;
    const { t, mark } = viewer.model.rows[viewer.row];
    this.alone(() => this.panes.forEach((other) => other !== viewer && other.go(other.model.rowAt(t, mark))));
  }

  // alone calls act, which may move panes; the other panes do not follow.
  alone(act) {
    const before = this.quiet;
    this.quiet = true;
    act();
    this.quiet = before;
  }

  // nearest returns, of the diagrams with this value on the axis, the one that agrees with the current one on most other axes.
  nearest(current, axis, value) {
    const agrees = (d) => d.at[axis] !== value ? -1 : d.at.filter((v, i) => v === current.at[i]).length;
    const scores = this.diagrams.map(agrees);
    return scores.indexOf(Math.max(...scores));
  }

  moved(viewer) {
    if (!this.settled) return;
    if (!this.quiet && viewer === this.active) this.accompany(viewer);
    clearTimeout(this.noting); // browsers limit how often the hash may change
    this.noting = setTimeout(() => this.note(), 150);
  }

  // note writes the place to the hash, unless a link has just changed the hash and follow is about to be called.
  note() {
    if (location.hash !== this.hash) return;
    const place = this.panes.map((viewer, i) => writePlace(i, this.diagrams.length > 1 ? this.chosen[i] : undefined, viewer.row));
    history.replaceState(null, "", "#" + place.join("&"));
    this.hash = location.hash;
  }

  // follow goes to the place in the hash.
  follow() {
    if (location.hash === this.hash) return;
    this.hash = location.hash;
    const place = new URLSearchParams(this.hash.slice(1));
    this.alone(() => this.panes.forEach((viewer, i) => {
      const { diagram, row } = readPlace(place, i);
      const wanted = this.agree(i, this.diagrams[diagram] ? diagram : this.chosen[i]);
      if (wanted !== this.chosen[i]) this.choose(i, wanted, row);
      else if (row !== undefined) viewer.go(row);
    }));
    this.showShared();
    if (place.has("row") && !place.has("row2")) this.accompany(this.panes[0]);
  }

  listen() {
    document.addEventListener("keydown", (e) => this.key(e));
    window.addEventListener("hashchange", () => this.follow());
    window.addEventListener("resize", () => this.panes.length && this.openAbout(this.panes[0].root.querySelector(".about").open));
    document.getElementById("theme").addEventListener("click", () => this.turnTheme());
    document.getElementById("help").addEventListener("click", () => this.help());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { setTheme(); this.redraw(); });
    setTheme();
    const picker = document.getElementById("files");
    if (!picker) return;
    picker.addEventListener("change", () => {
      this.read(picker.files);
      picker.value = ""; // so that the same file can be opened again
    });
    document.getElementById("open").addEventListener("keydown", (e) => e.key === "Enter" && picker.click());
    document.addEventListener("dragover", (e) => e.preventDefault());
    document.addEventListener("drop", (e) => { e.preventDefault(); this.read(e.dataTransfer.files); });
  }

  key(e) {
    const help = document.getElementById("helptext");
    if (e.ctrlKey || e.metaKey || e.altKey || help.open) return;
    if (e.key === "Escape") document.activeElement?.blur();
    if (e.target.matches("input:not([type=range]), select, textarea")) return;
    // The button of a dialog that was just closed may hold the focus until the next frame.
    if (e.key === " " && e.target.matches("button, a") && !help.contains(e.target)) return;
    if (e.key === "?") this.help();
    else if (e.key === "d") this.turnTheme();
    else if (e.key === "o" && this.active) this.activate(this.panes[(this.panes.indexOf(this.active) + 1) % this.panes.length]);
    else {
      const action = (e.shiftKey && shifted[e.key]) || keys[e.key];
      if (!action || !this.active) return;
      this.active.act(action);
    }
    e.preventDefault();
  }

  turnTheme() {
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    this.redraw();
  }

  redraw() { this.panes.forEach((viewer) => viewer.redraw()); }

  help() {
    const box = document.getElementById("helptext");
    box.innerHTML = helpText(this.active?.model, this.panes.length > 1);
    box.showModal();
  }

  async read(list) {
    const files = await Promise.all([...list].map(async (f) => ({ name: f.name, text: await f.text() })));
    history.replaceState(null, "", location.pathname + location.search);
    this.open(files);
  }

  // open shows files. If they cannot be read, the page keeps what it shows.
  open(files) {
    const problem = document.getElementById("problem");
    problem.hidden = true;
    try {
      const diagrams = readers.reduce((found, read) => found || read(files), null);
      if (!diagrams) throw new Error(files.map((f) => f.name).join(", ") + ": this page cannot show files of this kind");
      this.diagrams = diagrams;
      this.axes = [];
      this.begin();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      if (!this.panes.length) this.accepted();
    }
  }

  accepted() {
    document.getElementById("panes").replaceChildren(make("p.accepted", "Open files, or drop them here."));
  }
}

function chooser(name, options, chosen, choose) {
  const select = make("select", ...options.map((text) => make("option", text)));
  select.selectedIndex = chosen;
  select.addEventListener("change", () => choose(select.selectedIndex));
  return make("label", name + " ", select);
}

// The hash counts rows from 1, as the page does: "row=12&row2=40". It has "diagram" if there are several diagrams.
function writePlace(pane, diagram, row) {
  const n = pane ? pane + 1 : "";
  return (diagram === undefined ? "" : `diagram${n}=${diagram + 1}&`) + `row${n}=${row + 1}`;
}

function readPlace(place, pane) {
  const n = pane ? pane + 1 : "";
  const number = (name) => place.has(name + n) ? Number(place.get(name + n)) - 1 : undefined;
  return { diagram: number("diagram"), row: number("row") };
}

function setTheme(theme) {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = theme || (dark ? "dark" : "light");
}

// helpText returns the explanation of the page, in the terms of the diagram that it shows.
const helpText = (model, several) => `<form method="dialog"><h2>How to read this</h2>
  <p>Time runs down. Each column is a member; the broad line is its role, the thin one beside it its ${model?.number || "term"}. Each row is one step of
  one member, or something that happened in the world; rows are evenly spaced, whatever time lies between. An arrow is a message,
  from the step that sent it to the step that took it. A dashed one with a cross was never received.</p>
  <p>The strip on top is the whole run, a bar for each member, in the colours of the roles; dashes: it is down. Below it are the
  times. Choose a row, and the panel says what acted there${model?.steps.some((step) => step.log) ? ", how every member is, and what its log holds" : " and how every member is"}.</p>
  <table>
  <tr><td><kbd>←</kbd> <kbd>→</kbd></td><td>one row back, one row forward</td></tr>
  <tr><td><kbd>Shift</kbd> <kbd>←</kbd> <kbd>→</kbd></td><td>to the previous, the next decision or fault</td></tr>
  <tr><td><kbd>Page up</kbd> <kbd>Page down</kbd> <kbd>Home</kbd> <kbd>End</kbd></td><td>a screen, the ends</td></tr>
  <tr><td><kbd>f</kbd></td><td>to what went wrong, or the beginning</td></tr>
  <tr><td><kbd>space</kbd></td><td>play, pause</td></tr>
  <tr><td><kbd>+</kbd> <kbd>−</kbd></td><td>larger, smaller rows</td></tr>
  <tr><td><kbd>/</kbd> <kbd>Enter</kbd></td><td>filter the decisions, go to the next of them</td></tr>
  ${several ? "<tr><td><kbd>o</kbd></td><td>the keys control the other side; the bar on top marks the active side</td></tr>" : ""}
  <tr><td><kbd>d</kbd></td><td>dark or light</td></tr></table>
  <p>The address of the page names the row: share it as a link.</p><button autofocus>Close</button></form>`;

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

async function start() {
  const data = await unpack(document.getElementById("data").textContent.trim());
  window.viewerPage = new Page(data);
  document.documentElement.dataset.ready = "yes";
}
