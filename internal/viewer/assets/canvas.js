// Canvas draws the diagram: time runs down, each lane is a column, and each row has a sentence if there is room. It draws
// only the rows in view. What decides something is written in full, if need be on several lines; other sentences may be cut.

const rowHeights = [3, 5, 8, 12, 16, 20, 26, 34];
const headHeight = 34;
const textFrom = 13; // the lowest row height with sentences
const textSize = 12;
const lineHeight = 15; // of a sentence with several lines
const sentenceLinesMax = 3;

class Canvas {
  // hooks.select(row) is called when the reader chooses a row.
  constructor(root, hooks) {
    this.scroll = root.querySelector(".scroll");
    this.canvas = root.querySelector(".scroll canvas");
    this.spacer = root.querySelector(".spacer");
    this.tip = root.querySelector(".tip");
    this.hooks = hooks;
    this.zoom = 5;
    this.scroll.addEventListener("scroll", () => this.later());
    new ResizeObserver(() => this.later()).observe(this.scroll);
    this.canvas.addEventListener("mousemove", (e) => this.hover(e));
    this.canvas.addEventListener("mouseleave", () => (this.tip.hidden = true));
    this.canvas.addEventListener("click", (e) => this.click(e));
  }

  get rowHeight() { return rowHeights[this.zoom]; }

  show(model, selected) {
    this.model = model;
    this.selected = selected;
    this.measure();
    this.lay();
    this.center(this.tops[selected]);
    this.later();
  }

  // center shows a height in the middle, as far as there are rows before it.
  center(y) { this.scroll.scrollTop = y - (this.scroll.clientHeight - headHeight) / 2; }

  // lay places the rows. They are evenly spaced, but the sentence of a decision or a mark gets as many lines as it needs.
  lay() {
    const { rows } = this.model;
    const h = this.rowHeight;
    const room = this.textRoom();
    this.laid = this.width;
    this.lines = new Map(); // by row, of those with several
    this.tops = new Float64Array(rows.length + 2); // of the rows, and of two more behind the last
    this.font(textSize, "strong");
    rows.forEach((row, i) => {
      let height = h;
      if (room > 0 && (row.mark || row.step.m)) {
        const lines = wrap(this.pen, this.sentence(row), room, sentenceLinesMax);
        if (lines.length > 1) this.lines.set(i, lines);
        if (lines.length > 1) height = Math.max(h, lines.length * lineHeight + 4);
      }
      this.tops[i + 1] = this.tops[i] + height;
    });
    this.tops[rows.length + 1] = this.tops[rows.length] + h;
    this.spacer.style.height = `${headHeight + this.tops[rows.length] + 12}px`;
  }

  // relay places the rows again after the width has changed, and keeps the chosen row where it is.
  relay() {
    const offset = this.tops[this.selected] - this.scroll.scrollTop;
    this.lay();
    this.scroll.scrollTop = this.tops[this.selected] - offset;
  }

  // textRoom returns the width that sentences have; 0: they are not drawn.
  textRoom() { return this.textX === Infinity ? 0 : this.width - this.textX - 8; }

  sentence({ step, mark }) { return mark ? mark.x : `${this.model.lanes[step.l].name}  ${step.x || ""}`; }

  select(row) {
    this.selected = row;
    const y = this.tops[row];
    const room = this.scroll.clientHeight - headHeight;
    if (y < this.scroll.scrollTop + 2 * this.rowHeight || y > this.scroll.scrollTop + room - 3 * this.rowHeight) {
      this.center(y);
    }
    this.later();
  }

  // zoomBy keeps the chosen row where it is.
  zoomBy(steps) {
    this.zoom = Math.max(0, Math.min(rowHeights.length - 1, this.zoom + steps));
    this.measure();
    this.relay();
    this.later();
  }

  // later schedules one drawing before the next frame, however often it is called.
  later() {
    if (this.planned || !this.model) return;
    this.planned = true;
    requestAnimationFrame(() => { this.planned = false; this.draw(); });
  }

