// The page of a cluster: it joins what each member says about itself, and goes on as long as one of them answers.

import { Cluster } from "./live-state.js";
import { View, byID } from "./live-view.js";

const words = byID("words");
if (!("EventSource" in window)) {
  words.textContent = "This page needs server-sent events (EventSource), which this browser does not have: use another browser. " +
    "raftkv status and raftkv doctor say the same in a terminal.";
} else {
  start();
}

function start() {
  words.hidden = true;
  byID("main").hidden = false;
  let dirty = true;
  const cluster = new Cluster((m) => {
    dirty = true;
    if (m && m.id) view.moving(m);
  });
  const act = async (name, member) => {
    try {
      const query = member ? `?member=${encodeURIComponent(member)}` : "";
      const answer = await fetch(`demo/${name}${query}`, { method: "POST", signal: AbortSignal.timeout(40000) });
      if (answer.ok) return;
      const error = await answer.json();
      byID("said").textContent = `${error.message}: ${error.remedy}`;
    } catch {
      byID("said").textContent = "The demo does not answer. If it has ended, start it again: raftkv demo";
    }
  };
  const view = new View(cluster, act);
  for (const [id, name] of [["kill-leader", "kill"], ["restart-all", "restart"], ["add", "add"]]) {
    byID(id).addEventListener("click", () => act(name, ""));
  }
  const show = () => {
    if (!dirty || document.hidden) return;
    dirty = false;
    view.show();
  };
  setInterval(show, 200);
  document.addEventListener("visibilitychange", show);
  window.addEventListener("resize", () => { dirty = true; });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { dirty = true; });
  view.show();
  document.documentElement.dataset.ready = "yes";
}
