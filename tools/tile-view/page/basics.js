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

/** A table; rows with `go` can be clicked. */
function table(heads, rows) {
  const cell = (text) => element("td", typeof text === "number" ? { class: "num" } : {}, text instanceof Node ? text : String(text ?? ""));
  const row = (one) => element("tr", one.go ? { class: "go", click: one.go } : {}, one.cells.map(cell));
  return element("table", {}, element("tr", {}, heads.map((head) => element("th", {}, head))), rows.map(row));
}

/** `1 stage`, `3 stages`. */
function counted(number, what) { return `${number} ${what}${number === 1 ? "" : "s"}`; }

/** A palette of distinguishable colours, by number. */
function colour(number, lightness = 62) {
  return `hsl(${(number * 137.5) % 360} 65% ${lightness}%)`;
}

/** The exclusive or of the bases of the bits that are set in `number`. */
function apply(bases, number) {
  return bases.reduce((sum, basis, bit) => ((number >> bit) & 1 ? sum ^ basis : sum), 0);
}

/** Calls the listeners of a name: `select` (a source_position), `show` (a tab). */
const listeners = {};
function on(name, listener) { (listeners[name] ??= []).push(listener); }
function tell(name, ...what) { for (const listener of listeners[name] ?? []) listener(...what); }

/** `kernels.py:12`, or nothing. */
function sourceText(source_position) {
  const at = model.source_positions[source_position];
  return at ? `${model.files[at.file].split("/").pop()}:${at.line}` : "";
}

/** The short name of a kernel: client compilers append the argument types. */
function short(name) { return name.replace(/_Kt1_.*/, ""); }
