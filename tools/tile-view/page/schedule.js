// Draws the schedules of pipelined loops: the units that ops occupy over several iterations.
class ScheduleDrawing {
  /** `function` is the index of the drawn function, and `chosen` the index of the selected loop. */
  constructor() { [this.function, this.chosen] = [0, 0]; }

  show(into) {
    const view = model.functions[this.function];
    if (!view?.loops.length) return into.append(functionChooser(this), "No loop of the kernel is pipelined; the decisions give the reason.");
    this.status = element("div", { class: "status", id: "schedule-status" });
    const chooser = view.loops.map((loop, index) =>
      element("button", { "aria-pressed": String(index === this.chosen), click: () => { this.chosen = index; emit("draw"); } }, `loop ${loop.index}`));
    const loop = view.loops[this.chosen] ?? view.loops[0];
    const stages = Math.max(...loop.ops.map((op) => op.stage)) + 1;
    const head = `an iteration every ${loop.interval} cycles in ${withUnit(stages, "stage")}; at least ${loop.resource_bound} by resources and ${loop.recurrence_bound} by recurrences`;
    into.append(functionChooser(this), element("div", {}, chooser, " ", head, loop.in_flight ? "; MMAs in flight" : ""), this.timeline(loop, stages), this.status, this.list(loop));
  }

  timeline(loop, stages) {
    const iterations = Math.min(8, stages + 2);
    const units = [...new Set(loop.occupied.map((one) => one.unit))];
    const [left, row] = [130, 26];
    const end = Math.max(loop.interval, ...loop.occupied.map((one) => one.start + one.cycles)) + (iterations - 1) * loop.interval;
    const width = Math.max(500, window.innerWidth - 60), height = units.length * row + 34;
    const x = (cycle) => left + (cycle / end) * (width - left - 10);
    const rules = Array.from({ length: Math.floor(end / loop.interval) + 1 }, (_, index) => [
      element("line", { class: "rule", x1: x(index * loop.interval), x2: x(index * loop.interval), y1: 0, y2: height - 18 }),
      x(loop.interval) - x(0) > 34 ? element("text", { class: "faint", x: x(index * loop.interval) + 3, y: height - 4 }, String(index * loop.interval)) : undefined,
    ]).flat();
    const names = units.map((unit, index) => element("text", { x: left - 8, y: index * row + 17, "text-anchor": "end" }, unit));
    const rects = [];
    for (let iteration = 0; iteration < iterations; iteration++) for (const one of loop.occupied) {
      const op = loop.ops[one.op], start = one.start + iteration * loop.interval;
      const status = `iteration ${iteration}, ${op.text}: ${one.unit} from cycle ${start} for ${one.cycles}; stage ${op.stage}, cycle ${op.cycle}`;
      rects.push(element("rect", {
        class: "box", x: x(start), y: units.indexOf(one.unit) * row + 3, width: Math.max(2, x(start + one.cycles) - x(start)), height: row - 6, fill: colour(iteration),
        mouseenter: () => { this.status.textContent = status; }, click: () => selectSource(op.source_position),
      }, element("title", {}, status)));
    }
    return element("svg", { id: "schedule-timeline", width, height }, rules, names, rects);
  }

  list(loop) {
    const rows = loop.ops.map((op, index) => {
      const uses = loop.occupied.filter((one) => one.op === index).map((one) => `${one.unit} ${one.cycles}`).join(", ");
      return { cells: [index, op.text, op.stage, op.cycle, uses, sourceText(op.source_position)], go: () => selectSource(op.source_position) };
    });
    return table(["", "op", "stage", "cycle", "occupies, in cycles", ""], rows);
  }
}

const scheduleDrawing = new ScheduleDrawing();
