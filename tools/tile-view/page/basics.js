// Parses the data of the page (`model`), and defines helpers for all drawings and panes. `src/model.rs` describes the data.
const model = JSON.parse(document.getElementById("model").textContent);

/** Creates an HTML or SVG element with attributes and children. An attribute whose value is a function is an event listener. */
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

/** Creates a table from column headings and rows. A row has `cells`, and optionally a function `go` that a click on the row calls. */
function table(heads, rows) {
  const cell = (text) => element("td", typeof text === "number" ? { class: "num" } : {}, text instanceof Node ? text : String(text ?? ""));
  const row = (one) => element("tr", one.go ? { class: "go", click: one.go } : {}, one.cells.map(cell));
  return element("table", {}, element("tr", {}, heads.map((head) => element("th", {}, head))), rows.map(row));
}

/** Returns a number with its unit in the singular or plural: `1 stage`, `3 stages`. */
function withUnit(number, unit) { return `${number} ${unit}${number === 1 ? "" : "s"}`; }

/** Returns a colour for a number. Consecutive numbers have very different hues, because 137.5 degrees is the golden angle. */
function colour(number, lightness = 62) {
  return `hsl(${(number * 137.5) % 360} 65% ${lightness}%)`;
}

/** Applies a linear layout: returns the XOR of the bases whose bits are set in `number`. */
function applyBases(bases, number) {
  return bases.reduce((sum, basis, bit) => ((number >> bit) & 1 ? sum ^ basis : sum), 0);
}

/**
 * The listeners of each page event: `select` (of a source position), `draw` (the current tab again), and the clicks `layout`,
 * `buffer` and `search`.
 */
const listeners = {};
function on(name, listener) { (listeners[name] ??= []).push(listener); }
function emit(name, ...what) { for (const listener of listeners[name] ?? []) listener(...what); }

/** Returns the text of a source position, such as `kernels.py:12`. If the index has no position, the text is empty. */
function sourceText(source_position) {
  const at = model.source_positions[source_position];
  return at ? `${model.files[at.file].split("/").pop()}:${at.line}` : "";
}

/** Returns the name of a kernel without the argument types that cuTile appends to it. */
function shortKernelName(name) { return name.replace(/_Kt1_.*/, ""); }
