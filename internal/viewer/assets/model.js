"use strict";
// Model is a diagram (see model.go) prepared for drawing. A row is a step or a mark. Rows are evenly spaced, so that many
// steps within a millisecond are as readable as a second without any.

const blockRows = 64; // messages are indexed by the blocks of rows that they cross

class Model {
  constructor(diagram) {
    Object.assign(this, { at: [], values: [], start: [], marks: [], warnings: [], text: "", number: "" }, diagram);
    this.layRows();
    this.settleSteps();
    this.routeMessages();
    this.stops = this.rows.filter((r) => r.mark || r.step.m).map((r) => r.index);
    this.placeBands();
  }

  // layRows merges steps and marks in the order of time. A failure comes after the steps of the same time.
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

  // settleSteps fills in what steps leave out because it did not change: the values, and the log after the step.
  settleSteps() {
    const values = [];
    const logs = [];
    for (const step of [...this.start, ...this.steps]) {
      values[step.l] = step.v = step.v || values[step.l] || [];
      logs[step.l] = step.log = step.log ? changeLog(logs[step.l], step.log) : logs[step.l];
    }
  }

  // routeMessages finds the rows at which each message leaves and arrives.
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
    const last = countUpTo(this.rows, m.t, (row) => row.t) - 1; // the message left later than the step that created it
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

  // stepOf returns the latest step of a lane at a row; before the first step, the lane's start, if it has one.
  stepOf(lane, row) {
    const rows = this.laneRows[lane];
    const i = countUpTo(rows, row, (r) => r) - 1;
    return i < 0 ? this.start.find((step) => step.l === lane) : this.rows[rows[i]].step;
  }

  // cutAt returns the links that are cut at a row.
  cutAt(row) {
    for (let i = countUpTo(this.stops, row, (r) => r) - 1; i >= 0; i--) {
      const mark = this.rows[this.stops[i]].mark;
      if (mark && mark.cuts) return mark.cut || [];
    }
    return [];
  }

  // crossing returns all messages whose arrows lie at least in part between two rows.
  crossing(from, to) {
    const found = new Set();
    for (let b = Math.floor(from / blockRows); b <= Math.floor(to / blockRows); b++) {
      for (const m of this.blocks[b] || []) {
        if (m.from <= to && (m.taken ? m.to : m.from + 2) >= from) found.add(m);
      }
    }
    return found;
  }

  // touching returns the messages that a row sends or receives.
  touching(row) {
    const step = this.rows[row].step;
    if (!step) return { sent: [], taken: [] };
    const near = [...this.crossing(row, row)];
    return {
      sent: near.filter((m) => m.from === row && m.f === step.l),
      taken: near.filter((m) => m.taken === step),
    };
  }

  // nextStop returns the nearest decision or mark in a direction, or the last row in that direction.
  nextStop(row, direction) {
    const before = countUpTo(this.stops, direction > 0 ? row : row - 1, (r) => r);
    const stop = this.stops[direction > 0 ? before : before - 1];
    return stop ?? (direction > 0 ? this.rows.length - 1 : 0);
  }

  // rowAt returns the last row up to a time; for a mark, the row of a mark of its kind at the same time, if there is one.
  rowAt(time, mark) {
    const last = Math.max(0, countUpTo(this.rows, time, (row) => row.t) - 1);
    const alike = mark && this.rows.find((row) => row.t === time && row.mark?.c === mark.c);
    return alike ? alike.index : last;
  }

  // firstRow returns the row at which a reader begins: that of the first failure, if there is one.
  firstRow() {
    const bad = this.rows.find((r) => r.mark && r.mark.c === "bad");
    return bad ? bad.index : 0;
  }
}

// countUpTo returns how many items of a list that is sorted by key have a key of at most max.
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

// changeLog returns the log after a change. Logs share unchanged runs.
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

// entryAt returns the run that holds an index of a log.
function entryAt(log, index) {
  for (const run of log.runs) {
    if (index <= run.n) return run;
    index -= run.n;
  }
  return undefined;
}

// showTime formats a time; wall says that it is a time of day and not a duration.
function showTime(t, wall) {
  if (wall) return new Date(t / 1e6).toISOString().slice(11, 23);
  if (t >= 1e10) return (t / 1e9).toFixed(3) + " s";
  return (t / 1e6).toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 }) + " ms";
}
