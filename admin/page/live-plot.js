// Two plots of the last minutes, on canvases.

import { secondsMax } from "./live-state.js";

// latency returns the mean of some seconds, and the time within which 99 of 100 writes ended, both in ms; null: there were none.
export function latency(bins) {
  let count = 0;
  let sum = 0;
  const took = new Map();
  for (const bin of bins) {
    count += bin.count;
    sum += bin.sum;
    for (const [bound, n] of bin.took) took.set(bound, (took.get(bound) || 0) + n);
  }
  if (count < 0.5) return null;
  const buckets = Array.from(took, ([bound, n]) => [bound === "more" ? Infinity : Number(bound), n]).sort((a, b) => a[0] - b[0]);
  let left = 0.99 * buckets.reduce((all, [, n]) => all + n, 0);
  let below = 0;
  let most = 0;
  for (const [bound, n] of buckets) {
    most = bound === Infinity ? below : below + (bound - below) * Math.min(1, left / n); // within the bucket
    if (n >= left) break;
    left -= n;
    below = bound;
  }
  return { mean: sum / count, most: Math.max(most, sum / count) };
}

// ms writes a time.
export function ms(x) {
  return x >= 1000 ? `${(x / 1000).toFixed(1)} s` : x >= 100 ? `${Math.round(x)} ms` : `${x >= 10 ? x.toFixed(0) : x.toPrecision(2)} ms`;
}

// ceiling returns a round number that is not below x.
function ceiling(x) {
  const unit = 10 ** Math.floor(Math.log10(x));
  return [1, 2, 5, 10].map((f) => f * unit).find((y) => y >= x * 0.999);
}

// draw draws lines over the seconds. A line is a list of [second, value or null]. The scale reaches at least to the value least.
export function draw(canvas, now, lines, unit, least) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const style = getComputedStyle(canvas);
  const colour = (name) => style.getPropertyValue(name);
  const c = canvas.getContext("2d");
  c.setTransform(scale, 0, 0, scale, 0, 0);
  c.clearRect(0, 0, width, height);
  const first = lines.flatMap((l) => l.points.slice(0, 1).map((p) => p[0]));
  const span = Math.min(secondsMax, Math.max(60, now - Math.min(now, ...first)));
  const top = ceiling(Math.max(least, ...lines.flatMap((l) => l.points.map((p) => p[1] || 0))));
  const bottom = height - 15;
  const x = (second) => width - ((now - second) / span) * width;
  const y = (value) => bottom - (value / top) * (bottom - 14);
  c.font = `11px ${colour("--sans")}`;
  c.fillStyle = colour("--faint");
  c.strokeStyle = colour("--soft");
  c.lineWidth = 1;
  for (const value of [0, top]) {
    c.beginPath();
    c.moveTo(0, Math.round(y(value)) + 0.5);
    c.lineTo(width, Math.round(y(value)) + 0.5);
    c.stroke();
  }
  c.fillText(`${top >= 1000 ? top.toLocaleString("en") : top}${unit}`, 0, y(top) - 4);
  c.fillText(span >= 90 ? `${Math.round(span / 60)} min ago` : "1 min ago", 0, height - 2);
  c.textAlign = "right";
  c.fillText("now", width, height - 2);
  c.textAlign = "left";
  lines.forEach((line, i) => {
    c.strokeStyle = colour(line.colour);
    c.lineWidth = i === 0 ? 2 : 1.25;
    c.lineJoin = "round";
    c.setLineDash(line.dashed ? [3, 3] : []);
    for (const run of runs(line.points)) {
      c.beginPath();
      run.forEach(([second, value], k) => (k ? c.lineTo : c.moveTo).call(c, x(second), y(value)));
      c.stroke();
      if (line.filled) {
        c.lineTo(x(run[run.length - 1][0]), bottom);
        c.lineTo(x(run[0][0]), bottom);
        c.globalAlpha = 0.13;
        c.fillStyle = colour(line.colour);
        c.fill();
        c.globalAlpha = 1;
      }
    }
  });
  c.setLineDash([]);
}

// runs splits points where there is no value.
function runs(points) {
  const all = [];
  let run = [];
  for (const p of points) {
    if (p[1] === null) {
      if (run.length > 1) all.push(run);
      run = [];
    } else run.push(p);
  }
  if (run.length > 1) all.push(run);
  return all;
}
