"use strict";
// Model is a diagram (see model.go) made ready to be drawn. A row is a step or a mark: rows are evenly
// spaced, so that a burst of steps in one millisecond is as readable as a silence of a second.

const blockRows = 64; // messages are found by the blocks of rows that they cross

class Model {
  constructor(diagram) {
    Object.assign(this, { at: [], values: [], start: [], marks: [], warnings: [], text: "", number: "" }, diagram);
    this.layRows();
    this.settleSteps();
    this.routeMessages();
    this.stops = this.rows.filter((r) => r.mark || r.step.m).map((r) => r.index);
    this.placeBands();
  }

  // layRows merges steps and marks in the order of time. What went wrong comes after the step that did it.
  layRows() {
    this.rows = [];
    this.laneRows = this.lanes.map(() => []);
    const marks = this.marks.slice();
    const push = (row) => this.rows.push({ index: this.rows.length, ...row });
    const marksUpTo = (t) => {
      while (marks.length && (marks[0].t < t || (marks[0].t === t && marks[0].c !== "bad"))) {
        const mark = marks.shift();
        push({ t: mark.t, mark });
      }
    };
    for (const step of this.steps) {
      marksUpTo(step.t);
      step.row = this.rows.length;
      this.laneRows[step.l].push(step.row);
      push({ t: step.t, step });
    }
    marksUpTo(Infinity);
    if (!this.rows.length) push({ t: 0, mark: { t: 0, c: "info", x: "nothing happened" } });
  }

  // settleSteps gives each step what it does not repeat: values, and the log as it is after the step.
  settleSteps() {
    const values = [];
    const logs = [];
    for (const step of [...this.start, ...this.steps]) {
      values[step.l] = step.v = step.v || values[step.l] || [];
      logs[step.l] = step.log = step.log ? changeLog(logs[step.l], step.log) : logs[step.l];
    }
  }

  // routeMessages finds the row at which each message leaves, and the one that takes it.
  routeMessages() {
    this.blocks = [];
    for (const m of this.messages) {
      m.taken = m.s ? this.steps[m.s - 1] : null;
      m.to = m.taken ? m.taken.row : -1;
      m.from = this.departure(m);
      const end = m.taken ? m.to : m.from + 2;
      for (let b = Math.floor(m.from / blockRows); b <= Math.floor(end / blockRows); b++) {
        (this.blocks[b] ||= []).push(m);
      }
    }
  }

  departure(m) {
    const rows = this.laneRows[m.f];
    let i = countUpTo(rows, m.t, (row) => this.rows[row].t) - 1;
    while (i > 0 && m.taken && rows[i] >= m.to && this.rows[rows[i - 1]].t === m.t) i--;
    const own = i < 0 ? 0 : rows[i];
    if (i >= 0 && this.rows[own].t === m.t) return own;
    const last = countUpTo(this.rows, m.t, (row) => row.t) - 1; // it left later than the step that made it
    return Math.max(own, Math.min(last, m.taken ? m.to - 1 : last));
  }

  placeBands() {
    this.bands = [];
    for (const row of this.rows) {
      if (!row.mark || !row.mark.u) continue;
      const end = countUpTo(this.rows, row.mark.u, (r) => r.t);
      this.bands.push({ mark: row.mark, from: row.index, to: Math.max(end, row.index + 1) });
    }
  }

  // stepOf is the latest step of a lane at a row, or undefined before its first.
  stepOf(lane, row) {
    const rows = this.laneRows[lane];
    const i = countUpTo(rows, row, (r) => r) - 1;
    return i < 0 ? this.start.find((step) => step.l === lane) : this.rows[rows[i]].step;
  }

  // cutAt says which links carry nothing at a row.
  cutAt(row) {
    for (let i = countUpTo(this.stops, row, (r) => r) - 1; i >= 0; i--) {
      const mark = this.rows[this.stops[i]].mark;
      if (mark && mark.cuts) return mark.cut || [];
    }
    return [];
  }

  // crossing is every message of which a part lies between two rows.
  crossing(from, to) {
    const found = new Set();
    for (let b = Math.floor(from / blockRows); b <= Math.floor(to / blockRows); b++) {
      for (const m of this.blocks[b] || []) {
        if (m.from <= to && (m.taken ? m.to : m.from + 2) >= from) found.add(m);
      }
    }
    return found;
  }

  // touching is the messages that a row sends or takes.
  touching(row) {
    const step = this.rows[row].step;
    if (!step) return { sent: [], taken: [] };
    const near = [...this.crossing(row, row)];
    return {
      sent: near.filter((m) => m.from === row && m.f === step.l),
      taken: near.filter((m) => m.taken === step),
    };
  }

  // nextStop is the nearest decision or mark in a direction, or the last row that way.
  nextStop(row, direction) {
    const before = countUpTo(this.stops, direction > 0 ? row : row - 1, (r) => r);
    const stop = this.stops[direction > 0 ? before : before - 1];
    return stop ?? (direction > 0 ? this.rows.length - 1 : 0);
  }

  // rowAt is the last row up to a time; for a mark, the one of its kind at that very time, if there is one.
  rowAt(time, mark) {
    const last = Math.max(0, countUpTo(this.rows, time, (row) => row.t) - 1);
    const alike = mark && this.rows.find((row) => row.t === time && row.mark?.c === mark.c);
    return alike ? alike.index : last;
  }

  // firstRow is where a reader begins: at what went wrong, if something did.
  firstRow() {
    const bad = this.rows.find((r) => r.mark && r.mark.c === "bad");
    return bad ? bad.index : 0;
  }
}

// countUpTo is the number of items whose key is at most max, in a list sorted by key.
function countUpTo(items, max, key) {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(items[middle]) <= max) low = middle + 1;
    else high = middle;
  }
  return low;
}

// changeLog returns the log after a change; logs share what they can.
function changeLog(before, change) {
  let runs = before ? before.runs : [];
  let last = before ? before.last : 0;
  if (change.a !== last || change.r) {
    const kept = [];
    let left = change.a;
    for (const run of runs) {
      if (left <= 0) break;
      kept.push({ ...run, n: Math.min(run.n, left) });
      left -= run.n;
    }
    last = change.a;
    for (const run of change.r || []) {
      const end = kept[kept.length - 1];
      if (end && end.t === run.t && (end.k || "") === (run.k || "")) end.n += run.n;
      else kept.push({ ...run });
      last += run.n;
    }
    runs = kept;
  }
  return { runs, last, durable: change.d || 0, committed: change.c || 0 };
}

// entryAt is the run that holds an index of a log.
function entryAt(log, index) {
  for (const run of log.runs) {
    if (index <= run.n) return run;
    index -= run.n;
  }
  return undefined;
}

// showTime writes a time as people do; wall says that it is one of the calendar.
function showTime(t, wall) {
  if (wall) return new Date(t / 1e6).toISOString().slice(11, 23);
  if (t >= 1e10) return (t / 1e9).toFixed(3) + " s";
  return (t / 1e6).toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 }) + " ms";
}
