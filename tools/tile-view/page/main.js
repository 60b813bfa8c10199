// Builds the page from the panes and drawings, and handles the keyboard.
const TABS = [
  ["layouts", "Layouts", layoutDrawing], ["memory", "Memory", memoryDrawing], ["schedule", "Schedule", scheduleDrawing],
  ["warp_roles", "Warp roles and pipelines", rolesDrawing], ["time", "Predicted time", timeDrawing], ["decisions", "Decisions", decisionsDrawing],
];
const drawer = document.getElementById("drawer"), drawing = document.getElementById("drawing"), field = document.getElementById("search");
let tab = 0;

function showTab(index) {
  tab = (index + TABS.length) % TABS.length;
  drawer.classList.remove("closed");
  document.querySelectorAll("#tabs button").forEach((button, at) => button.setAttribute("aria-selected", String(at === tab)));
  drawing.replaceChildren();
  TABS[tab][2].show(drawing);
}

on("draw", () => {
  const at = drawing.scrollTop;
  showTab(tab);
  drawing.scrollTop = at;
});
on("layout", (name) => {
  const index = model.layouts.findIndex((layout) => layout.name === name);
  if (index < 0) return;
  tab = 0;
  layoutDrawing.choose(index);
});
on("buffer", (number) => {
  tab = 1;
  memoryDrawing.choose(number);
});
on("search", (words) => {
  field.value = words;
  search.run(words);
});

const KEYS = [
  ["↑ ↓ or k j", "previous and next line", { ArrowUp: () => state.pane.go(state.pane.at - 1), ArrowDown: () => state.pane.go(state.pane.at + 1), k: () => state.pane.go(state.pane.at - 1), j: () => state.pane.go(state.pane.at + 1) }],
  ["← → or h l", "previous and next text", { ArrowLeft: () => activateNeighbour(-1), ArrowRight: () => activateNeighbour(1), h: () => activateNeighbour(-1), l: () => activateNeighbour(1) }],
  ["PageUp PageDown", "a page of lines", { PageUp: () => state.pane.go(state.pane.at - rowsPerPage()), PageDown: () => state.pane.go(state.pane.at + rowsPerPage()) }],
  ["g G", "first and last line", { g: () => state.pane.go(0), G: () => state.pane.go(state.pane.data.lines.length - 1) }],
  [", .", "previous and next linked line", { ",": () => nextLinked(-1), ".": () => nextLinked(1) }],
  ["1 to 9", "show or hide a text", Object.fromEntries(panes.slice(0, 9).map((pane, index) => [String(index + 1), () => toggle(pane)]))],
  ["/", "search; Enter or n for the next match, N for the previous match", { "/": () => field.select(), n: () => search.next(1), N: () => search.next(-1) }],
  ["[ ]", "previous and next drawing", { "[": () => showTab(tab - 1), "]": () => showTab(tab + 1) }],
  ["d", "show or hide the drawings", { d: () => { drawer.classList.toggle("closed"); redraw(); } }],
  ["?", "this list", { "?": () => document.getElementById("help").showModal() }],
];
const ACTIONS = Object.assign({}, ...KEYS.map(([, , actions]) => actions));

function rowsPerPage() { return Math.max(1, Math.floor(state.pane.text.clientHeight / ROW_HEIGHT) - 2); }

function activateNeighbour(by) {
  const shown = panes.filter((pane) => !pane.root.hidden);
  activate(shown[(shown.indexOf(state.pane) + by + shown.length) % shown.length] ?? state.pane);
  redraw();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.getElementById("help").open) return;
  if (event.target === field) {
    if (event.key === "Escape") field.blur();
    if (event.key === "Enter") {
      if (search.words === field.value) search.next(event.shiftKey ? -1 : 1);
      else search.run(field.value);
      field.blur();
    }
    return;
  }
  const action = ACTIONS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});
field.addEventListener("input", () => { if (!field.value) search.run(""); });
document.getElementById("help-button").addEventListener("click", () => document.getElementById("help").showModal());
window.addEventListener("resize", () => emit("draw"));

/** Returns the initial selection: the source line with the longest predicted time or, without times, with the most PTX lines. */
function initialSelection() {
  const weights = new Map(heat.bySource);
  const ptx = panes.find((pane) => pane.data.name === "ptx");
  if (!weights.size) ptx?.byLine.forEach((rows, key) => weights.set(key, rows.length));
  const [key] = [...weights].reduce((most, one) => (one[1] > most[1] ? one : most), ["", 0]);
  return model.source_positions.findIndex((source_position) => `${source_position.file}:${source_position.line}` === key);
}

function start() {
  document.getElementById("title").textContent = shortKernelName(model.title);
  document.getElementById("title").title = model.title;
  document.getElementById("facts").textContent = model.target ?? "";
  panes.forEach((pane, index) => {
    // Initially show the source, the `.sched` file and the PTX. Without a source, show the Tile IR program instead.
    pane.root.hidden = !["source", "sched", "ptx"].includes(pane.data.name) && !(pane.data.name === "tile" && !panes.some((one) => one.data.name === "source"));
    pane.button = element("button", { title: `${pane.data.title}: ${index + 1}`, click: () => toggle(pane) }, pane.data.name.startsWith("source") ? pane.data.title : pane.data.name);
    document.getElementById("chooser").append(pane.button);
    document.getElementById("panes").append(pane.root);
  });
  applyVisibility();
  activate(panes.find((pane) => !pane.root.hidden) ?? panes[0]);
  TABS.forEach(([name, title], index) => document.getElementById("tabs").append(element("button", { role: "tab", id: `tab-${name}`, click: () => showTab(index) }, title)));
  document.getElementById("keys").append(...KEYS.map(([keys, what]) => element("tr", {}, element("td", {}, element("kbd", {}, keys)), element("td", {}, what))));
  document.getElementById("missing").append(...model.missing.map((what) => element("li", {}, `Not shown: ${what}`)));
  selectSource(initialSelection());
  // The address `k.html#memory` opens the page with the drawing `memory`.
  showTab(Math.max(0, TABS.findIndex(([name]) => `#${name}` === location.hash)));
}
start();

// The page uses the system's theme until a click on the button selects the other theme.
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  root.dataset.theme = (root.dataset.theme ?? system) === "dark" ? "light" : "dark";
  redraw();
});
