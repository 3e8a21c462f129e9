// Makes diagrams of traces of simulated runs, and of the trace events that nodes wrote. Both are NDJSON; fuzzy/trace.go and
// node/history.go define the lines.

const traceFormats = [1];
const notesFormats = [1];
const electionLab = "go run -C elections ./cmd/electionlab"; // in a checkout
const linesMax = 60_000; // maximum number of lines to draw; of a longer trace, the last ones are drawn
const formats = "there are traces of version " + traceFormats.join(", ") + " and trace events of version " + notesFormats.join(", ");
const raftStates = [
  { name: "follower", letter: "F", tone: "calm" },
  { name: "pre-candidate", letter: "P", tone: "ask" },
  { name: "candidate", letter: "C", tone: "ask" },
  { name: "leader", letter: "L", tone: "lead" },
  { name: "down", letter: "X", tone: "down" },
];
const stateOf = (name) => Math.max(0, raftStates.findIndex((state) => state.name === name));
const down = stateOf("down");

addReader((files) => {
  const read = files.map(readLines);
  const traces = read.filter((file) => file.first.kind === "begin");
  const notes = read.filter((file) => file.first.kind === "notes");
  const made = traces.map(diagramOfTrace);
  if (notes.length) made.push(diagramOfNotes(notes));
  return made;
});

// readLines parses a file. It refuses files that are incomplete or of an unknown version.
function readLines({ name, text }) {
  const refuse = (problem) => { throw new Error(`${name}: ${problem}; ${formats}`); };
  const lines = text.split("\n").filter((line) => line.trim());
  if (!lines.length) refuse("it is empty");
  const records = lines.map((line, i) => {
    const record = parse(line);
    if (record && typeof record === "object") return record;
    return refuse(`line ${i + 1}: ` + (i && i === lines.length - 1 ? "it breaks off: the file was cut short" : "it is not a JSON object"));
  });
  const [first] = records;
  if (first.kind === "begin" && first.n) {
    refuse(`line 1: it is a trace of the election lab, which ${electionLab} trace ${first.text} ${first.n} ${first.seed} prints`);
  }
  const known = { begin: traceFormats, notes: notesFormats }[first.kind];
  if (!known) refuse(`line 1: it is of kind "${first.kind || ""}": this is neither a trace nor trace events`);
  if (!known.includes(first.format)) {
    refuse(`line 1: ${first.kind === "begin" ? "a trace" : "trace events"} of version ${first.format || 0}`);
  }
  if (first.kind === "begin" && !first.nodes?.length) refuse("line 1: a trace that names no nodes");
  records.slice(1).forEach((record, i) => {
    if (!record.kind) refuse(`line ${i + 2}: it has no kind`);
    if (records[i].kind === "end") refuse(`line ${i + 2}: it follows the end: one file holds one trace, or the trace events of one node`);
  });
  if (records[records.length - 1].kind !== "end") {
    refuse(`line ${lines.length}: the last line is not of kind "end": the file was cut short`);
  }
  return { name, first, records };
}

function parse(line) {
  try { return JSON.parse(line); } catch { return null; }
}

// diagramOfTrace draws every step, message and fault of a run.
function diagramOfTrace({ name, first, records }) {
  const lanes = first.nodes.map((id) => ({ name: id, text: "" }));
  const voters = first.profile ? first.profile.Voters : lanes.length;
  lanes.forEach((lane, i) => { if (i >= voters) lane.text = "learner"; });
  const d = { title: first.seed || name, number: "term", values: ["leader", "last", "persisted", "commit", "applied"],
    lanes, states: raftStates, steps: [], messages: [], marks: [], warnings: [] };
  const trace = new TraceDrawing(name, d, new Map(first.nodes.map((id, i) => [id, i])));
  const skipped = Math.max(0, records.length - linesMax);
  records.forEach((record, i) => trace.add(record, i < skipped));
  if (skipped) {
    d.warnings.push(`The trace has ${records.length.toLocaleString("en")} lines. The page draws the last ${linesMax.toLocaleString("en")}, ` +
      `from ${showTime(records[skipped].time)} on; use --format text to read the rest.`);
  }
  const last = records[records.length - 1];
  if (last.text) d.marks.push({ t: last.time, c: "info", x: "no second phase: " + last.text });
  return d;
}

class TraceDrawing {
  constructor(name, diagram, lanes) {
    Object.assign(this, { name, d: diagram, lanes, sends: new Map(), logs: [], commits: [], terms: [], lasting: new Map(), shown: new Set() });
  }

  // add adds a record. A skipped record only changes the logs.
  add(record, skipped) {
    const lane = this.lanes.get(record.node);
    for (const node of [record.node, record.to]) {
      if (node && !this.lanes.has(node)) throw new Error(`${this.name}: line ${record.seq}: there is no node "${node}"; ${formats}`);
    }
    if (skipped) {
      if (record.log) this.logs[lane] = changeLog(this.logs[lane], { a: record.log.after, r: runs(record.log) });
      return;
    }
    switch (record.kind) {
      case "start":
      case "step": return this.step(record, lane);
      case "send": return this.send(record, lane);
      case "crash": return this.crash(record, lane);
      case "fault": return this.fault(record);
      case "heal": return void this.d.marks.push({ t: record.time, c: "info", x: "second phase: " + record.text });
      case "failure": return void this.d.marks.push({ t: record.time, c: "bad", x: record.text });
    }
  }

  crash(r, lane) {
    this.d.steps.push({ t: r.time, l: lane, s: down, n: this.terms[lane] || 0, m: true, x: "the process died" });
  }

