// The drawer: the chain of evidence about one node or one unit, as /v1/why tells it.

import { byId, h, say } from "./dom.js";
import { describe } from "./cells.js";
import { chipWord, span } from "./words.js";

const STEPS = { reading: "Reading", finding: "Finding", level: "Level", rule: "Rule", isolation: "Isolation", unit: "What restarts together", decision: "Decision", next: "What comes next" };

const TRIES = 12;
const RETRY_MS = 250;

export class Details {
  #asked = null;
  #back = null;
  #running = null;

  constructor(model) {
    this.model = model;
    this.drawer = byId("details");
    byId("details-close").addEventListener("click", () => this.close());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !this.drawer.hidden) this.close();
    });
    model.addEventListener("change", (event) => this.#changed(event.detail));
  }

  node(name) {
    this.#open("node", name);
  }

  workload(unit) {
    this.#open("workload", unit);
  }

  close() {
    this.#running?.abort();
    this.#asked = null;
    this.drawer.hidden = true;
    this.#back?.focus();
  }

  #open(kind, name) {
    if (this.drawer.hidden) this.#back = document.activeElement;
    this.#asked = { kind, name };
    this.drawer.hidden = false;
    this.drawer.scrollTop = 0;
    say(byId("details-title"), name);
    byId("details-body").replaceChildren(h("p", { class: "empty" }, "asking why ..."));
    this.#chips();
    byId("details-title").focus();
    void this.#ask();
  }

  #changed(tables) {
    if (!this.#asked || !["nodes", "faults", "recoveries", "holds"].some((name) => tables.has(name))) return;
    this.#chips();
    void this.#ask();
  }

  #chips() {
    const { kind, name } = this.#asked;
    const row = kind === "node" ? this.model.tables.nodes.get(name) : undefined;
    say(byId("details-sub"), row ? describe(name, row).split("\n")[0].slice(name.length + 2) : kind === "node" ? "not in the cluster" : "a unit that restarts together");
    byId("details-chips").replaceChildren(...[...(row?.[1] ?? "")].map((letter, phy) => {
      const { tone, word } = chipWord(letter);
      return h("div", { role: "listitem", data: { tone: tone === "note" ? "warn" : tone }, title: word, "aria-label": `chip ${phy}: ${word}` }, String(phy));
    }));
  }

  async #ask() {
    const asked = this.#asked;
    this.#running?.abort();
    const running = (this.#running = new AbortController());
    let shown;
    try {
      let answer;
      let said;
      for (let tries = 1; ; tries += 1) {
        answer = await fetch(`v1/why?${new URLSearchParams({ [asked.kind]: asked.name })}`, { signal: running.signal });
        said = await answer.json();
        // Behind a Service it may be the other replica that answers; one of the next connections reaches the leader.
        if (answer.status !== 503 || tries === TRIES) break;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
      shown = answer.ok ? this.#chain(said) : [h("p", { class: "empty" }, said.detail ?? said.title)];
    } catch (error) {
      if (error.name === "AbortError") return;
      shown = [h("p", { class: "empty" }, "The reconciler does not answer; this is asked again when something changes.")];
    }
    if (this.#asked === asked) byId("details-body").replaceChildren(...shown);
  }

  #chain(why) {
    const links = why.chain.map((link) =>
      h("li", { data: { step: link.step } },
        h("p", { class: "step" }, `${STEPS[link.step] ?? link.step} · ${link.about}`),
        h("p", { class: "says" }, link.says),
        link.due_in_s !== undefined && link.due_in_s !== null ? h("p", { class: "fine" }, `in ${span(link.due_in_s)}`) : ""));
    const pods = why.pods?.length ? [h("h3", {}, "Pods"), ...why.pods.map((pod) => h("p", { class: "fine mono" }, pod))] : [];
    return [h("ol", { class: "chain", "aria-label": "Chain of evidence" }, ...links), ...pods];
  }
}