  // visible returns the rows in view.
  visible() {
    const { scrollTop, clientHeight } = this.scroll;
    return { from: Math.max(0, this.rowAtTop(scrollTop) - 1), to: this.rowAtTop(scrollTop + clientHeight - headHeight) };
  }

  // rowAtTop returns the row that is so far from the top of the first one.
  rowAtTop(top) {
    const last = this.model.rows.length - 1;
    return Math.max(0, Math.min(last, countUpTo(this.tops, top, (t) => t) - 1));
  }

  measure() {
    const width = this.scroll.clientWidth;
    const height = this.scroll.clientHeight;
    const n = this.model.lanes.length;
    this.gutter = this.model.wall ? 112 : 92;
    const room = width - this.gutter;
    const least = this.model.lanes.every((lane) => lane.name.length === 1) ? 34 : 44; // a name and a badge
    const withText = room > n * 44 + 190 && this.rowHeight >= textFrom;
    this.laneWidth = withText ? Math.max(least, Math.min(120, (room * (room < 720 ? 0.3 : 0.56)) / n)) : room / n;
    this.textX = withText ? this.gutter + n * this.laneWidth + 10 : Infinity;
    this.width = width;
    this.height = height;
    const ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    this.pen = this.canvas.getContext("2d");
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.look = readLook(this.scroll);
  }

  x(lane) { return this.gutter + (lane + 0.5) * this.laneWidth; }
  y(row) { return headHeight + (this.tops[row] + this.tops[row + 1]) / 2 - this.scroll.scrollTop; }

  draw() {
    this.measure();
    if (this.laid !== this.width) this.relay();
    const view = this.visible();
    this.pen.fillStyle = this.look.paper;
    this.pen.fillRect(0, 0, this.width, this.height);
    this.drawSelection();
    this.drawBands(view); // also over the chosen row
    this.drawTimes(view);
    this.model.lanes.forEach((_, lane) => this.drawLane(lane, view));
    this.drawMarks(view);
    this.drawMessages(view);
    this.badges = [];
    this.model.lanes.forEach((_, lane) => this.drawSteps(lane, view));
    if (this.rowHeight >= 12) this.labelArrows();
    if (this.rowHeight >= textFrom) this.drawSentences(view);
    this.drawHead();
  }

  drawBands(view) {
    for (const band of this.model.bands) {
      if (band.from > view.to || band.to < view.from) continue;
      const top = this.y(band.from);
      this.pen.globalAlpha = band.mark.c === "bad" ? 0.2 : 0.1;
      this.pen.fillStyle = this.look[band.mark.c];
      for (const lane of band.mark.l || this.model.lanes.keys()) {
        this.pen.fillRect(this.x(lane) - this.laneWidth / 2, top, this.laneWidth, this.y(band.to) - top);
      }
      this.pen.globalAlpha = 1;
    }
  }

  drawSelection() {
    const h = this.tops[this.selected + 1] - this.tops[this.selected];
    const y = this.y(this.selected) - h / 2;
    this.pen.fillStyle = this.look.chosen;
    this.pen.fillRect(0, y, this.width, h);
    this.pen.fillStyle = this.look.accent;
    this.pen.fillRect(0, y, 3, h);
  }

  drawTimes(view) {
    const every = Math.max(1, Math.ceil(15 / this.rowHeight));
    this.font(11, "mono");
    this.pen.textAlign = "right";
    for (let i = view.from - (view.from % every); i <= view.to; i += every) {
      if (i < 0 || (i >= every && this.model.rows[i - every].t === this.model.rows[i].t)) continue;
      this.pen.fillStyle = i === this.selected ? this.look.ink : this.look.faint;
      this.pen.fillText(showTime(this.model.rows[i].t, this.model.wall), this.gutter - 16, this.y(i));
    }
    this.pen.textAlign = "left";
  }

  // drawLane draws the state of a node from step to step: a stripe for its role and one for its term.
  drawLane(lane, view) {
    let step = this.model.stepOf(lane, view.from);
    let top = this.y(view.from) - this.rowHeight;
    const rows = this.model.laneRows[lane];
    let i = countUpTo(rows, view.from, (row) => row);
    for (;;) {
      const next = i < rows.length && rows[i] <= view.to ? rows[i++] : -1;
      const bottom = next < 0 ? this.y(view.to) + this.rowHeight : this.y(next);
      this.drawStripe(lane, step, top, bottom);
      if (next < 0) return;
      step = this.model.rows[next].step;
      top = bottom;
    }
  }