  step(r, lane) {
    this.terms[lane] = r.term;
    const notes = r.notes || [];
    const took = summary(r.events);
    const starts = r.kind === "start" ? ["the process starts"] : [];
    const [last, term] = r.last || [0, 0];
    const decided = [...starts, ...notes];
    const done = [...(decided.length ? decided : [took]), ...this.progress(r, lane, last)];
    this.d.steps.push({
      t: r.time, l: lane, s: stateOf(r.role), n: r.term || 0,
      x: done.join("; "), m: decided.length > 0,
      d: [...(notes.length && took ? ["took " + took] : []), ...(r.write ? ["writes " + r.write] : [])],
      v: [r.leader || "–", `${last}@${term}`, String(r.persisted || 0), String(r.commit || 0), String(r.applied || 0)],
      log: this.log(r, lane, last),
    });
    for (const id of r.receives || []) this.receive(id, this.d.steps.length);
  }

  // progress describes how the step changed the log.
  progress(r, lane, last) {
    const before = this.commits[lane] || 0;
    this.commits[lane] = r.commit || 0;
    const parts = [];
    const added = r.kind === "step" && r.log ? last - r.log.after : 0;
    if (added === 1) parts.push(`append entry ${last}`);
    if (added > 1) parts.push(`append entries ${r.log.after + 1} to ${last}`);
    if (r.kind === "step" && r.commit > before) parts.push(`commit up to ${r.commit}`);
    return parts;
  }

  // log returns the change of the log by the step. The first change of a lane holds the whole log.
  log(r, lane, last) {
    const ends = { d: r.persisted || 0, c: r.commit || 0 };
    const before = this.shown.has(lane) ? null : this.logs[lane];
    this.shown.add(lane);
    if (!before) return { a: r.log ? r.log.after : last, r: r.log && runs(r.log), ...ends };
    const whole = r.log ? changeLog(before, { a: r.log.after, r: runs(r.log) }) : before;
    return { a: 0, r: whole.runs, ...ends };
  }

  send(r, lane) {
    const m = { f: lane, o: this.lanes.get(r.to), t: r.time, k: r.message, x: r.text };
    if (/Vote|TimeoutNow/.test(r.message)) m.c = "ask";
    this.sends.set(r.id, m);
    this.d.messages.push(m);
  }

  // receive records that a step receives a message. The network may deliver a message twice.
  receive(id, step) {
    const m = this.sends.get(id);
    if (!m) return; // it was sent before the first line that is drawn
    if (!m.s) m.s = step;
    else this.d.messages.push({ ...m, s: step, x: m.x + " (delivered again)" });
  }

  // fault adds a mark for a fault. For the end of a fault, it sets the end of its mark.
  fault(r) {
    const mark = { t: r.time, c: "warn", x: r.text };
    if (r.cut) {
      mark.cuts = true;
      mark.cut = r.cut.map(([from, to]) => [this.lanes.get(from), this.lanes.get(to)]);
    }
    const [, kind, how] = /^(.*?) (at|ends|that)/.exec(r.text) || [];
    const key = r.cut ? "links" : kind;
    const open = this.lasting.get(key);
    if (open && (r.cut || how)) {
      open.u = r.time;
      this.lasting.delete(key);
    }
    if (r.cut ? r.cut.length : ["slow", "drift"].includes(kind) && how === "at") this.lasting.set(key, mark);
    this.d.marks.push(mark);
  }
}

const runs = (log) => (log.runs || []).map((run) => ({ t: run.term, n: run.count, k: run.kind }));

// summary lists the events of a step: "2 × AppendReply from b, Persisted".
function summary(events) {
  const counts = new Map();
  for (const event of events || []) counts.set(event, (counts.get(event) || 0) + 1);
  return [...counts].map(([event, n]) => (n > 1 ? `${n} × ` : "") + event).join(", ") || "a timer went off";
}

// diagramOfNotes shows the trace events of several nodes side by side, by the clocks of their machines.
function diagramOfNotes(files) {
  const d = { title: files.map((file) => file.first.node).join(", "), wall: true, number: "term",
    lanes: files.map((file) => ({ name: file.first.node })), states: raftStates, steps: [], messages: [], marks: [],
    text: files.length > 1 ? "Each node noted these decisions with the time of its own clock: if the clocks differ, the columns are shifted against each other." : "",
    warnings: [] };
  files.forEach(({ name, first, records }, lane) => {
    if (first.dropped) d.warnings.push(`${name} begins late: ${first.node} kept only its latest trace events.`);
    if (files.some((other, i) => i < lane && other.first.node === first.node)) {
      throw new Error(`${name}: another file has trace events of ${first.node}, too`);
    }
    notesOf(records, lane, d);
  });
  d.steps.sort((a, b) => a.t - b.t);
  d.marks.sort((a, b) => a.t - b.t);
  return d;
}

// notesOf joins the trace events of one Step of the core, which have the same time.
function notesOf(records, lane, d) {
  let state = 0;
  let step = null;
  for (const r of records.slice(1)) {
    if (r.role) state = stateOf(r.role);
    if (r.kind === "end") {
      if (!r.text) continue;
      d.steps.push({ t: r.time, l: lane, s: down, n: step ? step.n : 0, x: "the node ended by itself" });
      d.marks.push({ t: r.time, l: [lane], c: "bad", x: `${d.lanes[lane].name} ended: ${r.text}` });
    } else if (step && step.t === r.time) {
      Object.assign(step, { x: step.x + "; " + r.text, s: state, n: r.term || 0 });
    } else {
      step = { t: r.time, l: lane, s: state, n: r.term || 0, x: r.text, m: true };
      d.steps.push(step);
    }
  }
}
