// Viewer is one diagram with its slider, buttons, keys and panel. Only go() changes the chosen row.

const playSpeeds = [2, 8, 30]; // rows a second
const frame = `
  <div class="choose"></div>
  <p class="story"></p>
  <details class="about" hidden><summary></summary><dl></dl></details>
  <div class="warnings"></div>
  <div class="run">
    <canvas class="overview" aria-hidden="true"></canvas>
    <input class="slider" type="range" min="0" step="1" aria-label="Row">
    <div class="controls">
      <button data-go="first" aria-label="First row" title="First row (Home)">|◀</button>
      <button data-go="stopBack" aria-label="Previous decision or fault" title="Previous decision or fault (Shift ←)">◀◀</button>
      <button data-go="back" aria-label="One row back" title="One row back (←)">◀</button>
      <button data-go="play" class="play" title="Play (space)">▶ Play</button>
      <button data-go="on" aria-label="One row forward" title="One row forward (→)">▶</button>
      <button data-go="stopOn" aria-label="Next decision or fault" title="Next decision or fault (Shift →)">▶▶</button>
      <button data-go="last" aria-label="Last row" title="Last row (End)">▶|</button>
      <button data-go="speed" class="speed" aria-label="Speed: normal" title="How fast it plays">1×</button>
      <button data-go="failure" class="failure" title="Go to what went wrong (f)" hidden>✖&#xFE0E; What broke</button>
      <span class="gap"></span>
      <span class="zoom"><button data-go="smaller" aria-label="Smaller rows" title="Smaller rows (−)">−</button>
      <button data-go="larger" aria-label="Larger rows" title="Larger rows (+)">+</button></span>
    </div>
  </div>
  <div class="legend"></div>
  <div class="columns">
    <div class="scroll" role="group" aria-label="Diagram"><div class="spacer"></div><canvas role="img" aria-label="Space-time diagram"></canvas><div class="tip" hidden></div></div>
    <div class="panel">
      <section class="now" aria-live="polite"></section>
      <h2>Members at this row</h2>
      <section class="nodes"></section>
      <p class="loglegend" hidden><span class="cell term1 committed">1</span> committed <span class="cell term1">1</span> on disk
        <span class="cell term1 volatile">1</span> in memory; the number is the entry's term</p>
      <h2>Decisions and faults <span class="count"></span></h2>
      <input class="find" type="search" placeholder="Filter: words, a member's name (/)" aria-label="Filter decisions; Enter goes to the next">
      <div class="list"><div></div></div>
    </div>
  </div>`;

class Viewer {
  // moved is called when the reader chooses another row.
  constructor(moved) {
    this.moved = moved;
    this.root = make("section.viewer");
    this.root.tabIndex = -1;
    this.root.innerHTML = frame;
    const go = (row) => this.go(row);
    this.canvas = new Canvas(this.root, { select: go });
    this.overview = new Overview(this.root.querySelector(".overview"), go);
    this.panel = new Panel(this.root, go);
    this.slider = this.root.querySelector(".slider");
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.root.querySelector(".controls").addEventListener("click", (e) => {
      const name = e.target.closest("button")?.dataset.go;
      if (name) this.act(name);
    });
    this.speed = 1;
  }

  show(diagram, row) {
    this.stop();
    this.model = diagram instanceof Model ? diagram : new Model(diagram);
    const { model } = this;
    this.root.querySelector(".story").textContent = model.text;
    this.root.querySelector(".warnings").replaceChildren(...model.warnings.map((text) => make("p.warning", "⚠ ", text)));
    this.root.querySelector(".failure").hidden = !model.marks.some((mark) => mark.c === "bad");
    this.root.querySelector(".legend").replaceChildren(...legend([model]));
    this.slider.max = model.rows.length - 1;
    this.row = this.clamp(row ?? model.firstRow());
    this.panel.show(model, this.row);
    this.canvas.show(model, this.row);
    this.overview.show(model, this.row);
    this.go(this.row);
  }