  drawStripe(lane, step, top, bottom) {
    const x = this.x(lane);
    const tone = step ? this.model.states[step.s].tone : "none";
    if (!step || tone === "down") {
      this.line(x, top, x, bottom, this.look.line, 1.5, [2, 4]);
      return;
    }
    this.pen.fillStyle = this.look[tone];
    this.pen.fillRect(x - 2.5, top, 5, bottom - top);
    if (!this.model.number || !step.n) return;
    this.pen.fillStyle = this.look.terms[step.n % this.look.terms.length];
    this.pen.fillRect(x + 3.5, top, 4, bottom - top);
  }

  drawSteps(lane, view) {
    const rows = this.model.laneRows[lane];
    for (let i = countUpTo(rows, view.from - 1, (row) => row); i < rows.length && rows[i] <= view.to; i++) {
      const step = this.model.rows[rows[i]].step;
      const before = this.model.stepOf(lane, rows[i] - 1);
      const changed = !before || before.s !== step.s || before.n !== step.n;
      if (changed && this.rowHeight >= 8) this.drawBadge(this.x(lane), this.y(rows[i]), step);
      else if (this.rowHeight >= 8) this.drawDot(this.x(lane), this.y(rows[i]), step);
    }
  }

  drawDot(x, y, step) {
    this.pen.beginPath();
    this.pen.arc(x, y, step.m ? 5 : 3.5, 0, 2 * Math.PI);
    this.pen.fillStyle = step.m ? this.look[this.model.states[step.s].tone] : this.look.paper;
    this.pen.fill();
    this.pen.lineWidth = 1.5;
    this.pen.strokeStyle = step.m ? this.look.paper : this.look[this.model.states[step.s].tone];
    this.pen.stroke();
  }

  // drawBadge draws a new role or term: the letter of the role and the number of the term.
  drawBadge(x, y, step) {
    const state = this.model.states[step.s];
    const small = this.rowHeight < 16;
    const label = small || !this.model.number || !step.n || state.tone === "down" ? state.letter : `${state.letter} ${step.n}`;
    this.font(small ? 9 : 11, "bold");
    const w = Math.max(this.pen.measureText(label).width + 9, 17);
    const h = small ? Math.max(this.rowHeight, 10) : 16;
    this.badges.push({ x: x - w / 2, y: y - h / 2, w, h });
    this.pen.beginPath();
    this.pen.roundRect(x - w / 2, y - h / 2, w, h, 4);
    this.pen.fillStyle = this.look[state.tone];
    this.pen.fill();
    this.pen.strokeStyle = this.look.paper;
    this.pen.lineWidth = 1.5;
    this.pen.stroke();
    this.pen.fillStyle = this.look.onTone;
    this.pen.textAlign = "center";
    this.pen.fillText(label, x, y + 0.5);
    this.pen.textAlign = "left";
  }

  drawMarks(view) {
    const right = this.textX === Infinity ? this.width : this.textX - 4;
    for (let i = view.from; i <= view.to; i++) {
      const mark = this.model.rows[i].mark;
      if (!mark) continue;
      const y = this.y(i);
      const heavy = mark.c === "bad" ? 2.5 : 1.25;
      this.line(this.gutter - 6, y, right, y, this.look[mark.c], heavy, mark.c === "bad" ? [] : [6, 4]);
      this.font(12, "bold");
      this.pen.fillStyle = this.look[mark.c];
      this.pen.textAlign = "center";
      if (this.rowHeight >= 8) this.pen.fillText(signs[mark.c], this.gutter - 5, y);
      this.pen.textAlign = "left";
    }
  }

