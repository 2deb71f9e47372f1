// The fleet map: every node a cell, every chip a square in it, as large as fits; a cursor for keys and pointer.

import { describe, layout, troubled, worst } from "./cells.js";
import { byId, say } from "./dom.js";
import { chipWord } from "./words.js";

const COLOURS = ["card", "raised", "line", "text", "muted", "focus", "ok", "fault", "warn", "unknown", "dead", "released", "drill",
  "fault-back", "unknown-back", "dead-back", "released-back"];

export class Fleet {
  #names = [];
  #rows = new Map();
  #at = -1;
  #layout = null;
  #colours = {};
  #due = false;

  constructor(open) {
    this.grid = byId("grid");
    this.canvas = byId("canvas");
    this.tip = byId("tip");
    this.open = open;
    new ResizeObserver(() => this.draw()).observe(this.grid);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.grid.addEventListener("keydown", (event) => this.#key(event));
    this.grid.addEventListener("blur", () => this.#point(-1));
    this.canvas.addEventListener("pointermove", (event) => this.#point(this.#under(event)));
    this.canvas.addEventListener("pointerleave", () => document.activeElement !== this.grid && this.#point(-1));
    this.canvas.addEventListener("click", (event) => {
      const at = this.#under(event);
      if (at >= 0) this.open(this.#names[at]);
    });
  }

  /** names: the nodes to show, in order; rows: what is known of each. */
  show(names, rows) {
    const held = this.#names[this.#at];
    [this.#names, this.#rows] = [names, rows];
    this.#at = held === undefined ? -1 : names.indexOf(held);
    byId("grid-empty").hidden = names.length > 0;
    this.draw();
  }

  draw() {
    if (this.#due) return;
    this.#due = true;
    requestAnimationFrame(() => {
      this.#due = false;
      this.#paint();
    });
  }

  #paint() {
    const width = this.grid.clientWidth;
    if (!width) return;
    const chips = this.#names.reduce((most, name) => Math.max(most, this.#rows.get(name)[1].length), 0) || 8;
    const l = (this.#layout = layout(width, this.#names.length, chips));
    const ratio = window.devicePixelRatio || 1;
    const { canvas } = this;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(l.height * ratio);
    canvas.style.height = `${l.height}px`;
    const style = getComputedStyle(document.documentElement);
    for (const name of COLOURS) this.#colours[name] = style.getPropertyValue(`--${name}`).trim();
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, l.height);
    this.#names.forEach((name, at) => this.#cell(pen, name, at));
    if (this.#at >= 0) this.#cursor(pen);
    performance.mark("fleet drawn", { detail: this.#names.length });
  }

  #place(at) {
    const { across, cellWidth, cellHeight, space } = this.#layout;
    const [x, y] = [(at % across) * cellWidth, Math.floor(at / across) * cellHeight];
    return [x, y, cellWidth - space, cellHeight - space];
  }

  #cell(pen, name, at) {
    const [verdict, chips, itself, taint] = this.#rows.get(name);
    const [x, y, w, h] = this.#place(at);
    const l = this.#layout;
    if (l.size >= 4) this.#large(pen, name, verdict, itself, taint, x, y, w, h);
    else if (troubled(this.#rows.get(name))) {
      // A few pixels among ten thousand cells: the whole cell speaks, a little beyond its edge.
      pen.fillStyle = this.#edge(verdict, itself, taint, chips);
      pen.fillRect(x - 1, y - 1, w + 2, h + 2);
    }
    this.#chips(pen, verdict, chips, x + l.pad, y + l.pad + l.label);
    if (verdict === "d" && l.size >= 4) {
      pen.strokeStyle = this.#colours.dead;
      pen.lineWidth = l.size >= 8 ? 2.5 : 1.5;
      pen.beginPath();
      pen.moveTo(x + 3, y + l.label + 3);
      pen.lineTo(x + w - 3, y + h - 3);
      pen.moveTo(x + w - 3, y + l.label + 3);
      pen.lineTo(x + 3, y + h - 3);
      pen.stroke();
    }
  }

  #large(pen, name, verdict, itself, taint, x, y, w, h) {
    const l = this.#layout;
    const back = { f: "fault-back", u: "unknown-back", d: "dead-back", r: "released-back" }[verdict] ?? "raised";
    pen.beginPath();
    pen.roundRect(x + 0.75, y + 0.75, w - 1.5, h - 1.5, l.label ? 7 : 2);
    pen.fillStyle = this.#colours[back];
    pen.fill();
    pen.lineWidth = verdict === "o" && !taint ? 1 : 1.5;
    pen.strokeStyle = this.#edge(verdict, itself, taint, "");
    pen.setLineDash(verdict === "u" ? [4, 3] : []);
    pen.stroke();
    pen.setLineDash([]);
    if (!l.label) return;
    pen.font = `${verdict === "o" ? "" : "600 "}12px system-ui, "DejaVu Sans", sans-serif`;
    pen.fillStyle = verdict === "o" ? this.#colours.muted : this.#colours.text;
    pen.textBaseline = "top";
    pen.fillText(shortened(pen, name, w - 2 * l.pad), x + l.pad, y + 6);
  }

  #edge(verdict, itself, taint, chips) {
    return this.#colours[worst([verdict, chips, itself, taint])];
  }

  #chips(pen, verdict, chips, left, top) {
    const { size, gap, step, columns, rows } = this.#layout;
    if (size < 4 && !/[^.]/.test(chips)) {
      // Thousands of healthy nodes are one rectangle each.
      if (!chips || verdict !== "o") return;
      pen.fillStyle = this.#colours.ok;
      pen.fillRect(left, top, columns * size, Math.ceil(chips.length / columns) * size);
      return;
    }
    for (let chip = 0; chip < chips.length; chip += 1) {
      const [x, y] = [left + (chip % columns) * step, top + Math.floor(chip / columns) * (size + gap)];
      this.#chip(pen, chips[chip], x, y, size);
    }
    if (chips || size < 8) return;
    pen.fillStyle = this.#colours.muted;
    pen.font = '12px system-ui, "DejaVu Sans", sans-serif';
    pen.fillText("no report", left, top + (rows * size) / 2 - 6);
  }

  #chip(pen, letter, x, y, size) {
    const { tone } = chipWord(letter);
    const colour = this.#colours[tone === "note" ? "warn" : tone];
    if (size < 4) {
      if (letter === ".") return;
      pen.fillStyle = this.#colours.card;
      pen.fillRect(x, y, size, size);
      return;
    }
    pen.beginPath();
    pen.roundRect(x, y, size, size, size >= 8 ? 3 : 1);
    if (tone === "unknown" && size >= 8) {
      pen.strokeStyle = colour;
      pen.lineWidth = 1.5;
      pen.setLineDash([3, 2]);
      pen.stroke();
      pen.setLineDash([]);
    } else {
      pen.fillStyle = colour;
      pen.fill();
    }
    if (size >= 10 && letter !== ".") this.#glyph(pen, tone, x + size / 2, y + size / 2, size / 4);
  }

  /** Shape says what colour says: a cross, a bar, a dot. */
  #glyph(pen, tone, x, y, r) {
    pen.strokeStyle = tone === "unknown" ? this.#colours.unknown : this.#colours.card;
    pen.lineWidth = 2;
    pen.beginPath();
    if (tone === "fault") {
      pen.moveTo(x - r, y - r);
      pen.lineTo(x + r, y + r);
      pen.moveTo(x + r, y - r);
      pen.lineTo(x - r, y + r);
    } else if (tone === "unknown") pen.arc(x, y, 0.6, 0, 7);
    else if (tone === "drill") pen.arc(x, y, r, 0, 7);
    else {
      pen.moveTo(x - r, y);
      pen.lineTo(x + r, y);
    }
    pen.stroke();
  }

  #cursor(pen) {
    const [x, y, w, h] = this.#place(this.#at);
    pen.strokeStyle = this.#colours.focus;
    pen.lineWidth = 2;
    pen.strokeRect(x, y, w, h);
  }

  #under(event) {
    if (!this.#layout) return -1;
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const column = Math.floor(x / this.#layout.cellWidth);
    const at = Math.floor(y / this.#layout.cellHeight) * this.#layout.across + column;
    return column < this.#layout.across && at < this.#names.length && y >= 0 ? at : -1;
  }

  #point(at) {
    if (at === this.#at) return;
    this.#at = at;
    this.tip.hidden = at < 0;
    if (at >= 0) this.#explain();
    this.draw();
  }

  #explain() {
    const name = this.#names[this.#at];
    const text = describe(name, this.#rows.get(name));
    say(this.tip, text);
    const [x, y, w, h] = this.#place(this.#at);
    const right = x > this.grid.clientWidth / 2;
    this.tip.style.left = right ? "" : `${x + w / 2}px`;
    this.tip.style.right = right ? `${this.grid.clientWidth - x - w / 2}px` : "";
    this.tip.style.top = `${y + h + 6}px`;
  }

  #key(event) {
    const { across } = this.#layout ?? { across: 1 };
    const last = this.#names.length - 1;
    const from = this.#at;
    const to = {
      ArrowRight: from + 1, ArrowLeft: from - 1, ArrowDown: from < 0 ? 0 : from + across, ArrowUp: from - across,
      Home: 0, End: last, n: this.#next(from, 1), p: this.#next(from, -1),
    }[event.key];
    if (event.key === "Enter" && from >= 0) this.open(this.#names[from]);
    else if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    else if (last >= 0) {
      this.#point(Math.min(last, Math.max(0, to)));
      say(byId("cursor"), this.tip.textContent.replaceAll("\n", ", "));
      const [, y] = this.#place(this.#at);
      const top = this.canvas.getBoundingClientRect().top + y;
      if (top < 80 || top > innerHeight - 80) scrollBy({ top: top - innerHeight / 2 });
    }
    event.preventDefault();
  }

  /** The next node in trouble, all around. */
  #next(from, step) {
    const all = this.#names.length;
    for (let far = 1; far <= all; far += 1) {
      const at = (((from < 0 && step < 0 ? 0 : from) + far * step) % all + all) % all;
      if (troubled(this.#rows.get(this.#names[at]))) return at;
    }
    return from;
  }
}

function shortened(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  // Names differ at their end.
  for (let from = 1; from < text.length; from += 1) {
    const short = `…${text.slice(from)}`;
    if (pen.measureText(short).width <= width) return short;
  }
  return "…";
}
