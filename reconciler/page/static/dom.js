// Elements from text alone: nothing of the cluster is ever parsed as markup.

/** h("li", {class: "x", data: {tone: "ok"}, onclick: f}, "text", child, ...) */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "data") Object.assign(element.dataset, value);
    else if (key === "vars") for (const [name, text] of Object.entries(value)) element.style.setProperty(name, text);
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Text only where it differs, so that a screen reader is not told the same again. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const drawn = new WeakMap();

/** The rows [key, row] as children of `parent`, in order: what has not changed stays the element it was, with its focus. */
export function keyed(parent, rows, draw) {
  const before = drawn.get(parent) ?? new Map();
  const after = new Map();
  let place = parent.firstElementChild;
  for (const [key, row] of rows) {
    const old = before.get(key);
    const kept = old && old.row === row ? old : { row, element: draw(row, key) };
    after.set(key, kept);
    if (old && old !== kept) {
      const focused = old.element.contains(document.activeElement);
      if (place === old.element) place = kept.element;
      old.element.replaceWith(kept.element);
      if (focused) kept.element.querySelector("button")?.focus();
    }
    if (kept.element === place) place = place.nextElementSibling;
    else parent.insertBefore(kept.element, place);
  }
  for (const [key, old] of before) if (!after.has(key)) old.element.remove();
  drawn.set(parent, after);
}
