// What the page shows. Names and sentences of members go into the document as text, never as markup.

import { latency, ms, draw } from "./live-plot.js";
import { secondsMax } from "./live-state.js";

export const byID = (id) => document.getElementById(id);

// put sets the text of an element, and its class, if they differ.
function put(element, text, className) {
  if (text !== undefined && element.textContent !== String(text)) element.textContent = text;
  if (className !== undefined && element.getAttribute("class") !== className) element.setAttribute("class", className);
  return element;
}

export function make(name, className, ...children) {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

function drawn(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const grouped = (n) => Math.round(n).toLocaleString("en");
const byName = (a, b) => a.localeCompare(b, "en", { numeric: true });

function lasting(milliseconds) {
  const s = Math.max(0, milliseconds / 1000);
  return s < 90 ? `${Math.floor(s)} s` : s < 5400 ? `${Math.floor(s / 60)} min` : s < 172800 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} days`;
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const entryOf = (status, id) => status && Object.values(status.members || {}).find((of) => of.id === id);

// look gathers what is shown about each member.
function look(cluster) {
  const best = cluster.best();
  const ids = new Set(best ? Object.values(best.members || {}).map((of) => of.id) : []);
  for (const m of cluster.members.values()) {
    if (m.id && (m.speaks() || !best || best.role !== "leader")) ids.add(m.id); // a member that has left is gone
  }
  const inDemo = new Map(cluster.demo ? cluster.demo.members.map((of) => [of.id, of]) : []);
  const shown = Array.from(ids).filter((id) => inDemo.get(id)?.state !== "removed").sort(byName);
  const members = shown.map((id) => {
    const m = cluster.members.get(id);
    const speaks = Boolean(m && m.speaks() && m.status);
    const status = m ? m.status : null;
    const entry = entryOf(best, id);
    const local = inDemo.get(id);
    let role = "follower";
    let kind = "";
    let short = "";
    if (!m || !m.origin) [role, kind, short] = ["has no URL, so this page cannot ask it", "gone", "no URL"];
    else if (!speaks) [role, kind] = [m.heard || performance.now() - m.since > 2500 ? "does not answer" : "connecting", "gone"];
    else if (status.error) [role, kind] = ["has ended", "gone"];
    else if (status.role === "leader") [role, kind] = ["leader", "leader"];
    else if (status.role !== "follower") [role, kind] = ["asks for votes", "asks"];
    else if (entry && entry.kind === "learner") [role, kind] = [entry.standing === "joins" ? "catches up" : "learner", "learner"];
    else if (!status.bootstrapped) [role, kind] = ["waits for others", "asks"];
    else if (!status.leader) [role, kind] = ["hears no leader", "asks"];
    if (local && local.state === "cut") [role, short] = [kind === "gone" ? role : `cut off, ${role}`, "cut off"];
    else if (local && local.state !== "running") [role, kind] = [local.state, "gone"];
    return { id, m, status, speaks, entry, role, kind, short: short || role, local };
  });
  return { best, members };
}

// View shows a cluster.
export class View {
  constructor(cluster, act) {
    this.cluster = cluster;
    this.act = act; // carries out the action of a button: of the demo alone
    this.cards = new Map();
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    byID("all").addEventListener("change", () => byID("events").classList.toggle("all", byID("all").checked));
  }

  show() {
    const seen = look(this.cluster);
    this.seen = seen;
    this.head(seen);
    this.demo();
    this.graph(seen);
    this.list(seen);
    this.plots();
    this.links(seen);
    this.doctor(seen);
    this.events();
  }

  head({ best, members }) {
    const name = best ? best.cluster_name : "";
    const silent = !best && members.some((s) => s.m && s.m.heard);
    put(byID("title"), name ? `Cluster ${name}` : "Live cluster");
    document.title = name ? `${name} – live cluster` : "Live cluster";
    let lead = (best && capital(best.leader_reason || "")) || "";
    if (lead && best.leader && best.leader_since) {
      const since = lasting(Date.now() - best.leader_since);
      lead += lead.includes("took over") ? ` (${since} ago)` : `, for ${since}`;
    }
    if (best && best.tolerance) lead += `. ${capital(best.tolerance.replace(/^none: /, "it survives no further failure: "))}.`;
    if (!best) lead = silent ? "No member answers this page. It goes on by itself once one of them does." : "Waiting for the first answer of a member …";
    put(byID("lead"), lead);
    const d = this.cluster.diagnosis;
    if (!best) put(byID("pill"), silent ? "no answer" : "connecting", silent ? "pill outage" : "pill wait");
    else if (!best.leader) put(byID("pill"), best.bootstrapped ? "no leader" : "not begun", "pill outage");
    else if (!d) put(byID("pill"), "asking", "pill wait");
    else put(byID("pill"), d.verdict === "healthy" ? "healthy" : d.severity, `pill ${d.severity || "healthy"}`);
  }

  demo() {
    const d = this.cluster.demo;
    byID("demo").hidden = !d;
    if (!d) return;
    put(byID("acknowledged"), grouped(d.acknowledged));
    put(byID("lost"), grouped(d.lost), d.lost ? "some" : "none");
    put(byID("unknown"), grouped(d.unknown));
    const said = d.said && d.said[d.said.length - 1];
    if (said && (said.number !== this.lastSaid || this.ended)) {
      this.lastSaid = said.number;
      put(byID("said"), said.says);
    }
    const ended = (this.ended = this.cluster.own.broken);
    if (ended) put(byID("said"), "The demo has ended, or its process does not answer.");
    else if (this.lastSaid === undefined) put(byID("said"), "Break something, and watch who takes over.");
    const leads = !ended && this.seen.members.some((s) => s.kind === "leader");
    byID("kill-leader").disabled = !leads;
    byID("restart-all").disabled = ended || !d.members.some((of) => of.state !== "running" && of.state !== "removed");
    byID("add").disabled = !leads;
  }

  // graph shows the members on a ring, and between them what their leader sends.
  graph({ best, members }) {
    const svg = byID("graph");
    const key = members.map((s) => s.id).join("\n");
    if (key !== this.ring) {
      this.ring = key;
      this.places = new Map();
      this.edges = new Map();
      this.nodes = new Map();
      members.forEach((s, i) => {
        const angle = (2 * Math.PI * i) / members.length - Math.PI / 2;
        const wide = members.length > 5 ? 200 : 180;
        this.places.set(s.id, members.length === 1 ? [260, 60] : [260 + wide * Math.cos(angle), 160 + 115 * Math.sin(angle)]);
      });
      const heights = Array.from(this.places.values(), ([, y]) => y);
      svg.setAttribute("viewBox", `0 ${Math.min(...heights) - 42} 520 ${Math.max(...heights) - Math.min(...heights) + 105}`);
      this.dots = drawn("g", {});
      const lines = drawn("g", {});
      const nodes = drawn("g", {});
      members.forEach((a, i) => members.slice(i + 1).forEach((b) => {
        const [[x1, y1], [x2, y2]] = [this.places.get(a.id), this.places.get(b.id)];
        const line = drawn("line", { x1, y1, x2, y2 });
        this.edges.set(`${a.id}\n${b.id}`, line);
        lines.append(line);
      }));
      for (const s of members) {
        const [x, y] = this.places.get(s.id);
        const id = drawn("text", { class: "id", y: 7 });
        const role = drawn("text", { class: "role", y: 52 });
        const g = drawn("g", { transform: `translate(${x} ${y})` }, drawn("circle", { class: "body", r: 33 }), id, role);
        this.nodes.set(s.id, { g, id, role });
        nodes.append(g);
      }
      svg.replaceChildren(lines, this.dots, nodes);
    }
    const leader = best && best.leader;
    members.forEach((a, i) => members.slice(i + 1).forEach((b) => {
      const works = [hears(a, b.id), hears(b, a.id)];
      const name = works.includes(false) ? "broken" : works.includes(true) ? (a.id === leader || b.id === leader ? "active" : "") : "unknown";
      put(this.edges.get(`${a.id}\n${b.id}`), undefined, `link ${name}`);
    }));
    for (const s of members) {
      const node = this.nodes.get(s.id);
      put(node.g, undefined, s.kind);
      put(node.id, s.id.length > 7 ? `${s.id.slice(0, 6)}…` : s.id);
      put(node.role, s.short);
    }
  }

  // moving shows what the status of a member that has just come tells of its messages.
  moving(m) {
    if (!m.status || this.still.matches || document.hidden || !this.places || !this.places.has(m.id)) return;
    const s = m.status;
    for (const [incarnation, of] of Object.entries(s.members || {})) {
      if (of.id === m.id || !this.places.has(of.id) || !of.connected) continue;
      if (s.role === "candidate" || s.role === "pre-candidate") this.send(m.id, of.id, "vote", 0, 4);
      if (s.role !== "leader") continue;
      const entries = m.moved[incarnation] || 0;
      if (entries <= 0) {
        if (of.last_contact_ms >= 0 && of.last_contact_ms < 1000) this.send(m.id, of.id, "beat", 0, 3);
        continue;
      }
      const count = Math.min(4, 1 + Math.floor(Math.log2(entries) / 2));
      for (let i = 0; i < count; i++) {
        this.send(m.id, of.id, "entries", (i * 1000) / count, 5);
        this.send(of.id, m.id, "ack", (i * 1000) / count + 480, 3.5);
      }
    }
  }

  send(from, to, kind, delay, r) {
    if (this.dots.childElementCount > 150) return;
    const [[x1, y1], [x2, y2]] = [this.places.get(from), this.places.get(to)];
    const dot = drawn("circle", { class: `dot ${kind}`, r });
    this.dots.append(dot);
    const steps = [{ transform: `translate(${x1}px, ${y1}px)` }, { transform: `translate(${x2}px, ${y2}px)` }];
    const run = dot.animate(steps, { duration: 480, delay, easing: "ease-in-out", fill: "backwards" });
    run.onfinish = run.oncancel = () => dot.remove();
  }

  list({ best, members }) {
    const logs = members.filter((s) => s.status && s.status.last);
    const from = Math.min(...logs.map((s) => s.status.base || 0));
    const to = Math.max(...logs.map((s) => s.status.last));
    put(byID("scale"), logs.length && to > from ? `The bars show the logs from entry ${grouped(from + 1)} to ${grouped(to)}: applied, and not yet applied. ` +
      "Earlier entries are in snapshots." : "");
    const names = new Set(members.map((s) => s.id));
    for (const [id, card] of this.cards) {
      if (names.has(id)) continue;
      card.root.remove();
      this.cards.delete(id);
    }
    members.forEach((s, i) => {
      let card = this.cards.get(s.id);
      if (!card) this.cards.set(s.id, (card = newCard(s.id)));
      if (byID("members").children[i] !== card.root) byID("members").insertBefore(card.root, byID("members").children[i] || null);
      this.card(card, s, best, from, to);
    });
  }

  card(card, s, best, from, to) {
    put(card.root, undefined, `member ${s.kind}${s.entry && s.entry.problem && s.kind !== "gone" ? " trouble" : ""}`);
    put(card.role, s.role);
    const turn = s.speaks && best ? (best.successors || []).indexOf(s.id) : -1;
    const notes = [];
    if (turn >= 0) notes.push(turn === 0 ? "would take over" : turn === 1 ? `takes over if ${best.successors[0]} cannot` : `${turn + 1}${turn === 2 ? "rd" : "th"} in line`);
    const priority = s.entry && s.entry.priority;
    if (priority !== undefined && priority !== null && priority !== 1) notes.push(priority === 0 ? "never leads" : `priority ${priority}`);
    put(card.next, notes.join(" · "));
    const status = s.status || {};
    put(card.term, s.status ? status.term : "–");
    put(card.commit, s.status ? grouped(status.commit) : "–");
    const lag = s.entry && best && best.role === "leader" && best.id !== s.id ? Math.max(0, best.last - (s.entry.match || s.status?.last || 0)) : s.status && best ? Math.max(0, best.last - status.last) : 0;
    put(card.lag, s.status ? grouped(lag) : "–");
    put(card.age, s.speaks ? (status.age_ms ? `${(status.age_ms / 1000).toFixed(1)} s` : "–") : s.m && s.m.heard ? lasting(performance.now() - s.m.heard) : "–");
    const share = (index) => `${to > from ? Math.max(0, Math.min(100, (100 * (index - from)) / (to - from))) : 0}%`;
    const span = (bar, a, b) => {
      const [left, width] = [share(a), `calc(${share(b)} - ${share(a)})`];
      if (bar.dataset.at === left + width) return;
      bar.dataset.at = left + width;
      bar.style.left = left;
      bar.style.width = width;
    };
    span(card.applied, status.base || 0, status.applied || 0);
    span(card.known, status.applied || 0, status.last || 0);
    const sending = best && best.snapshot && best.snapshot.sending;
    const problems = [];
    if (sending && sending.peer === s.id) {
      problems.push(`gets a snapshot from ${best.id}${sending.total > 0 ? `: ${Math.floor((100 * sending.done) / sending.total)} %` : ""}`);
    }
    if (s.speaks && status.error) problems.push(status.error);
    else if (s.entry && s.entry.problem && s.kind !== "leader") problems.push(s.entry.problem);
    put(card.problem, problems.join(" · "));
    card.problem.hidden = problems.length === 0;
    this.buttons(card, s);
  }

  // buttons shows what the demo can do to a member.
  buttons(card, s) {
    const state = s.local && s.local.state;
    if (card.state === state) return;
    card.state = state;
    const able = {
      running: ["kill", "freeze", "cut", "replace", "remove"], cut: ["heal", "kill", "freeze"], frozen: ["resume", "kill"], down: ["restart", "replace", "remove"],
    }[state] || [];
    card.buttons.hidden = able.length === 0;
    card.buttons.replaceChildren(...able.filter((name) => name !== "freeze" || this.cluster.demo.freezes).map((name) => {
      const button = make("button", name === "kill" || name === "remove" ? "danger" : "", labels[name]);
      button.type = "button";
      button.dataset.act = name;
      button.setAttribute("aria-label", `${labels[name]} ${s.id}`);
      if (name === "replace") button.title = "Empty its disk: it joins anew, and takes its former place";
      if (name === "cut") button.title = "Lose all messages between it and the other members";
      button.addEventListener("click", () => this.act(name, s.id));
      return button;
    }));
  }

  plots() {
    const now = performance.now() / 1000;
    const to = Math.floor(now) - 1; // the present second is not over, and statuses come a second apart
    const all = this.cluster.seconds;
    const bins = new Map(all.map((bin) => [bin.at, bin]));
    const first = all.length ? Math.max(all[0].at, to - secondsMax) : to;
    const around = (second) => [second - 1, second, second + 1].map((at) => bins.get(at)).filter(Boolean);
    const rate = [];
    const mean = [];
    const most = [];
    for (let second = first; second <= to - 1; second++) {
      const near = around(second);
      const took = latency(near);
      rate.push([second, near.length ? near.reduce((sum, bin) => sum + bin.count, 0) / near.length : 0]);
      mean.push([second, took && took.mean]);
      most.push([second, took && took.most]);
    }
    draw(byID("rate-plot"), to, [{ points: rate, colour: "--lead", filled: true }], "", 10);
    draw(byID("latency-plot"), to, [{ points: mean, colour: "--lead", filled: true }, { points: most, colour: "--ask", dashed: true }], " ms", 1);
    const last = rate[rate.length - 1];
    put(byID("rate"), last ? grouped(last[1]) : "–");
    const took = latency(around(to - 1));
    put(byID("latency"), took ? `${ms(took.mean)}, p99 ${ms(took.most)}` : "–");
  }

  links({ members }) {
    const rows = members.map((a) => ({ id: a.id, cells: members.map((b) => cell(a, b)) }));
    const key = JSON.stringify(rows);
    if (key === this.table) return;
    this.table = key;
    const head = make("tr", "", make("td", "self"), ...members.map((s) => make("th", "", s.id)));
    const body = rows.map((row) => make("tr", "", make("th", "", row.id), ...row.cells.map((c) => {
      const td = make("td", c.name, c.text);
      if (c.says) td.title = c.says;
      return td;
    })));
    byID("links").replaceChildren(make("thead", "", head), make("tbody", "", ...body));
  }

  doctor({ best }) {
    const d = best ? this.cluster.diagnosis : null; // an old one tells nothing
    const list = byID("findings");
    const key = d ? JSON.stringify([d.findings, d.by]) : String(Boolean(best));
    put(byID("verdict"), d ? d.verdict : "–", d ? d.severity || "healthy" : "");
    if (key === this.findings) return;
    this.findings = key;
    if (!d) {
      list.replaceChildren(make("p", "note", best ? "Asking the members …" : "No member can be asked."));
      return;
    }
    if (!d.findings || d.findings.length === 0) {
      list.replaceChildren(make("p", "note", `Nothing is wrong with the cluster or its members, says ${d.by}, which has asked all of them.`));
      return;
    }
    list.replaceChildren(...d.findings.map((f) => {
      const link = make("a", "", f.runbook);
      link.href = `https://github.com/coxswain/raft/blob/main/${f.runbook}`;
      link.target = "_blank";
      link.rel = "noreferrer";
      const what = make("p", "", make("span", `tag ${f.severity}`, f.severity), make("b", "", f.verdict), f.member ? ` – ${f.member}` : "");
      const finding = make("div", "finding", what, make("p", "", f.says), make("p", "next", "First: ", f.next, " · ", link));
      if (f.evidence && f.evidence.length) finding.title = f.evidence.join("\n");
      return finding;
    }));
  }

  events() {
    const list = this.cluster.happened;
    const key = list.length ? list[0].key + list.length + list[list.length - 1].key : "";
    if (key === this.shown) return;
    this.shown = key;
    byID("events").replaceChildren(...list.map((h) => {
      const at = new Date(h.at);
      const time = make("time", "", at.toLocaleTimeString([], { hour12: false }) + "." + String(at.getMilliseconds()).padStart(3, "0"));
      time.dateTime = at.toISOString();
      const minor = h.kind === "link" || h.kind === "snapshot";
      return make("li", `of-${h.kind}${minor ? " minor" : ""}`, time, make("span", "", h.id ? make("b", "", `${h.id} `) : "", h.says));
    }));
  }
}

