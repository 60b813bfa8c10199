// Shows the texts side by side, links lines of the same source position, and searches. Only the rows in view are HTML elements.
const ROW_HEIGHT = 18;

/** Computes the share of the predicted time of each PTX line (`byNumber`) and of each source line (`bySource`). */
function computeHeat() {
  const byNumber = new Map((model.time?.lines ?? []).map((line) => [line.line, line]));
  const ptx = model.panes.find((pane) => pane.name === "ptx");
  const bySource = new Map();
  const loops = loopLines(), key = (row) => { const at = model.source_positions[ptx.source_positions[row]]; return at && `${at.file}:${at.line}`; };
  ptx?.numbers.forEach((number, row) => {
    const time = byNumber.get(number);
    let line = key(row);
    // Waits, barriers and branches have the source line of their loop. Attribute their time to the op that the wait delays: usually
    // the next op with another line.
    if (time && loops.has(line) && WAITS.test(ptx.lines[row])) line = lineOfWaitingOp(ptx, row, key, loops) ?? line;
    if (line && time) bySource.set(line, (bySource.get(line) ?? 0) + time.share);
  });
  return { byNumber, bySource };
}

/** Matches a PTX line that waits, synchronizes or branches. */
const WAITS = /\b(mbarrier|barrier|bar\.sync|wait_group|wait_all|commit_group|fence|bra|tcgen05\.wait|elect)\b/;

/** Returns the source lines of the loop ops of the program. */
function loopLines() {
  const texts = model.panes.filter((pane) => ["tile", "aa", "as", "sched"].includes(pane.name));
  const lines = texts.flatMap((text) => text.lines.map((line, row) => /(^|= )\s*(for|loop)\b/.test(line) && model.source_positions[text.source_positions[row]]));
  return new Set(lines.filter(Boolean).map((at) => `${at.file}:${at.line}`));
}

/**
 * Returns the source line of the op that a wait in this row delays. It is the line of the next instruction in the loop body that
 * does not have the line of a loop. If there is no such instruction, it is the line of the last one before the row.
 */
function lineOfWaitingOp(ptx, row, key, loops) {
  const own = key(row), isOp = (at) => key(at) && !loops.has(key(at));
  for (let at = row + 1; at < ptx.lines.length; at++) {
    if (isOp(at)) return key(at);
    if (/\bbra\b/.test(ptx.lines[at]) && key(at) === own) break;
  }
  for (let at = row - 1; at >= 0; at--) if (isOp(at)) return key(at);
  return undefined;
}
const heat = computeHeat();

/** A text of the page. `data` is its part of the model, and `at` is the current row. */
class Pane {
  constructor(data) {
    this.data = data;
    this.at = 0;
    this.sheet = element("div", { class: "sheet" });
    this.text = element("div", { class: "text", tabindex: "-1", scroll: () => this.draw() }, this.sheet);
    this.root = element("section", { class: "pane", id: `pane-${data.name}` }, element("h2", {}, data.title), this.text);
    this.sheet.style.height = `${data.lines.length * ROW_HEIGHT}px`;
    this.text.addEventListener("mousedown", (event) => this.clicked(event));
    new ResizeObserver(() => this.draw()).observe(this.text);
    this.byLine = new Map();
    data.source_positions.forEach((source_position, row) => {
      const at = model.source_positions[source_position];
      if (!at) return;
      const key = `${at.file}:${at.line}`;
      if (!this.byLine.has(key)) this.byLine.set(key, []);
      this.byLine.get(key).push(row);
    });
  }

  /** Returns the rows that the compiler generated from the selected source line. */
  linked() {
    const at = model.source_positions[state.source_position];
    return at ? this.byLine.get(`${at.file}:${at.line}`) ?? [] : [];
  }

  draw() {
    if (this.root.hidden) return;
    const first = Math.max(0, Math.floor(this.text.scrollTop / ROW_HEIGHT) - 10);
    const last = Math.min(this.data.lines.length, Math.ceil((this.text.scrollTop + this.text.clientHeight) / ROW_HEIGHT) + 10);
    const linked = new Set(this.linked());
    const rows = [];
    for (let row = first; row < last; row++) rows.push(this.row(row, linked));
    this.sheet.replaceChildren(...rows);
  }

  row(row, linked) {
    const source_position = this.data.source_positions[row];
    let classes = "row";
    if (linked.has(row)) classes += this.isExact(source_position) ? " exact" : " linked";
    if (state.pane === this && this.at === row) classes += " at";
    if (search.isMatch(this, row)) classes += " match";
    const code = element("span", { class: "code" });
    code.innerHTML = highlight(this.data.lines[row]);
    const div = element("div", { class: classes, "data-row": row }, element("span", { class: "no" }, String(this.data.numbers[row])), this.heat(row), code);
    div.style.top = `${row * ROW_HEIGHT}px`;
    return div;
  }

  /** Returns whether a position on the selected line also has the selected column. A position without column matches every column. */
  isExact(source_position) {
    const [one, other] = [model.source_positions[source_position], model.source_positions[state.source_position]];
    return source_position === state.source_position || one.column === 0 || other.column === 0;
  }

  /** Shows a row's share of the predicted time. Only PTX and source panes have this column. */
  heat(row) {
    if (!model.time) return undefined;
    let share, reason = "";
    if (this.data.name === "ptx") {
      const time = heat.byNumber.get(this.data.numbers[row]);
      [share, reason] = [time?.share, time?.main_reason ?? ""];
    } else if (this.data.name.startsWith("source")) {
      const at = model.source_positions[this.data.source_positions[row]];
      share = at && heat.bySource.get(`${at.file}:${at.line}`);
    } else return undefined;
    const shown = share >= 0.0005 ? `${(100 * share).toFixed(1)} %` : "";
    return element("span", { class: "heat", title: reason, style: share ? `background: rgba(var(--hot), ${Math.min(0.8, 0.05 + 2 * share)})` : "" }, shown);
  }

