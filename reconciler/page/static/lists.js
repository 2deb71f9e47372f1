// Tables and lists below the map: faults, refusals, drills, nodes that need a look.

import { troubled, worst } from "./cells.js";
import { byId, h, keyed, say } from "./dom.js";
import { LEVELS, ORDER, VERDICTS, chipWord, count, levelTone, many, span, unix } from "./words.js";

const MOST_TROUBLED = 30;

/** Ages that go on by themselves: `tick` writes them anew. */
const age = (since) => h("time", { data: { since: String(since) } });

export function tick(now) {
  for (const element of document.querySelectorAll("time[data-since]")) say(element, span(now - Number(element.dataset.since)));
}

export const opener = (text, open) => h("button", { type: "button", class: "name", "aria-haspopup": "dialog", onclick: open }, text);

export function faults(table, all, openNode) {
  const rows = [...table].sort(([, a], [, b]) => LEVELS.indexOf(b.level) - LEVELS.indexOf(a.level) || b.since - a.since);
  byId("faults-empty").hidden = rows.length > 0;
  byId("faults-body").closest("table").hidden = !rows.length;
  say(byId("faults-count"), all > rows.length ? `the ${rows.length} most serious of ${count(all)}` : all ? count(all) : "");
  keyed(byId("faults-body"), rows, (fault) => {
    const tone = fault.origin === "drill" ? "drill" : levelTone(LEVELS.indexOf(fault.level));
    const seen = fault.origin === "drill" ? "a drill" : fault.confirmed ? "by the driver" : "not yet";
    return h("tr", {},
      h("td", {}, h("span", { class: "badge", data: { tone } }, fault.level)),
      h("td", { class: "mono" }, fault.code),
      h("td", { class: "near" }, opener(fault.node, () => openNode(fault.node)), fault.chip === "node" ? " itself" : ` chip ${fault.chip}`),
      h("td", { class: "near" }, age(fault.since)),
      h("td", { class: "fine" }, seen));
  });
}

export function incidents(table, openNode) {
  const rows = [...table].sort(([, a], [, b]) => a.since.localeCompare(b.since));
  byId("incidents").hidden = !rows.length;
  say(byId("incidents-count"), rows.length ? count(rows.length) : "");
  keyed(byId("incidents-list"), rows, (row, id) =>
    h("li", {},
      h("p", { class: "row" },
        h("b", {}, id),
        h("span", { class: "count" }, many(row.nodes, "node"), row.held ? `, ${count(row.held)} held` : ""),
        h("span", { class: "took" }, age(unix(row.since)))),
      h("p", { class: "fine" }, row.why),
      h("p", { class: "row" }, ...row.examples.map((name) => opener(name, () => openNode(name))),
        row.nodes > row.examples.length ? h("span", { class: "fine" }, `and ${count(row.nodes - row.examples.length)} more`) : "")));
}

export function holds(table) {
  const rows = [...table].sort(([, a], [, b]) => b.count - a.count);
  const all = rows.reduce((sum, [, row]) => sum + row.count, 0);
  byId("holds-empty").hidden = rows.length > 0;
  say(byId("holds-count"), all ? many(all, "refusal") : "");
  keyed(byId("holds-list"), rows, (row, reason) =>
    h("li", {},
      h("p", { class: "row" }, h("b", {}, reason), h("span", { class: "count" }, `× ${count(row.count)}`)),
      ...row.examples.map(([subject, message]) => h("p", { class: "fine" }, `${subject}: ${message}`)),
      row.count > row.examples.length ? h("p", { class: "fine" }, `and ${count(row.count - row.examples.length)} more`) : ""));
}

export function drills(table, openNode) {
  const rows = [...table];
  byId("drills-empty").hidden = rows.length > 0;
  say(byId("drills-count"), rows.length ? count(rows.length) : "");
  keyed(byId("drills-list"), rows, (drill) =>
    h("li", {},
      h("p", { class: "row" },
        h("span", { class: "badge", data: { tone: drill.state === "refused" ? "warn" : "drill" } }, drill.state),
        h("b", {}, drill.name),
        h("span", {}, "on ", opener(drill.node, () => openNode(drill.node))),
        h("span", { class: "fine" }, [drill.kind, drill.fault, drill.effect].filter(Boolean).join(", "))),
      drill.why ? h("p", { class: "fine" }, drill.why) : "",
      ...(drill.would ?? []).map((text) => h("p", { class: "fine" }, `would ${text}`)),
      drill.held ? h("p", { class: "fine" }, drill.held) : ""));
}

/** Buttons: the map's content for whoever cannot see it, and the names where cells are too small for them. */
export function needALook(nodes, openNode) {
  const found = [...nodes].filter(([, row]) => troubled(row));
  found.sort(([, a], [, b]) => ORDER.indexOf(a[0]) - ORDER.indexOf(b[0]));
  const rows = found.slice(0, MOST_TROUBLED);
  if (found.length > rows.length) rows.push(["", found.length - rows.length]);
  byId("troubled").hidden = !found.length;
  keyed(byId("troubled-list"), rows, (row, name) => {
    if (!name) return h("li", { class: "fine" }, `and ${count(row)} more`);
    const [verdict, chips, itself, taint] = row;
    const bad = [...chips].map((letter, phy) => [phy, letter]).filter(([, letter]) => letter !== ".");
    const what = bad.length ? `chip ${bad.slice(0, 4).map(([phy]) => phy).join(", ")}${bad.length > 4 ? ", …" : ""} ${chipWord(bad[0][1]).word}`
      : itself ? chipWord(itself).word : taint ? `isolated: ${taint}` : "";
    return h("li", {},
      h("button", { type: "button", "aria-haspopup": "dialog", vars: { "--tone": `var(--${worst(row)})` }, onclick: () => openNode(name) },
        h("b", {}, name), " ", h("span", {}, [VERDICTS[verdict], what].filter(Boolean).join(" · "))));
  });
}
