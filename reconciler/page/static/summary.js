// The sentence at the top, what keeps the warden from acting, and the key figures.

import { count, many } from "./words.js";

function counted(model) {
  const verdicts = { o: 0, f: 0, u: 0, d: 0, r: 0 };
  let chips = 0;
  let badChips = 0;
  let unseen = 0;
  for (const [verdict, text] of model.tables.nodes.values()) {
    verdicts[verdict] += 1;
    chips += text.length;
    for (const letter of text) {
      if (letter !== ".") badChips += 1;
      if (letter === "?") unseen += 1;
    }
  }
  return { verdicts, chips, badChips, unseen };
}

/** Without those of drills: nothing is broken for them. */
const faultsOf = (model) => Object.values(model.now?.fault_levels ?? {}).reduce((sum, one) => sum + one, 0);

export const allFaults = (model) => faultsOf(model) + (model.now?.drill_faults ?? 0);

/** {mood: waiting | well | busy | held | standby | lost, text} */
export function headline(model) {
  if (model.link === "standby") {
    const { holder, leader } = model.standby;
    if (leader && leader === holder) return { mood: "standby", text: "This replica has just begun to lead and reads the cluster" };
    return { mood: "standby", text: leader ? "This replica is a standby" : "Nobody leads at present" };
  }
  if (model.link === "lost") return { mood: "lost", text: model.now ? "The warden does not answer; what is shown is old" : "The warden does not answer" };
  if (model.link === "stale") return { mood: "lost", text: "The warden has decided nothing for a while; what is shown is old" };
  if (!model.now) return { mood: "waiting", text: "Connecting to the warden" };
  const { verdicts, chips, unseen } = counted(model);
  const faults = faultsOf(model);
  const parts = [];
  if (model.tables.incidents.size) parts.push(many(model.tables.incidents.size, "incident"));
  if (faults) parts.push(many(faults, "open fault"));
  if (model.now.drill_faults) parts.push(`${many(model.now.drill_faults, "fault")} of a drill`);
  if (verdicts.d) parts.push(many(verdicts.d, "dead node"));
  if (verdicts.u) parts.push(`${many(verdicts.u, "node")} cannot be seen`);
  if (unseen && !verdicts.u) parts.push(`${many(unseen, "chip")} cannot be seen in full`);
  if (model.now.open_recoveries) parts.push(`${many(model.now.open_recoveries, "recovery", "recoveries")} under way`);
  if (parts.length) return { mood: held(model) ? "held" : "busy", text: parts.join(", ") };
  if (held(model)) return { mood: "held", text: "No open fault, but the warden is held" };
  if (!model.tables.nodes.size) return { mood: "waiting", text: "The cluster has no node" };
  return { mood: "well", text: `All is well on ${many(model.tables.nodes.size, "node")} with ${many(chips, "chip")}` };
}

const held = (model) => notices(model).length > 0;

export function notices(model) {
  if (model.link === "standby") {
    const { holder, leader } = model.standby;
    const known = "Recoveries are shown as the API server has them; nodes and faults only a leader knows.";
    if (leader === holder) return ["This page goes on by itself as soon as it has.", known];
    if (!leader) return ["Nothing is tainted or restarted meanwhile. This page goes on by itself as soon as a replica leads.", known];
    const pod = leader.split("_")[0];
    return [`${leader} leads. This page asks again every 2 s and goes on where it reaches the leader; a port-forward stays with one pod: use pod/${pod}.`, known];
  }
  if (!model.now) return [];
  const { warden, brakes } = model.now;
  const found = [];
  if (warden.paused !== null) found.push(`Paused: ${warden.paused || "no reason given"}. npu-warden resume ends it.`);
  if (warden.observe_only) found.push("Observe only: nothing is tainted or restarted.");
  if (warden.policy_error) found.push(`policy.toml is refused: ${warden.policy_error}`);
  if (!warden.reports_ok) found.push("Redis cannot be read: no new fault is seen and no node given back. Kubernetes is watched.");
  if (!warden.watch_ok) found.push("What is known of the cluster is not complete or not fresh: no pod is deleted.");
  if (brakes?.breaker_open) found.push(`The breaker is open: ${count(brakes.isolated)} nodes were isolated in a short time, no further one is until that is over or a person has looked.`);
  return found;
}

function phases(model) {
  const found = new Map();
  for (const { open, phase } of model.tables.recoveries.values()) if (open) found.set(phase, (found.get(phase) ?? 0) + 1);
  return [...found].map(([phase, number]) => `${count(number)} ${phase}`).join(", ");
}

/** {name, value, more, tone, used, of} */
export function tiles(model) {
  const { verdicts, chips, badChips } = counted(model);
  const { brakes, fault_levels: levels } = model.now;
  const nodes = model.tables.nodes.size;
  const words = [["f", "fault"], ["d", "dead"], ["u", "unknown"], ["r", "released"], ["o", "ok"]].filter(([v]) => verdicts[v]).map(([v, word]) => `${count(verdicts[v])} ${word}`);
  const faults = faultsOf(model);
  const serious = Object.entries(levels).at(-1);
  const found = [
    { name: "Nodes", value: count(nodes), more: words.join(", "), tone: "" },
    { name: "Chips", value: count(chips), more: badChips ? `${count(badChips)} not ok` : "all ok", tone: "" },
    { name: "Open faults", value: count(faults), more: serious ? `${count(serious[1])} ${serious[0]}` : "none", tone: faults ? "fault" : "" },
    { name: "Recoveries under way", value: count(model.now.open_recoveries), more: phases(model) || "none", tone: model.now.open_recoveries ? "warn" : "" },
  ];
  if (brakes) {
    found.push({ name: "Breaker", value: brakes.breaker_open ? "open" : "closed", more: `${count(brakes.isolated)} of ${count(brakes.breaker_limit)} isolations`, used: brakes.isolated, of: brakes.breaker_limit, tone: brakes.breaker_open ? "fault" : "" });
    const slots = brakes.restart_slots;
    found.push({ name: "Restart budget", value: slots === null ? count(brakes.restarting) : `${count(brakes.restarting)} of ${count(slots)}`, more: slots === null ? "none is asked for" : "units that still serve", used: slots === null ? undefined : brakes.restarting, of: slots ?? undefined, tone: slots !== null && brakes.restarting >= slots ? "warn" : "" });
  }
  return found;
}