  /** Moves to a row and scrolls it into view. */
  go(row, select = true) {
    this.at = Math.max(0, Math.min(this.data.lines.length - 1, row));
    this.show(this.at);
    if (select) selectSource(this.data.source_positions[this.at], this);
    else redraw();
  }

  show(row) {
    const [top, height] = [row * ROW_HEIGHT, this.text.clientHeight];
    if (top < this.text.scrollTop || top + 2 * ROW_HEIGHT > this.text.scrollTop + height) this.text.scrollTop = Math.max(0, top - height / 3);
  }

  clicked(event) {
    const row = event.target.closest(".row");
    if (!row) return;
    activate(this);
    const word = event.target.closest("[data-layout], [data-buffer], .v");
    if (word?.dataset.layout) emit("layout", `#${word.dataset.layout}`);
    else if (word?.dataset.buffer) emit("buffer", Number(word.dataset.buffer));
    state.value = word?.classList.contains("v") ? word.textContent : undefined;
    this.go(Number(row.dataset.row));
  }
}

const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
const WORDS = /(\/\/.*$|\/\*[^*]*\*\/)|(%[\w.]+)|(#\d+)(?=[,>)\]])|\b(buffer: )(\d+)|\b(layout: )(\d+)|(\b-?\d[\w.]*)/g;

/** Converts a line of text to HTML with coloured comments, values, layouts, buffers and numbers. */
function highlight(line) {
  const plain = (text) => text.replace(/[&<>]/g, (char) => ESCAPES[char]);
  let out = "", end = 0;
  for (const match of line.matchAll(WORDS)) {
    out += plain(line.slice(end, match.index));
    end = match.index + match[0].length;
    const [whole, comment, value, layout, , buffer, , ofCopy] = match;
    if (comment) out += `<span class="c">${plain(comment)}</span>`;
    else if (value) out += `<span class="v${value === state.value ? " same" : ""}">${value}</span>`;
    else if (layout) out += `<span class="k" data-layout="${layout.slice(1)}">${layout}</span>`;
    else if (buffer) out += `buffer: <span class="k" data-buffer="${buffer}">${buffer}</span>`;
    else if (ofCopy) out += `layout: <span class="k" data-layout="${ofCopy}">${ofCopy}</span>`;
    else out += `<span class="n">${plain(whole)}</span>`;
  }
  return out + plain(line.slice(end));
}

const panes = model.panes.map((data) => new Pane(data));
const state = { pane: panes[0], source_position: -1, value: undefined };

function activate(pane) {
  state.pane = pane;
  for (const one of panes) one.root.classList.toggle("active", one === pane);
}

function redraw() { for (const pane of panes) pane.draw(); }

/** Selects a source position, and scrolls its lines into view in all panes except `from`. */
function selectSource(source_position, from) {
  state.source_position = source_position;
  for (const pane of panes) {
    const rows = pane === from || pane.root.hidden ? [] : pane.linked();
    if (!rows.length) continue;
    const exact = rows.find((row) => pane.isExact(pane.data.source_positions[row])) ?? rows[0];
    pane.at = exact;
    pane.show(exact);
  }
  redraw();
  emit("select", source_position);
}

/** Moves to the next or previous line of the active pane that has the selected source line. */
function nextLinked(step) {
  const rows = state.pane.linked();
  const next = step > 0 ? rows.find((row) => row > state.pane.at) ?? rows[0] : rows.findLast((row) => row < state.pane.at) ?? rows.at(-1);
  if (next !== undefined) state.pane.go(next);
}

function toggle(pane) {
  pane.root.hidden = !pane.root.hidden;
  if (pane.root.hidden && state.pane === pane) activate(panes.find((one) => !one.root.hidden) ?? pane);
  applyVisibility();
  redraw();
}

function applyVisibility() {
  for (const pane of panes) {
    pane.root.style.display = pane.root.hidden ? "none" : "";
    pane.button.setAttribute("aria-pressed", String(!pane.root.hidden));
  }
}

/** The state of the text search. A search covers all visible panes. */
const search = {
  words: "",
  matches: [],
  now: -1,
  keys: new Set(),
  isMatch(pane, row) { return this.keys.has(`${pane.data.name}:${row}`); },
  run(words) {
    this.words = words;
    const query = words.toLowerCase();
    this.matches = [];
    if (query) for (const pane of panes.filter((pane) => !pane.root.hidden)) {
      pane.data.lines.forEach((line, row) => { if (line.toLowerCase().includes(query)) this.matches.push([pane, row]); });
    }
    this.keys = new Set(this.matches.map(([pane, row]) => `${pane.data.name}:${row}`));
    this.now = -1;
    if (this.matches.length) this.next(1);
    else { this.showCount(); redraw(); }
  },
  next(step) {
    if (!this.matches.length) return;
    this.now = (this.now + step + this.matches.length) % this.matches.length;
    const [pane, row] = this.matches[this.now];
    activate(pane);
    pane.go(row);
    this.showCount();
  },
  showCount() {
    const count = !this.words ? "" : this.matches.length ? `${this.now + 1} of ${this.matches.length}` : "not found";
    document.getElementById("found").textContent = count;
  },
};
