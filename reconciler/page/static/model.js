// The tables as the stream last told them, and how fresh that is. Knows nothing of the document.

const RETRY_MS = 2000;
const STALE_S = 30;
const TABLES = ["nodes", "incidents", "faults", "recoveries", "drills", "holds"];

export class Model extends EventTarget {
  #source = null;
  #skewS = 0;
  #retry = 0;

  constructor(url) {
    super();
    this.url = url;
    this.link = "connecting";
    this.standby = null;
    this.now = null;
    this.holder = "";
    this.asOf = 0;
    this.lastHeard = 0;
    this.tables = Object.fromEntries(TABLES.map((name) => [name, new Map()]));
  }

  openRecoveries() {
    return this.standby || !this.now ? [...this.tables.recoveries.values()].filter((row) => row.open).length : this.now.open_recoveries;
  }

  open() {
    clearTimeout(this.#retry);
    this.#source?.close();
    const source = (this.#source = new EventSource(this.url));
    let answered = false;
    const on = (name, take) => source.addEventListener(name, (event) => {
      answered = true;
      take(JSON.parse(event.data));
    });
    on("whole", (told) => this.#take(told, true));
    on("change", (told) => this.#take(told, false));
    on("alive", (told) => this.#alive(told));
    on("standby", (told) => this.#standby(told));
    source.onerror = () => {
      // The browser tries again by itself, except after an answer that is no stream.
      if (!answered || this.link !== "standby") this.#state("lost");
      if (source.readyState === EventSource.CLOSED) this.#again();
    };
  }

  /** Unix time by the reconciler's clock. */
  time() {
    return Date.now() / 1000 + this.#skewS;
  }

  /** Called once a second: a connection that says nothing is no news that all is well. */
  check() {
    if (this.link === "live" && this.ageS() > STALE_S) this.#state("stale");
  }

  ageS() {
    return this.asOf ? Math.max(0, this.time() - this.asOf) : Infinity;
  }

  #take(told, whole) {
    if (whole) for (const table of Object.values(this.tables)) table.clear();
    const changed = new Set(whole ? TABLES : []);
    for (const [name, change] of Object.entries(told.delta.tables ?? {})) {
      const table = this.tables[name];
      if (!table) continue;
      for (const key of change.gone) table.delete(key);
      for (const [key, row] of Object.entries(change.set)) table.set(key, row);
      changed.add(name);
    }
    if (told.delta.now) {
      this.now = told.delta.now;
      changed.add("now");
    }
    this.holder = told.holder;
    this.standby = null;
    this.#fresh(told.as_of);
    this.dispatchEvent(new CustomEvent("change", { detail: changed }));
  }

  #alive(told) {
    if (told.as_of && !this.standby) this.#fresh(told.as_of);
  }

  #fresh(asOf) {
    // What is told is at least as old as its time says: the largest difference seen is the clocks'.
    const skewS = asOf - Date.now() / 1000;
    this.#skewS = this.asOf ? Math.max(this.#skewS, skewS) : skewS;
    this.asOf = asOf;
    this.#state(this.ageS() > STALE_S ? "stale" : "live");
  }

  #standby(told) {
    this.standby = told;
    this.tables.recoveries = new Map(Object.entries(told.recoveries));
    this.#state("standby");
    this.dispatchEvent(new CustomEvent("change", { detail: new Set(["recoveries"]) }));
    // Behind a Service the next connection may reach the replica that leads.
    this.#again();
  }

  #again() {
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.open(), RETRY_MS);
  }

  #state(link) {
    this.link = link;
    this.dispatchEvent(new Event("link"));
  }
}
