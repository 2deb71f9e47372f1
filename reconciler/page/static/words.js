// Numbers, times and the vocabulary of the fault model in words.

export const LEVELS = [
  "NotHandleFault", "SubHealthFault", "RestartRequest", "RestartBusiness", "FreeRestartNPU",
  "RestartNPU", "PreSeparateNPU", "SeparateNPU", "ManuallySeparateNPU",
];
export const VERDICTS = { f: "fault", d: "dead", u: "unknown", r: "released", o: "ok" };
/** In which order a person wants to see them. */
export const ORDER = ["d", "f", "u", "r", "o"];

export const levelTone = (rank) => (rank === 0 ? "note" : rank === 1 ? "warn" : "fault");

/** What one character of a node's row says. */
export function chipWord(letter) {
  if (letter === ".") return { tone: "ok", word: "ok", rank: -1 };
  if (letter === "?") return { tone: "unknown", word: "cannot be seen in full", rank: -1 };
  const drill = letter >= "a";
  const rank = drill ? letter.charCodeAt(0) - 97 : Number(letter);
  return drill
    ? { tone: "drill", word: `drill: ${LEVELS[rank]}`, rank }
    : { tone: levelTone(rank), word: LEVELS[rank], rank };
}

export const count = (number) => number.toLocaleString("en-US");
export const many = (number, one, more = `${one}s`) => `${count(number)} ${number === 1 ? one : more}`;

export function span(seconds) {
  const s = Math.max(0, seconds);
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min ${String(Math.round(s % 60) % 60).padStart(2, "0")} s`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")} min`;
  return `${Math.floor(s / 86400)} days`;
}

/** Seconds since 1970 of an RFC 3339 time; NaN where there is none. */
export const unix = (text) => (text ? Date.parse(text) / 1000 : NaN);
