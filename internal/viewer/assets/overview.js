// Overview shows the whole run in one strip: a bar of roles for each lane, and a tick for each mark. The slider below it
// has the same scale.

class Overview {
  constructor(canvas, select) {
    this.canvas = canvas;
    const seek = (e) => {
      if (!this.model || !(e.buttons & 1)) return;
      const share = Math.max(0, Math.min(1, e.offsetX / this.canvas.clientWidth));
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
    const x = (this.selected / Math.max(1, this.model.rows.length - 1)) * width;
    pen.fillStyle = readLook(this.canvas).ink;
    pen.fillRect(Math.min(Math.round(x) - ratio, width - 2 * ratio), 0, 2 * ratio, height);
  }

  paint(width, height) {
    const picture = new OffscreenCanvas(width, height);
    const pen = picture.getContext("2d");
    const look = readLook(this.canvas);
    const lanes = this.model.lanes.length;
    const top = Math.round(height * 0.16);
    const tall = (height - top) / lanes;
    const scale = width / Math.max(1, this.model.rows.length - 1);
    this.model.laneRows.forEach((rows, lane) => {
      const first = this.model.stepOf(lane, -1);
      if (first) rows = [-1, ...rows];
      const stepAt = (i) => rows[i] < 0 ? first : this.model.rows[rows[i]].step;
      const toneAt = (i) => i < rows.length ? this.model.states[stepAt(i).s].tone : "";
      for (let i = 0, next; i < rows.length; i = next) {
        for (next = i + 1; toneAt(next) === toneAt(i); ) next++;
        if (toneAt(i) === "down") continue;
        const end = next < rows.length ? rows[next] : this.model.rows.length - 1;
        const from = Math.max(rows[i], 0);
        pen.fillStyle = look[toneAt(i)];
        pen.fillRect(from * scale, top + lane * tall + 0.5, Math.max((end - from) * scale, 1), Math.max(tall - 1.5, 1));
      }
    });
    for (const row of this.model.rows) {
      if (!row.mark) continue;
      const band = row.mark.u ? (this.model.rowAt(row.mark.u) - row.index) * scale : 0;
      pen.fillStyle = look[row.mark.c];
      pen.fillRect(row.index * scale, 0, Math.max(band, 2), top - 1);
      if (row.mark.c === "bad") pen.fillRect(Math.min(row.index * scale, width - 3), 0, 3, height);
    }
    return picture;
  }
}
