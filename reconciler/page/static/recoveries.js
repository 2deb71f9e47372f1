// Recoveries with their timeline bars: one stretch for each stage, the running one grows.

import { byId, h, keyed, say } from "./dom.js";
import { opener } from "./lists.js";
import { count, many, span, unix } from "./words.js";

/** [the time that ends it, what it is called]; `detected` begins the first. */
const STAGES = [
  ["tainted", "isolate"], ["claimed", "claim"], ["deleted", "delete"], ["gone", "stop"],
  ["recreated", "re-create"], ["bound", "place"], ["ready", "start"], ["finished", "verify"],
];
const TONES = { Recovered: "ok", Aborted: "unknown", Superseded: "unknown", Exhausted: "fault", OwnerTerminal: "fault", Escalated: "warn", Held: "warn", WaitingForCapacity: "warn" };
const TEXT_FROM = 0.13;

export function stageLegend() {
  byId("stages").append(...STAGES.map(([, name], at) =>
    h("li", {}, h("span", { class: "swatch", vars: { "--swatch": `var(--s${at + 1})` } }), name)));
}

/** Stretches {name, at, seconds, running} of one recovery; from one known time to the next. */
export function stretches(row, now) {
  const times = row.times ?? {};
  let from = unix(times.detected ?? row.created);
  const found = [];
  if (Number.isNaN(from)) return found;
  let next = 0;
  STAGES.forEach(([key, name], at) => {
    const until = unix(times[key]);
    if (Number.isNaN(until)) return;
    found.push({ name, at, seconds: Math.max(0, until - from), running: false });
    [from, next] = [Math.max(from, until), at + 1];
  });
  if (row.open) {
    const at = Math.min(next, STAGES.length - 1);
    found.push({ name: STAGES[at][1], at, seconds: Math.max(0, now - from), running: true });
  }
  return found;
}

function bar(row, now) {
  const found = stretches(row, now);
  const all = found.reduce((sum, one) => sum + one.seconds, 0) || 1;
  const words = found.map((one) => `${one.name} ${span(one.seconds)}${one.running ? " so far" : ""}`);
  return h("div", { class: "timeline", role: "img", "aria-label": `Timeline: ${words.join(", ") || "not begun"}` },
    ...found.map((one, index) => {
      const share = one.seconds / all;
      const look = `${share < TEXT_FROM ? "tiny" : ""}${one.running ? " running" : ""}`.trim();
      const stretch = h("span", { class: look || null, title: words[index], vars: { "--stage": `var(--s${one.at + 1})` } }, words[index]);
      stretch.style.flexGrow = String(Math.max(share, 0.01));
      return stretch;
    }));
}

function lasted(row) {
  const seconds = unix(row.times?.finished) - unix(row.times?.detected);
  return Number.isNaN(seconds) ? (row.duration ?? "") : span(seconds);
}

const running = new Map();

export function recoveries(table, openCount, now, openUnit) {
  const rows = [...table].sort(([, a], [, b]) => Number(b.open) - Number(a.open) || (b.created ?? "").localeCompare(a.created ?? ""));
  byId("recoveries-empty").hidden = rows.length > 0;
  byId("stages").hidden = !rows.length;
  say(byId("recoveries-count"), openCount ? `${count(openCount)} under way` : rows.length ? "none under way" : "");
  for (const key of running.keys()) if (!table.get(key)?.open) running.delete(key);
  keyed(byId("recoveries-list"), rows, (row, key) => {
    const timeline = bar(row, now);
    const took = h("span", { class: "took" });
    if (row.open) running.set(key, { row, timeline, took });
    else say(took, lasted(row));
    return h("li", { data: { phase: row.phase } },
      h("p", { class: "row" },
        h("span", { class: "badge", data: { tone: TONES[row.phase] ?? "fault" } }, row.phase),
        opener(row.unit, () => openUnit(row.unit)),
        row.origin === "drill" ? h("span", { class: "badge", data: { tone: "drill" } }, "drill") : "",
        took),
      timeline,
      h("p", { class: "fine" }, `${row.level}, ${many(row.pods, "pod")}, ${row.method}; because of ${row.cause.slice(0, 3).join(", ")}`),
      row.message ? h("p", { class: "fine" }, row.reason ? `${row.reason}: ${row.message}` : row.message) : "");
  });
  tick(now);
}

/** Open ones last longer as time goes by. */
export function tick(now) {
  for (const one of running.values()) {
    const newer = bar(one.row, now);
    one.timeline.replaceWith(newer);
    one.timeline = newer;
    const began = unix(one.row.times?.detected ?? one.row.created);
    say(one.took, Number.isNaN(began) ? "" : span(now - began));
  }
}
