// What the page knows: a stream from each member, and what follows from all of them. Nothing here touches the document.

export const silentAfter = 3000; // ms without a message: a member that runs sends one a second
const reopenAfter = 12000; // ms of silence after which a stream is opened anew: its connection may be dead
const reopenPause = 1000; // ms between two attempts to open one
const happenedMax = 300;
export const secondsMax = 300; // of the plots

// merge applies a merge patch (RFC 7396).
export function merge(target, patch) {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  const out = target !== null && typeof target === "object" && !Array.isArray(target) ? target : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete out[name];
    else out[name] = merge(out[name], value);
  }
  return out;
}

export function originOf(text) {
  try {
    const url = new URL(text);
    return url.protocol === "http:" || url.protocol === "https:" ? url.origin : "";
  } catch {
    return "";
  }
}

// Member is one member: what it says about itself, and how its stream does.
class Member {
  constructor(id, origin) {
    this.id = id;
    this.origin = origin; // "": it has no URL, so it cannot be asked
    this.status = null; // the last one that it sent
    this.heard = 0; // when; 0: never
    this.since = performance.now(); // when it was first asked
    this.moved = {}; // entries that each other member has got since the last look, by incarnation: only of a leader
    this.broken = false; // whether its stream has ended
    this.said = true; // whether its present silence is in the list of events
  }

  // speaks reports whether the member has said something lately. What a silent one has said is out of date.
  speaks() {
    return this.heard > 0 && !this.broken && performance.now() - this.heard < silentAfter;
  }
}

// Cluster opens a stream from the origin that has served the page, and then from each member that a status names.
export class Cluster {
  constructor(changed) {
    this.changed = changed; // called after each message
    this.path = location.pathname.replace(/[^/]*$/, "");
    this.members = new Map(); // by id
    this.own = new Member("", location.origin); // whoever has served the page
    this.demo = null; // the state of the demo, if it has served the page
    this.happened = []; // the newest first
    this.known = new Set(); // what is in happened
    this.seconds = []; // of writes, oldest first
    this.standings = null; // of the members, as the last leader said
    this.diagnosis = null;
    this.asked = 0; // when the members were last asked for a diagnosis
    this.told = ""; // the findings of all members at that time
    this.open(this.own);
    setInterval(() => this.tend(), 500);
  }

  // open opens the stream of a member.
  open(m) {
    if (!m.origin) return;
    m.opened = performance.now();
    const at = m.status ? `?start=${m.status.start_count}&after=${m.after || 0}` : "";
    const source = new EventSource(m.origin + this.path + "events" + at);
    m.source = source;
    let whole = true;
    const on = (name, use) => source.addEventListener(name, (event) => {
      if (m.source !== source) return;
      m.heard = performance.now();
      use(JSON.parse(event.data));
      this.changed(m);
    });
    on("status", (patch) => {
      const before = m.status;
      m.status = merge(whole ? {} : m.status, patch);
      if (whole) this.greet(m, before);
      whole = false;
      this.learn(m, before, patch);
    });
    on("happened", (list) => list.forEach((h) => this.add(m.id, h)));
    on("demo", (patch) => {
      this.demo = merge(whole ? {} : this.demo, patch);
      whole = m.broken = false;
      this.learnDemo();
    });
    source.onerror = () => {
      if (m.source !== source) return;
      source.close();
      m.source = null;
      m.broken = true;
      this.changed(null);
    };
  }

  // greet notes who a stream is from.
  greet(m, before) {
    if (m === this.own && m.id !== m.status.id) {
      const other = this.members.get(m.status.id);
      if (other && other !== m) this.close(other);
      m.id = m.status.id;
      this.members.set(m.id, m);
    }
    if (before && before.start_count !== m.status.start_count) m.totals = null;
    m.broken = false;
  }

  close(m) {
    if (m.source) m.source.close();
    m.source = null;
    this.members.delete(m.id);
  }

  // tend opens broken streams anew, and says which members have fallen silent.
  tend() {
    const now = performance.now();
    for (const m of new Set([this.own, ...this.members.values()])) {
      const quiet = now - Math.max(m.heard, m.opened || 0);
      if (m.source && quiet > reopenAfter) {
        m.source.close();
        m.source = null;
      }
      if (!m.source && now - (m.opened || 0) > reopenPause) this.open(m);
      if (m.said && m.id && !m.speaks() && (m.broken || quiet > silentAfter)) {
        m.said = false;
        this.note(m.id, "trouble", "does not answer this page");
      }
    }
    this.diagnose();
    this.changed(null);
  }

  // best returns the status of the member that knows most: the leader of the latest term, or a member that knows it.
  best() {
    let best = null;
    const rank = (s) => (s.error || s.wiped || !s.bootstrapped ? 0 : s.role === "leader" ? 3 : s.leader ? 2 : 1);
    for (const m of this.members.values()) {
      if (!m.speaks() || !m.status) continue;
      const s = m.status;
      const better = best && (Math.min(rank(s), 2) - Math.min(rank(best), 2) || s.term - best.term || rank(s) - rank(best));
      if (!best || better > 0) best = s;
    }
    return best;
  }

  // learn takes over what follows from a new status.
  learn(m, before, patch) {
    const s = m.status;
    if (!m.said) this.note(m.id, "good", "answers again"); // on the same connection, if it was only stopped
    m.said = true;
    this.count(m);
    m.moved = {};
    if (patch.members) {
      for (const [incarnation, of] of Object.entries(patch.members)) {
        if (of && of.match && m.matched) m.moved[incarnation] = of.match - (m.matched[incarnation] || of.match);
      }
    }
    m.matched = Object.fromEntries(Object.entries(s.members || {}).map(([incarnation, of]) => [incarnation, of.match]));
    this.follow(s);
  }

