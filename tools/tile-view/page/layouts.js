// Draws a layout: the warp, lane and register of each tile element.

/** Maximum number of elements of a drawn tile. */
const MAX_DRAWN_ELEMENTS = 1 << 20;

class LayoutDrawing {
  /**
   * `chosen` is the index of the drawn layout, and `use` the index of the drawn tile type. `by` is the number that colours the
   * elements: `warp`, `lane` or `register`. `thread` is the highlighted thread, if any.
   */
  constructor() {
    this.chosen = 0;
    this.use = 0;
    this.by = "warp";
    this.thread = undefined;
  }

  get layout() { return model.layouts[this.chosen]; }

  choose(index) {
    [this.chosen, this.use, this.thread] = [index, 0, undefined];
    emit("draw");
  }

  show(into) {
    if (!model.layouts.length) return into.append("There is no layout before .as.");
    const list = model.layouts.map((layout, index) => {
      const tileTypes = layout.uses.map((use) => [...use.shape, use.elem].join("x")).join(", ");
      return element("button", { "aria-pressed": String(index === this.chosen), click: () => this.choose(index) }, `${layout.name}  ${tileTypes}`);
    });
    this.right = element("div", {});
    into.append(element("div", { class: "split" }, element("div", { class: "list", id: "layout-list" }, list), this.right));
    this.draw();
  }

  draw() {
    const { layout } = this, use = layout.uses[this.use];
    if (!use) return this.right.replaceChildren("No value has this layout.");
    this.shape = use.shape;
    this.columns = use.shape.length > 1 ? use.shape.at(-1) : Math.min(use.shape[0] ?? 1, 64);
    this.elements = use.shape.reduce((product, extent) => product * extent, 1);
    this.rows = Math.ceil(this.elements / this.columns);
    if (this.elements > MAX_DRAWN_ELEMENTS) return this.right.replaceChildren("The tile is too large to be drawn.");
    this.owners = owners(layout, this.elements);
    this.size = Math.max(3, Math.min(44, Math.floor((window.innerWidth - 480) / this.columns)));
    this.status = element("div", { class: "status", id: "layout-status" });
    this.canvas = element("canvas", {
      id: "layout-canvas", width: this.columns * this.size + 1, height: this.rows * this.size + 1,
      mousemove: (event) => this.point(event, false), click: (event) => this.point(event, true),
    });
    this.right.replaceChildren(this.controls(), this.bases(), this.status, this.canvas);
    this.paint();
  }

  controls() {
    const { layout } = this;
    const uses = layout.uses.map((use, index) =>
      element("button", { "aria-pressed": String(index === this.use), click: () => { this.use = index; this.thread = undefined; emit("draw"); } },
        `${[...use.shape, use.elem].join("x")} (${use.count})`));
    const by = ["warp", "lane", "register"].map((name) =>
      element("button", { "aria-pressed": String(name === this.by), click: () => { this.by = name; emit("draw"); } }, name));
    const counts = `${2 ** layout.warp.length} warps of 32 lanes, ${2 ** layout.register.length} registers each`;
    const find = element("button", { click: () => emit("search", layout.name) }, "find");
    return element("div", {}, element("b", {}, `${layout.name} `), counts, " of ", uses, " coloured by ", by, " ", find);
  }

  /** Returns the basis vectors of the layout as text: the coordinate offset of each bit of the register, lane and warp number. */
  bases() {
    const step = (basis) => (basis ? `+(${coordinates(basis, this.shape).join(",")})` : "copies");
    const line = (name) => element("div", {}, `${name.padEnd(9)}`, this.layout[name].map(step).join("  ") || "no bits");
    return element("div", { class: "bases" }, ["register", "lane", "warp"].map(line));
  }

  paint() {
    const context = this.canvas.getContext("2d"), { size } = this;
    context.font = `${Math.max(8, size / 4.4)}px ui-monospace, monospace`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let element = 0; element < this.elements; element++) {
      const owner = this.owners[element];
      const [x, y] = [(element % this.columns) * size, Math.floor(element / this.columns) * size];
      const lightness = this.by === "warp" ? 55 + (owner.lane % 8) * 4 : 65;
      const chosen = !this.thread || (this.thread.warp === owner.warp && this.thread.lane === owner.lane);
      context.globalAlpha = chosen ? 1 : 0.25;
      context.fillStyle = colour(owner[this.by], lightness);
      context.fillRect(x, y, size > 4 ? size - 1 : size, size > 4 ? size - 1 : size);
      if (size >= 26) {
        context.fillStyle = "#111";
        context.fillText(`w${owner.warp} l${owner.lane}`, x + size / 2, y + size * 0.32);
        context.fillText(`r${owner.register}`, x + size / 2, y + size * 0.68);
      }
    }
    context.globalAlpha = 1;
  }

  /** Shows the owner of the element under the pointer. A click highlights all elements of the owner. */
  point(event, click) {
    const bounds = this.canvas.getBoundingClientRect();
    const [column, row] = [event.clientX - bounds.left, event.clientY - bounds.top].map((at) => Math.floor(at / this.size));
    const number = row * this.columns + column;
    const owner = column < this.columns ? this.owners[number] : undefined;
    if (!owner) return;
    const copies = 2 ** [...this.layout.lane, ...this.layout.warp].filter((basis) => basis === 0).length;
    const more = copies > 1 ? `, and ${copies - 1} more hold copies` : "";
    this.status.textContent = `(${coordinates(number, this.shape).join(", ")}): warp ${owner.warp}, lane ${owner.lane}, register ${owner.register}${more}`;
    if (click) {
      const same = this.thread?.warp === owner.warp && this.thread?.lane === owner.lane;
      this.thread = same ? undefined : owner;
      this.paint();
    }
  }
}

/** Returns the warp, lane and register that hold each element. If an element has copies, returns the copy with the lowest numbers. */
function owners(layout, elements) {
  const all = new Array(elements);
  for (let warp = 2 ** layout.warp.length - 1; warp >= 0; warp--) {
    for (let lane = 31; lane >= 0; lane--) {
      const start = applyBases(layout.warp, warp) ^ applyBases(layout.lane, lane);
      for (let register = 2 ** layout.register.length - 1; register >= 0; register--) {
        all[start ^ applyBases(layout.register, register)] = { warp, lane, register };
      }
    }
  }
  return all;
}

/** Converts a row-major linear index to coordinates. */
function coordinates(element, shape) {
  const all = [];
  for (const extent of [...shape].reverse()) {
    all.unshift(element % extent);
    element = Math.floor(element / extent);
  }
  return all;
}

const layoutDrawing = new LayoutDrawing();
