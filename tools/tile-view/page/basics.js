// The model, and helpers for all parts of the page.
const model = JSON.parse(document.getElementById("model").textContent);

/** An element with attributes and children; attributes that are functions are listeners. */
function element(name, attributes = {}, ...children) {
  const svg = ["svg", "g", "rect", "line", "path", "text", "title"].includes(name);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(key, value);
    else if (value !== undefined && value !== false) node.setAttribute(key, value);
  }
  node.append(...children.flat().filter((child) => child !== undefined && child !== null));
  return node;
}

/** A table. A click on a row calls the row's function `go`, if it has one. */
function table(heads, rows) {
  const cell = (text) => element("td", typeof text === "number" ? { class: "num" } : {}, text instanceof Node ? text : String(text ?? ""));
  const row = (one) => element("tr", one.go ? { class: "go", click: one.go } : {}, one.cells.map(cell));
  return element("table", {}, element("tr", {}, heads.map((head) => element("th", {}, head))), rows.map(row));
}

/** A number with its unit in the singular or plural: `1 stage`, `3 stages`. */
function withUnit(number, what) { return `${number} ${what}${number === 1 ? "" : "s"}`; }

/** A colour for each number; neighbouring numbers have different hues. */
function colour(number, lightness = 62) {
  return `hsl(${(number * 137.5) % 360} 65% ${lightness}%)`;
}

/** Applies a linear layout: the exclusive or of the bases of the bits that are set in `number`. */
function applyBases(bases, number) {
  return bases.reduce((sum, basis, bit) => ((number >> bit) & 1 ? sum ^ basis : sum), 0);
}

/** Events of the page: `select` (a source position), `draw` (the current tab), `layout`, `buffer` and `search` (from a click). */
const listeners = {};
function on(name, listener) { (listeners[name] ??= []).push(listener); }
function emit(name, ...what) { for (const listener of listeners[name] ?? []) listener(...what); }

/** The text of a source position, such as `kernels.py:12`, or an empty text. */
function sourceText(source_position) {
  const at = model.source_positions[source_position];
  return at ? `${model.files[at.file].split("/").pop()}:${at.line}` : "";
}

/** The name of a kernel without the argument types that cuTile appends. */
function shortKernelName(name) { return name.replace(/_Kt1_.*/, ""); }
