// What a cell of the fleet map is: how large, in what colour, in what words.

import { VERDICTS, chipWord, many } from "./words.js";

const SIZES = [24, 20, 18, 16, 14, 12, 10, 8, 6, 5, 4, 3, 2];
const TALLEST_PX = 560;
const LABEL_FROM_PX = 10;

/** How many chips stand beside one another in a cell, and how large they can be. */
export function layout(width, nodes, chips) {
  const columns = chips <= 4 ? Math.max(1, chips) : chips <= 16 ? 4 : 8;
  const rows = Math.max(1, Math.ceil(chips / columns));
  for (const size of SIZES) {
    const gap = size >= 8 ? 3 : size >= 4 ? 1 : 0;
    const pad = size >= 8 ? 7 : size >= 4 ? 2 : 1;
    const label = size >= LABEL_FROM_PX ? 17 : 0;
    const space = size >= 8 ? 8 : size >= 4 ? 3 : 1;
    const inner = columns * size + (columns - 1) * gap;
    const least = (label ? Math.max(inner, 92) : inner) + 2 * pad + space;
    const cellHeight = rows * size + (rows - 1) * gap + 2 * pad + label + space;
    const across = Math.max(1, Math.min(Math.floor((width + space) / least), label ? nodes : Infinity));
    const height = Math.ceil(nodes / across) * cellHeight - space;
    if (height <= TALLEST_PX || size === SIZES.at(-1)) {
      // Large cells share the whole width, so that a small fleet looks like one.
      const cellWidth = label ? Math.min((width + space) / across, 2 * least) : least;
      const step = label && columns > 1 ? (cellWidth - space - 2 * pad - size) / (columns - 1) : size + gap;
      return { size, gap, step: Math.min(step, size * 1.6), pad, label, space, columns, rows, cellWidth, cellHeight, across, height: Math.max(height, 0) };
    }
  }
}

export const troubled = ([verdict, chips, itself, taint]) => verdict !== "o" || Boolean(itself || taint) || /[^.]/.test(chips);

/** The name of the colour of what is worst about a node. */
export function worst([verdict, chips, itself, taint]) {
  const by = { f: "fault", d: "dead", u: "unknown", r: "released" }[verdict];
  if (by) return by;
  const tones = [...itself, ...chips].map((letter) => chipWord(letter).tone);
  const found = ["fault", "warn", "drill", "unknown"].find((tone) => tones.includes(tone));
  return found ?? (taint || tones.includes("note") ? "warn" : "line");
}

/** A node in words, one line for each thing to say. */
export function describe(name, [verdict, chips, itself, taint]) {
  const lines = [`${name}: ${VERDICTS[verdict]}${taint ? `, isolated as ${taint}` : ""}`];
  if (itself) lines.push(`the node itself: ${chipWord(itself).word}`);
  const bad = [...chips].map((letter, phy) => [phy, letter]).filter(([, letter]) => letter !== ".");
  for (const [phy, letter] of bad.slice(0, 8)) lines.push(`chip ${phy}: ${chipWord(letter).word}`);
  if (!chips) lines.push("no report of its chips");
  else if (!bad.length) lines.push(`${many(chips.length, "chip")} ok`);
  return lines.join("\n");
}