  drawMessages(view) {
    this.arrows = [];
    this.bold = []; // the arrows of the chosen step
    for (const m of this.model.crossing(view.from, view.to)) {
      const arrow = this.arrow(m);
      this.arrows.push(arrow);
      if (m.from === this.selected || (m.taken && m.to === this.selected)) this.bold.push(arrow);
      else this.drawArrow(arrow, false);
    }
    for (const arrow of this.bold) this.drawArrow(arrow, true);
  }

  // arrow returns the ends of a message's arrow. The arrow of a lost message ends half way.
  arrow(m) {
    const from = { x: this.x(m.f), y: this.y(m.from) };
    const to = { x: this.x(m.o), y: m.taken ? this.y(m.to) : from.y + 2 * this.rowHeight };
    const reach = Math.sign(to.x - from.x);
    from.x += 4 * reach;
    to.x -= (m.taken ? 8 : this.laneWidth * 0.45 * Math.max(1, Math.abs(m.o - m.f) - 0.4)) * reach;
    return { m, from, to };
  }

  drawArrow({ m, from, to }, bold) {
    const tone = m.taken ? m.c : "bad";
    const color = tone ? this.look[tone] : bold ? this.look.ink : this.look.message;
    this.pen.globalAlpha = bold ? 1 : (m.taken ? 0.75 : 0.7) * (this.rowHeight < 8 ? 0.5 : 1);
    this.line(from.x, from.y, to.x, to.y, color, bold ? 2.25 : tone ? 1.4 : 1, m.taken ? [] : [3, 3]);
    if (m.taken) this.drawHeadOf(from, to, color, bold ? 9 : 6);
    else this.drawCross(to, color, bold ? 5 : 3.5);
    this.pen.globalAlpha = 1;
  }

  drawHeadOf(from, to, color, size) {
    const angle = Math.atan2(to.y - from.y, to.x - from.x);
    this.pen.beginPath();
    this.pen.moveTo(to.x, to.y);
    for (const side of [-0.4, 0.4]) {
      this.pen.lineTo(to.x - size * Math.cos(angle + side), to.y - size * Math.sin(angle + side));
    }
    this.pen.fillStyle = color;
    this.pen.fill();
  }

  drawCross({ x, y }, color, size) {
    this.line(x - size, y - size, x + size, y + size, color, 1.75);
    this.line(x - size, y + size, x + size, y - size, color, 1.75);
  }

  // labelArrows draws the names of the messages of the chosen step, without covering badges or each other.
  labelArrows() {
    const taken = this.badges;
    this.font(11, "bold");
    for (const { m, from, to } of this.bold) {
      const w = this.pen.measureText(m.k).width + 8;
      const boxAt = (near) => {
        const x = Math.max(this.gutter, Math.min(from.x + (to.x - from.x) * near - w / 2, this.width - w - 4));
        return { x, y: from.y + (to.y - from.y) * near - 8, w, h: 16 };
      };
      const free = (box) => !taken.some((b) => box.x < b.x + b.w && b.x < box.x + w && box.y < b.y + b.h && b.y < box.y + box.h);
      const box = [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8].map(boxAt).find(free);
      if (!box) continue;
      taken.push(box);
      this.pen.fillStyle = this.look.paper;
      this.pen.beginPath();
      this.pen.roundRect(box.x, box.y, w, 16, 4);
      this.pen.fill();
      this.pen.fillStyle = m.taken ? this.look.ink : this.look.bad;
      this.pen.fillText(m.k, box.x + 4, box.y + 8.5);
    }
  }

  // drawSentences draws the sentences, and records which of them were cut: the tip and the panel show them in full.
  drawSentences(view) {
    this.cut = new Set();
    const room = this.textRoom();
    if (!room) return;
    for (let i = view.from; i <= view.to; i++) {
      const { step, mark } = this.model.rows[i];
      const strong = mark || step.m;
      this.pen.fillStyle = mark ? this.look[mark.c + "Ink"] : strong || i === this.selected ? this.look.ink : this.look.faint;
      this.font(textSize, strong ? "strong" : "");
      const lines = this.lines.get(i) || [fit(this.pen, this.sentence(this.model.rows[i]), room)];
      if (lines[lines.length - 1].endsWith("…")) this.cut.add(i);
      lines.forEach((line, k) => this.pen.fillText(line, this.textX, this.y(i) + (k - (lines.length - 1) / 2) * lineHeight));
    }
  }

