// Wires the parts: what the stream tells goes to the map, the lists and the headline.

import { Details } from "./details.js";
import { byId, h, keyed, say } from "./dom.js";
import { Fleet } from "./fleet.js";
import * as lists from "./lists.js";
import { Model } from "./model.js";
import * as bars from "./recoveries.js";
import { allFaults, headline, notices, tiles } from "./summary.js";
import { ORDER, VERDICTS, count } from "./words.js";

const model = new Model("v1/stream");
const details = new Details(model);
const openNode = (name) => details.node(name);
const fleet = new Fleet(openNode);
let wanted = "";

function chooseVerdicts(nodes) {
  const numbers = { "": nodes.size };
  for (const [verdict] of nodes.values()) numbers[verdict] = (numbers[verdict] ?? 0) + 1;
  if (wanted && !numbers[wanted]) wanted = "";
  const rows = ["", ...ORDER].filter((one) => numbers[one]).map((one) => [one, `${numbers[one]}|${one === wanted}`]);
  keyed(byId("verdicts"), rows, (_, verdict) =>
    h("button", { type: "button", "aria-pressed": String(verdict === wanted), onclick: () => { wanted = verdict; showFleet(); } },
      `${verdict ? VERDICTS[verdict] : "all"} ${count(numbers[verdict])}`));
}

function showFleet() {
  const { nodes } = model.tables;
  chooseVerdicts(nodes);
  const part = byId("search").value.trim().toLowerCase();
  const names = [...nodes.keys()].filter((name) => (!wanted || nodes.get(name)[0] === wanted) && name.toLowerCase().includes(part));
  fleet.show(names.sort(), nodes);
}

function changed(tables) {
  const now = model.time();
  if (tables.has("nodes")) {
    showFleet();
    lists.needALook(model.tables.nodes, openNode);
  }
  if (tables.has("incidents")) lists.incidents(model.tables.incidents, openNode);
  if (tables.has("faults") || tables.has("now")) lists.faults(model.tables.faults, allFaults(model), openNode);
  if (tables.has("recoveries")) bars.recoveries(model.tables.recoveries, model.openRecoveries(), now, (unit) => details.workload(unit));
  if (tables.has("holds")) lists.holds(model.tables.holds);
  if (tables.has("drills")) lists.drills(model.tables.drills, openNode);
  summarise();
  lists.tick(now);
}

function summarise() {
  document.body.toggleAttribute("data-blind", model.now === null);
  const { mood, text } = headline(model);
  byId("summary").dataset.mood = mood;
  say(byId("headline"), text);
  document.title = mood === "well" ? "NPU Warden" : `${text} – NPU Warden`;
  keyed(byId("notices"), notices(model).map((line) => [line, line]), (line) => h("li", {}, line));
  keyed(byId("tiles"), model.now ? tiles(model).map((tile) => [tile.name, JSON.stringify(tile)]) : [], drawTile);
}

function drawTile(text) {
  const tile = JSON.parse(text);
  const meter = tile.of === undefined ? "" : h("div", {
    class: "meter", role: "meter", "aria-label": tile.name, "aria-valuemin": "0", "aria-valuenow": String(Math.min(tile.used, tile.of)), "aria-valuemax": String(tile.of),
  }, h("span"));
  if (meter) meter.firstChild.style.width = `${Math.min(100, (100 * tile.used) / Math.max(1, tile.of))}%`;
  return h("div", { data: { tone: tile.tone } }, h("dt", {}, tile.name), h("dd", {}, tile.value), h("dd", { class: "small", title: tile.more }, tile.more, meter));
}

function linkText() {
  const age = model.ageS();
  return {
    connecting: "connecting",
    live: `live, ${age < 2 ? "now" : `${Math.round(age)} s ago`}`,
    stale: `nothing new for ${Math.round(age)} s`,
    standby: "standby",
    lost: "connection lost, trying again",
  }[model.link];
}

function showLink() {
  byId("link").dataset.link = model.link;
  document.body.toggleAttribute("data-old", model.link !== "live" && model.now !== null);
  say(byId("link-text"), linkText());
  summarise();
}

function legend() {
  const rows = [["ok", "chip ok"], ["warn", "sub-health"], ["fault", "fault"], ["unknown", "cannot be seen"], ["dead", "node dead"], ["released", "released by hand"], ["drill", "drill"]];
  byId("legend").append(...rows.map(([tone, word]) => h("li", {}, h("span", { class: "swatch", vars: { "--swatch": `var(--${tone})` } }), word)));
}

model.addEventListener("change", (event) => changed(event.detail));
model.addEventListener("link", showLink);
byId("search").addEventListener("input", showFleet);
legend();
bars.stageLegend();
setInterval(() => {
  model.check();
  say(byId("link-text"), linkText());
  lists.tick(model.time());
  bars.tick(model.time());
}, 1000);
model.open();
