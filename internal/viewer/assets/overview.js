// Overview shows the whole run in one strip: a bar of roles for each lane, with its name, a tick for each mark, and the times
// at some of the rows below. The slider has the same scale.

const axisHeight = 15;
const thumb = 8; // half the width of the slider's
const timeEvery = 96; // the least distance of two times

class Overview {
  constructor(canvas, select) {
    this.canvas = canvas;
    const seek = (e) => {
      if (!this.model || !(e.buttons & 1)) return;
      const share = Math.max(0, Math.min(1, (e.offsetX - this.left) / (this.canvas.clientWidth - this.left)));
      select(Math.round(share * (this.model.rows.length - 1)));
    };
    canvas.addEventListener("pointerdown", (e) => { canvas.setPointerCapture(e.pointerId); seek(e); });
    canvas.addEventListener("pointermove", seek);
    new ResizeObserver(() => this.model && this.show(this.model, this.selected)).observe(canvas);
  }

  show(model, selected) {
    this.model = model;
    this.selected = selected;
    this.picture = null;
    const longest = Math.max(...model.lanes.map((lane) => lane.name.length));
    const names = Math.min(8 * longest + 4, 72);
    this.left = names + thumb;
    this.canvas.parentElement.style.setProperty("--names", `${names}px`);
    this.draw();
  }

  select(row) {
    this.selected = row;
    this.draw();
  }

  // draw paints the run if it or the width has changed; otherwise it only moves the cursor.
  draw() {
    const ratio = window.devicePixelRatio || 1;
    const width = Math.max(1, Math.round(this.canvas.clientWidth * ratio));
    const height = Math.max(1, Math.round(this.canvas.clientHeight * ratio));
    if (!this.picture || this.picture.width !== width) this.picture = this.paint(width, height);
    this.canvas.width = width;
    this.canvas.height = height;
    const pen = this.canvas.getContext("2d");
    pen.drawImage(this.picture, 0, 0);
    pen.scale(ratio, ratio);
    pen.fillStyle = readLook(this.canvas).ink;
    pen.fillRect(Math.min(Math.round(this.x(this.selected)) - 1, width / ratio - 2), 0, 2, height / ratio - axisHeight);
  }

  // x returns the place of a row, in CSS pixels.
  x(row) {
    return this.left + (row / Math.max(1, this.model.rows.length - 1)) * (this.canvas.clientWidth - this.left);
  }

  paint(width, height) {
    const picture = new OffscreenCanvas(width, height);
    const pen = picture.getContext("2d");
    const ratio = window.devicePixelRatio || 1;
    pen.scale(ratio, ratio);
    const look = readLook(this.canvas);
    const high = height / ratio - axisHeight;
    const top = Math.round(high * 0.16);
    const tall = (high - top) / this.model.lanes.length;
    this.model.lanes.forEach((_, lane) => this.paintLane(pen, look, lane, top + lane * tall, tall));
    this.paintNames(pen, look, top, tall);
    this.paintTimes(pen, look, high);
    for (const row of this.model.rows) {
      if (!row.mark) continue;
      const x = this.x(row.index);
      pen.fillStyle = look[row.mark.c];
      pen.fillRect(x, 0, Math.max(row.mark.u ? this.x(this.model.rowAt(row.mark.u)) - x : 0, 2), top - 1);
      if (row.mark.c === "bad") pen.fillRect(Math.min(x, width / ratio - 3), 0, 3, high);
    }
    return picture;
  }

  // paintLane paints a bar for each role in turn; a dashed line: the member is down.
  paintLane(pen, look, lane, y, tall) {
    let rows = this.model.laneRows[lane];
    const first = this.model.stepOf(lane, -1);
    if (first) rows = [-1, ...rows];
    const stepAt = (i) => rows[i] < 0 ? first : this.model.rows[rows[i]].step;
    const toneAt = (i) => i < rows.length ? this.model.states[stepAt(i).s].tone : "";
    for (let i = 0, next; i < rows.length; i = next) {
      for (next = i + 1; toneAt(next) === toneAt(i); ) next++;
      const from = this.x(Math.max(rows[i], 0));
      const to = Math.max(this.x(next < rows.length ? rows[next] : this.model.rows.length - 1), from + 1);
      pen.fillStyle = look[toneAt(i)];
      if (toneAt(i) !== "down") pen.fillRect(from, y + 0.5, to - from, Math.max(tall - 1.5, 1));
      else for (let x = from; x < to; x += 7) pen.fillRect(x, y + tall / 2 - 0.75, Math.min(3, to - x), 1.5);
    }
  }

  paintNames(pen, look, top, tall) {
    pen.font = `10px ${look.sans}`;
    pen.textBaseline = "middle";
    pen.fillStyle = look.faint;
    const every = Math.ceil(8 / tall);
    this.model.lanes.forEach((lane, i) => {
      if (i % every === 0) pen.fillText(fit(pen, lane.name, this.left - thumb - 2), 1, top + (i + 0.5) * tall);
    });
  }

  paintTimes(pen, look, high) {
    const last = this.model.rows.length - 1;
    const count = Math.max(1, Math.min(last, Math.floor((this.canvas.clientWidth - this.left) / timeEvery)));
    pen.font = `10.5px ${look.sans}`;
    pen.fillStyle = look.faint;
    for (let i = 0; i <= count; i++) {
      const row = Math.round((i / count) * last);
      const x = this.x(row);
      pen.textAlign = i === 0 ? "left" : i === count ? "right" : "center";
      pen.fillText(showTime(this.model.rows[row].t, this.model.wall), x, high + axisHeight / 2 + 1);
      pen.fillRect(Math.min(x, this.canvas.clientWidth - 1), high, 1, 3);
    }
  }
}