  // follow opens streams of new members, and closes those of members that have left, as the best informed member says.
  follow(s) {
    const best = this.best() || s;
    const now = new Map(Object.values(best.members || {}).map((of) => [of.id, of]));
    for (const of of now.values()) this.meet(of.id, originOf(of.url));
    if (best.role !== "leader") return;
    const standings = new Map(Array.from(now.values(), (of) => [of.id, of.standing || "voter"]));
    if (this.standings) {
      for (const [id, standing] of standings) {
        const was = this.standings.get(id);
        if (was === standing) continue;
        this.note(id, "member", (was ? words : arrivals)[standing] || standing);
      }
      for (const id of this.standings.keys()) {
        if (!standings.has(id)) this.note(id, "member", "has left the cluster");
      }
    }
    this.standings = standings;
    for (const m of this.members.values()) {
      if (!now.has(m.id) && m !== this.own) this.close(m);
    }
  }

  // meet makes sure that there is a stream from a member.
  meet(id, origin) {
    if (this.own.id === id || (this.own.id === "" && origin === location.origin && !this.demo)) return;
    const m = this.members.get(id);
    if (m && m.origin === origin) return;
    if (m) this.close(m);
    const met = new Member(id, origin);
    this.members.set(id, met);
    this.open(met);
  }

  learnDemo() {
    for (const of of this.demo.members || []) {
      if (of.state !== "removed") this.meet(of.id, originOf(of.url));
    }
    for (const said of this.demo.said || []) {
      this.add("", { start: 0, number: said.number, at: said.at, kind: "demo", says: said.says });
    }
  }

  // add adds something that has happened to the list, once.
  add(id, h) {
    const m = this.members.get(id) || (this.own.id === id ? this.own : null);
    if (m && h.start) m.after = h.number;
    const key = `${id}:${h.start}:${h.number}`;
    if (this.known.has(key)) return;
    this.known.add(key);
    const at = this.happened.findIndex((other) => other.at <= h.at);
    this.happened.splice(at < 0 ? this.happened.length : at, 0, { id, at: h.at, kind: h.kind, says: h.says, key });
    this.happened.length = Math.min(this.happened.length, happenedMax);
    if (this.known.size > 10 * happenedMax) this.known = new Set(this.happened.map((other) => other.key));
  }

  note(id, kind, says) {
    this.notes = (this.notes || 0) + 1;
    this.add(id, { start: 0, number: this.notes, at: Date.now(), kind, says });
  }

  // count spreads the writes since the last status over the seconds between the two.
  count(m) {
    const now = performance.now();
    const w = m.status.writes;
    const was = m.totals;
    m.totals = { at: now, count: w.count, sum: w.sum_ms, took: { ...w.took } };
    if (!was || was.at < now - secondsMax * 1000 || w.count < was.count) return;
    const from = was.at / 1000;
    const to = now / 1000;
    for (let second = Math.floor(from); second <= Math.floor(to); second++) {
      const share = (Math.min(to, second + 1) - Math.max(from, second)) / (to - from || 1);
      const bin = this.second(second);
      bin.count += share * (w.count - was.count);
      bin.sum += share * (w.sum_ms - was.sum);
      for (const [bound, count] of Object.entries(w.took)) {
        const more = count - (was.took[bound] || 0);
        if (more > 0) bin.took.set(bound, (bin.took.get(bound) || 0) + share * more);
      }
    }
  }

  // second returns the bin of a second.
  second(at) {
    let i = this.seconds.length;
    while (i > 0 && this.seconds[i - 1].at > at) i--;
    if (i > 0 && this.seconds[i - 1].at === at) return this.seconds[i - 1];
    const bin = { at, count: 0, sum: 0, took: new Map() };
    this.seconds.splice(i, 0, bin);
    if (this.seconds.length > secondsMax + 2) this.seconds.shift();
    return bin;
  }

  // diagnose asks a member for what the doctor finds: soon after the members' own findings have changed, and from time to time.
  async diagnose() {
    const found = (m) => (m.status.findings || []).map((f) => [f.verdict, f.member]);
    const told = JSON.stringify(Array.from(this.members.values(), (m) => [m.id, m.speaks() && m.status ? [found(m), m.status.role] : 0]));
    const age = performance.now() - this.asked;
    const wrong = this.diagnosis && this.diagnosis.verdict !== "healthy";
    if (this.asking || age < (told !== this.told || this.again ? 1200 : wrong ? 5000 : 15000)) return;
    const able = Array.from(this.members.values()).filter((m) => m.speaks() && m.origin);
    const best = this.best();
    const m = able.find((of) => best && of.status === best) || able[0];
    if (!m) return;
    this.asking = true;
    this.again = told !== this.told; // members may have been in the middle of a change: look once more
    this.told = told;
    this.asked = performance.now();
    try {
      const answer = await fetch(m.origin + this.path + "doctor", { signal: AbortSignal.timeout(6000), credentials: "omit" });
      if (answer.ok) this.diagnosis = { by: m.id, ...(await answer.json()) };
      else this.again = true;
    } catch {
      this.again = true;
    }
    this.asking = false;
    this.changed(null);
  }
}

const arrivals = { voter: "joined, and votes", learner: "joined as a learner", joins: "joins: it catches up first" };

const words = {
  voter: "votes now", learner: "is a learner now", joins: "joins: it catches up first", enters: "is about to vote", leaves: "is about to leave",
  "to be demoted": "is to be demoted", "to be removed": "is to be removed",
};
