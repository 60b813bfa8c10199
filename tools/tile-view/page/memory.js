// Draws shared memory and TMEM: offsets and live ranges of buffers, the banks of a buffer, and the cost of accesses.
class MemoryDrawing {
  /** `function` is the index of the drawn function, and `chosen` the index of the selected buffer. */
  constructor() { [this.function, this.chosen] = [0, 0]; }

  show(into) {
    const view = model.functions[this.function], buffers = view?.buffers ?? [];
    if (!buffers.length) return into.append(model.functions.length ? "The kernel uses no shared memory." : "There are no buffers before .as.");
    this.status = element("div", { class: "status", id: "memory-status" });
    into.append(functionChooser(this), this.map("shared", view.shared_bytes, "bytes of shared memory"));
    if (buffers.some((buffer) => buffer.space === "tensor")) into.append(this.map("tensor", view.tmem_columns, "TMEM columns"));
    into.append(this.status, this.details(buffers[this.chosen]));
  }

  choose(index) {
    this.chosen = index;
    emit("draw");
  }

  /**
   * Draws the buffers of a memory as rectangles: ops from left to right, addresses downwards. The ops that all warps execute come
   * first. The ops of each warp role follow side by side, although the roles run at the same time.
   */
  map(space, size, unit) {
    const view = model.functions[this.function];
    const [left, width, top] = [70, Math.max(400, window.innerWidth - 140), view.warp_roles.length ? 18 : 0], height = 150 + top;
    const capacity = Math.max(1, size, ...view.buffers.filter((buffer) => buffer.space === space).map((buffer) => buffer.offset + buffer.size * buffer.depth));
    const x = (op) => left + (op / Math.max(1, view.ops)) * (width - left - 10), y = (at) => top + 4 + (at / capacity) * (height - top - 22);
    const stageRects = (buffer, index, live_range) => Array.from({ length: buffer.depth }, (_, stage) => {
      const [from, to] = [x(live_range[0]), x(live_range[1] + 1)], at = buffer.offset + stage * buffer.size;
      const [upper, tall] = [y(at), Math.max(2, y(at + buffer.size) - y(at))];
      const status = `${buffer.name}${buffer.depth > 1 ? `, stage ${stage} of ${buffer.depth}` : ""}: ${buffer.shape.join("x")}x${buffer.elem}, ${at} to ${at + buffer.size}`;
      const rect = element("rect", {
        class: index === this.chosen ? "box chosen" : "box", x: from, y: upper, width: Math.max(3, to - from), height: tall, fill: colour(index),
        mouseenter: () => { this.status.textContent = status; }, click: () => { goToOp(view, live_range[0]); this.choose(index); },
      }, element("title", {}, status));
      const label = element("text", { x: from + 4, y: upper + 11, style: "fill: #111; pointer-events: none" }, stage ? `stage ${stage}` : buffer.name);
      return element("g", {}, rect, tall > 12 && to - from > 60 ? label : undefined);
    });
    const rects = view.buffers.flatMap((buffer, index) => (buffer.space === space ? buffer.live_ranges.flatMap((live_range) => stageRects(buffer, index, live_range)) : []));
    const warp_roles = view.role_spans.filter((span) => view.warp_roles.length && (span.warp_role === null || span.ops[1] > span.ops[0])).map((span) => element("g", {},
      element("line", { x1: x(span.ops[0]), x2: x(span.ops[0]), y1: 0, y2: height - 16, class: "rule" }),
      this.labelIfFits(span.warp_role === null ? "all warps" : view.warp_roles[span.warp_role].name, x(span.ops[0]) + 4, x(span.ops[1] + 1))));
    const labels = [0, capacity].map((at, last) => element("text", { class: "faint", x: left - 6, y: last ? height - 18 : top + 12, "text-anchor": "end" }, String(at)));
    const axis = element("text", { class: "faint", x: left, y: height - 2 }, `first op to last of ${view.ops}${view.warp_roles.length ? "; warp roles run at the same time" : ""}; ${size} ${unit}`);
    return element("svg", { id: `${space}-map`, width, height }, warp_roles, rects, labels, axis);
  }

  /** Returns a label if it fits between two x coordinates. */
  labelIfFits(word, from, to) {
    return 7 * word.length < to - from ? element("text", { class: "faint", x: from, y: 12 }, word) : undefined;
  }

  /** Shows the accesses to a buffer, and draws its elements. */
  details(buffer) {
    const view = model.functions[this.function];
    const rows = buffer.accesses.map((access) => {
      const line = model.panes.find((pane) => pane.name === "sched")?.numbers[view.rows[access.op]];
      const { wavefronts } = access;
      const cost = !wavefronts ? "" : wavefronts.count > wavefronts.minimum ? element("span", { class: "bad" }, `${wavefronts.count} wavefronts, ${wavefronts.minimum} at best`) : `${wavefronts.count} wavefronts, no conflicts`;
      return { cells: [line ?? "", access.mnemonic, access.access_kind, access.proxy, access.atom, cost], go: () => goToOp(view, access.op) };
    });
    const accesses = table(["line", "op", "", "accessed by", "instruction", "per warp instruction"], rows);
    const title = `${buffer.name}: ${buffer.shape.join("x")}x${buffer.elem}, ${buffer.size} ${buffer.space === "tensor" ? "columns" : "bytes"}${buffer.depth > 1 ? `, ${buffer.depth} stages` : ""}, at ${buffer.offset}`;
    return element("div", { class: "split" }, element("div", {}, element("b", {}, title), accesses), buffer.space === "tensor" ? this.lanes(buffer) : this.banks(buffer));
  }