  drawHead() {
    this.pen.fillStyle = this.look.paper;
    this.pen.fillRect(0, 0, this.width, headHeight);
    this.line(0, headHeight - 0.5, this.width, headHeight - 0.5, this.look.line, 1);
    this.pen.textAlign = "center";
    this.model.lanes.forEach((lane, i) => {
      const step = this.model.stepOf(i, this.selected);
      const state = step && this.model.states[step.s];
      this.font(13, "bold");
      this.pen.fillStyle = this.look.ink;
      const name = fit(this.pen, lane.name, this.laneWidth - (state ? 21 : 6));
      const w = this.pen.measureText(name).width;
      this.pen.fillText(name, this.x(i) - (state ? 10 : 0), headHeight / 2);
      if (!state) return;
      if (this.model.number && step.n && state.tone !== "down") {
        this.pen.fillStyle = this.look.terms[step.n % this.look.terms.length];
        this.pen.fillRect(this.x(i) - 16, headHeight - 5, 32, 4);
      }
      this.pen.fillStyle = this.look[state.tone];
      this.pen.beginPath();
      this.pen.roundRect(this.x(i) + w / 2 - 5, headHeight / 2 - 8, 16, 16, 4);
      this.pen.fill();
      this.font(11, "bold");
      this.pen.fillStyle = this.look.onTone;
      this.pen.fillText(state.letter, this.x(i) + w / 2 + 3, headHeight / 2 + 0.5);
    });
    this.pen.textAlign = "left";
  }

  line(x1, y1, x2, y2, color, width, dash = []) {
    this.pen.beginPath();
    this.pen.setLineDash(dash);
    this.pen.moveTo(x1, y1);
    this.pen.lineTo(x2, y2);
    this.pen.strokeStyle = color;
    this.pen.lineWidth = width;
    this.pen.stroke();
    this.pen.setLineDash([]);
  }

  font(size, kind) {
    const weight = kind === "bold" ? "700 " : kind === "strong" ? "600 " : "";
    this.pen.font = weight + size + "px " + (kind === "mono" ? this.look.mono : this.look.sans);
    this.pen.textBaseline = "middle";
  }

  rowOf(e) {
    return this.rowAtTop(e.offsetY - headHeight + this.scroll.scrollTop);
  }

  click(e) {
    const arrow = this.arrowNear(e.offsetX, e.offsetY);
    const onLane = this.model.lanes.some((_, lane) => Math.abs(this.x(lane) - e.offsetX) < 10);
    this.hooks.select(arrow && !onLane ? (arrow.m.taken ? arrow.m.to : arrow.m.from) : this.rowOf(e));
  }

  hover(e) {
    if (e.offsetY < headHeight) { this.tip.hidden = true; return; }
    const row = this.model.rows[this.rowOf(e)];
    const onStep = row.step && Math.abs(this.x(row.step.l) - e.offsetX) < 12;
    const arrow = onStep ? null : this.arrowNear(e.offsetX, e.offsetY);
    const text = arrow ? describeMessage(this.model, arrow.m) : describeRow(this.model, row);
    this.tip.textContent = text;
    this.tip.hidden = !text || !(arrow || onStep || row.mark || e.offsetX > this.textX);
    const { offsetWidth, offsetHeight } = this.tip;
    const below = e.offsetY + 16;
    const top = below + offsetHeight <= this.height ? below : e.offsetY - offsetHeight - 8;
    this.tip.style.left = `${Math.max(0, Math.min(e.offsetX + 14, this.width - offsetWidth - 4))}px`;
    this.tip.style.top = `${Math.max(0, top)}px`;
  }

  arrowNear(x, y) {
    let best = null;
    let least = 6;
    for (const arrow of this.arrows || []) {
      const d = distance(arrow.from, arrow.to, x, y);
      if (d < least) [best, least] = [arrow, d];
    }
    return best;
  }
}

const signs = { info: "▸", warn: "⚡\uFE0E", bad: "✖\uFE0E" }; // as text, not as pictures