  // redraw draws the diagram again after a change of the theme.
  redraw() {
    this.canvas.later();
    this.overview.show(this.model, this.row);
  }

  clamp(row) { return Math.max(0, Math.min(this.model.rows.length - 1, Math.round(row) || 0)); }

  go(row) {
    this.row = this.clamp(row);
    this.slider.value = this.row;
    this.slider.setAttribute("aria-valuetext", describeRow(this.model, this.model.rows[this.row]));
    this.canvas.select(this.row);
    this.overview.select(this.row);
    this.panel.at(this.row);
    this.root.dataset.row = this.row;
    this.moved(this);
  }

  act(name) {
    const page = Math.max(1, Math.floor(this.canvas.scroll.clientHeight / this.canvas.rowHeight) - 4);
    const actions = {
      first: () => this.go(0),
      last: () => this.go(this.model.rows.length - 1),
      back: () => this.go(this.row - 1),
      on: () => this.go(this.row + 1),
      pageBack: () => this.go(this.row - page),
      pageOn: () => this.go(this.row + page),
      stopBack: () => this.go(this.model.nextStop(this.row, -1)),
      stopOn: () => this.go(this.model.nextStop(this.row, 1)),
      failure: () => this.go(this.model.firstRow()),
      smaller: () => this.canvas.zoomBy(-1),
      larger: () => this.canvas.zoomBy(1),
      play: () => (this.timer ? this.stop() : this.play()),
      speed: () => this.faster(),
      find: () => this.panel.find.focus(),
    };
    if (name !== "play" && name !== "speed") this.stop();
    actions[name]();
  }

  play() {
    if (this.row === this.model.rows.length - 1) this.go(0);
    this.timer = setInterval(() => {
      this.go(this.row + 1);
      if (this.row === this.model.rows.length - 1) this.stop();
    }, 1000 / playSpeeds[this.speed]);
    this.root.querySelector(".play").textContent = "❚❚ Pause";
  }

  stop() {
    clearInterval(this.timer);
    this.timer = undefined;
    this.root.querySelector(".play").textContent = "▶ Play";
  }

  faster() {
    this.speed = (this.speed + 1) % playSpeeds.length;
    const button = this.root.querySelector(".speed");
    button.textContent = ["¼×", "1×", "4×"][this.speed];
    button.setAttribute("aria-label", "Speed: " + ["slow", "normal", "fast"][this.speed]);
    if (this.timer) { this.stop(); this.play(); }
  }
}

// legend returns the explanation of the colours and signs that some diagrams use.
function legend(models) {
  const used = new Map(); // states by name: all diagrams of a page have the same
  models.forEach((model) => [...model.start, ...model.steps].forEach(({ s }) => used.set(s, model.states[s])));
  const dashes = (state) => state.tone === "down" ? make("span.dashes") : null;
  const items = [...used].sort(([a], [b]) => a - b).map(([, state]) => make("span", badge(state), dashes(state), " ", state.name));
  const some = (list, holds) => models.some((model) => model[list].some(holds));
  const { number } = models[0];
  if (number) {
    const colors = make("span.terms", ...[1, 2, 3].map((i) => make("span.swatch.termline" + i)));
    items.push(make("span", colors, ` thin line: the ${number}, a colour each`));
  }
  if (some("messages", (m) => m.taken && !m.c)) items.push(make("span", make("span.sign", "→"), " message"));
  if (some("messages", (m) => m.taken && m.c === "ask")) items.push(make("span", make("span.sign.ask", "→"), " of an election"));
  if (some("messages", (m) => !m.taken)) items.push(make("span", make("span.sign.bad", "⇢×"), " never received"));
  const said = { warn: "fault", bad: "what must not happen", info: "note" };
  for (const tone of ["warn", "info", "bad"]) {
    if (some("marks", (mark) => mark.c === tone)) items.push(make("span", make("span.sign." + tone, signs[tone]), " ", said[tone]));
  }
  return items;
}