  /** Draws the element in each TMEM lane and column. The colour shows the element's row in the tile. */
  lanes(buffer) {
    const log2ElementsPerWord = Math.log2(Math.max(1, 4 / Math.max(1, buffer.elem_bytes))), log2Columns = Math.log2(buffer.size);
    const size = Math.max(2, Math.min(8, Math.floor(640 / buffer.size)));
    const at = (lane, column) => {
      const offset = (lane << (log2ElementsPerWord + log2Columns)) | (column << log2ElementsPerWord);
      // A basis of 0 means that the buffer does not use the address bit, so it has no element where the bit is set.
      const nothing = buffer.offsets.some((basis, bit) => basis === 0 && (offset >> bit) & 1);
      return nothing ? undefined : coordinates(applyBases(buffer.offsets, offset), buffer.shape);
    };
    const status = element("div", { class: "status" }, "lanes downwards, columns to the right, coloured by row");
    const canvas = element("canvas", {
      id: "lane-canvas", width: buffer.size * size, height: 128 * size,
      mousemove: (event) => {
        const box = canvas.getBoundingClientRect();
        const [column, lane] = [event.clientX - box.left, event.clientY - box.top].map((at) => Math.floor(at / size));
        const found = at(lane, column);
        status.textContent = `lane ${lane}, column ${column}: ${found ? `(${found.join(", ")})${log2ElementsPerWord ? ` and ${2 ** log2ElementsPerWord - 1} more` : ""}` : "nothing"}`;
      },
    });
    const context = canvas.getContext("2d");
    for (let lane = 0; lane < 128; lane++) for (let column = 0; column < buffer.size; column++) {
      const found = at(lane, column);
      if (!found) continue;
      context.fillStyle = colour(found.at(-2) ?? 0, 50 + (found.at(-1) % 32));
      context.fillRect(column * size, lane * size, size, size);
    }
    return element("div", {}, status, canvas);
  }

  /** Draws the shared-memory bank of the first byte of each element. */
  banks(buffer) {
    const columns = buffer.shape.length > 1 ? buffer.shape.at(-1) : Math.min(buffer.shape[0] ?? 1, 64);
    const elements = buffer.shape.reduce((product, extent) => product * extent, 1);
    if (elements > MAX_DRAWN_ELEMENTS) return element("div", {}, "The buffer is too large to be drawn.");
    const size = Math.max(2, Math.min(24, Math.floor(640 / columns)));
    const offsets = new Array(elements);
    for (let offset = 0; offset < elements; offset++) offsets[applyBases(buffer.offsets, offset)] = offset;
    const bank = (element) => Math.floor((offsets[element] * buffer.elem_bytes) / 4) % 32;
    const status = element("div", { class: "status" }, "first bank of each element");
    const canvas = element("canvas", {
      id: "bank-canvas", width: columns * size, height: Math.ceil(elements / columns) * size,
      mousemove: (event) => {
        const box = canvas.getBoundingClientRect();
        const [column, row] = [event.clientX - box.left, event.clientY - box.top].map((at) => Math.floor(at / size));
        const number = row * columns + column;
        if (column < columns && number < elements) {
          status.textContent = `(${coordinates(number, buffer.shape).join(", ")}): byte ${offsets[number] * buffer.elem_bytes}, bank ${bank(number)}`;
        }
      },
    });
    const context = canvas.getContext("2d");
    for (let number = 0; number < elements; number++) {
      context.fillStyle = `hsl(${bank(number) * 11.25} 70% 60%)`;
      context.fillRect((number % columns) * size, Math.floor(number / columns) * size, size > 4 ? size - 1 : size, size > 4 ? size - 1 : size);
      if (size >= 18) {
        context.fillStyle = "#111";
        context.font = "10px ui-monospace, monospace";
        context.fillText(String(bank(number)), (number % columns) * size + 3, Math.floor(number / columns) * size + 13);
      }
    }
    return element("div", {}, status, canvas);
  }
}

/** Creates a button for each function, if there are several. A click selects the function in the drawing. */
function functionChooser(drawing) {
  if (model.functions.length < 2) return element("div", {});
  return element("div", {}, model.functions.map((view, index) =>
    element("button", { "aria-pressed": String(index === drawing.function), click: () => { [drawing.function, drawing.chosen] = [index, 0]; emit("draw"); } }, shortKernelName(view.name))));
}

/** Selects the line of an op in the `.sched` pane, and shows the pane. */
function goToOp(view, op) {
  const pane = panes.find((pane) => pane.data.name === "sched");
  if (!pane || view.rows[op] === undefined) return;
  if (pane.root.hidden) toggle(pane);
  activate(pane);
  pane.go(view.rows[op]);
}

const memoryDrawing = new MemoryDrawing();