const labels = {
  kill: "Kill", freeze: "Freeze", resume: "Resume", cut: "Cut off", heal: "Reconnect", restart: "Restart", replace: "Replace", remove: "Remove",
};

// hears reports whether a member hears another one; null: nobody knows.
function hears(s, id) {
  if (!s.speaks) return null;
  const of = entryOf(s.status, id);
  return of ? of.connected && of.verdict !== "not heard" : null;
}

function cell(a, b) {
  if (a.id === b.id) return { name: "self", text: "" };
  const works = hears(a, b.id);
  if (works === null) return { name: "unknown", text: "?", says: `${a.id} does not answer` };
  const of = entryOf(a.status, b.id);
  return works ? { name: "yes", text: of.round_trip_ms ? ms(of.round_trip_ms) : "✓" } : { name: "no", text: "✗", says: of.connection_error || of.problem };
}

function newCard(id) {
  const b = () => make("b");
  const card = {
    root: make("article", "member"), role: make("span", "role"), next: make("span", "next"), term: b(), commit: b(), lag: b(), age: b(),
    applied: make("i", "applied"), known: make("i", "known"), problem: make("p", "problem"), buttons: make("div", "buttons"),
  };
  card.root.dataset.member = id;
  card.problem.hidden = card.buttons.hidden = true;
  const value = (name, element) => make("span", "", `${name} `, element);
  const values = make("div", "values", value("term", card.term), value("committed", card.commit), value("lag", card.lag), value("age", card.age));
  card.root.append(make("div", "head", make("span", "name", id), card.role, card.next, values), make("div", "log", card.applied, card.known), card.problem, card.buttons);
  return card;
}
