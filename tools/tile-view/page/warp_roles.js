// Draws the warp roles of a CTA, and the pipelines between them.
const rolesDrawing = {
  function: 0,
  show(into) {
    const view = model.functions[this.function];
    if (!view) return into.append("There are no warps before .as.");
    into.append(functionChooser(this));
    const warp_roles = view.warp_roles.length ? view.warp_roles : [{ name: "all warps have one role", first_warp: 0, warps: view.warps, registers: null }];
    const rows = warp_roles.map((warp_role, index) => ({
      cells: [element("span", { style: `color: ${colour(index, 50)}` }, warp_role.name), warp_role.warps === 1 ? warp_role.first_warp : `${warp_role.first_warp} to ${warp_role.first_warp + warp_role.warps - 1}`, warp_role.registers ?? "as many as at the start"],
    }));
    into.append(this.picture(view, warp_roles), table(["warp role", "warps", "registers per thread"], rows));
    if (!view.pipelines.length) return into.append(element("p", {}, "There are no pipelines."));
    const name = (number) => warp_roles[number]?.name ?? `role ${number}`;
    const pipelines = view.pipelines.map((pipeline) => ({
      cells: [pipeline.name, name(pipeline.producer), pipeline.consumers.map(name).join(", "), pipeline.buffers.map((buffer) => `buffer ${buffer}`).join(", "), pipeline.depth, pipeline.fill, `${pipeline.full_arrivals} fill, ${pipeline.empty_arrivals} free`],
      go: () => emit("buffer", pipeline.buffers[0]),
    }));
    into.append(element("p", {}), table(["pipeline", "producer", "consumers", "buffers", "stages", "filled by", "arrivals"], pipelines));
  },

  /**
   * Draws the warp roles side by side; the width shows the number of warps. Below them, each pipeline has an arrow from its producer
   * to each of its consumers.
   */
  picture(view, warp_roles) {
    const totalWarps = warp_roles.reduce((sum, warp_role) => sum + warp_role.warps, 0), available = Math.min(900, window.innerWidth - 60);
    const label = (warp_role) => `${warp_role.name} (${withUnit(warp_role.warps, "warp")})`;
    const middles = [], rects = [];
    let at = 2;
    for (const [index, warp_role] of warp_roles.entries()) {
      const wide = Math.max(7 * label(warp_role).length + 12, (warp_role.warps / totalWarps) * available);
      rects.push(element("g", {},
        element("rect", { class: "box", x: at, y: 2, width: wide - 4, height: 24, fill: colour(index) }),
        element("text", { x: at + 5, y: 18, style: "fill: #111" }, label(warp_role))));
      middles.push(at + wide / 2);
      at += wide;
    }
    const pipelines = view.pipelines.map((pipeline, index) => {
      const from = middles[pipeline.producer] ?? 0, ends = pipeline.consumers.map((warp_role) => middles[warp_role] ?? 0), y = 42 + index * 22;
      const arrow = (end) => element("path", { d: `M${from} ${y} H${end} m${end < from ? 7 : -7} -4 L${end} ${y} l${end < from ? 7 : -7} 4`, fill: "none", stroke: colour(pipeline.producer, 45), "stroke-width": 2 });
      const start = element("path", { d: `M${from} ${y - 4} v8`, stroke: colour(pipeline.producer, 45), "stroke-width": 2 });
      const what = pipeline.buffers.length ? `: ${pipeline.buffers.map((buffer) => `buffer ${buffer}`).join(", ")}` : "";
      return element("g", { class: "pipeline" }, start, ends.map(arrow), element("text", { x: Math.max(from, ...ends) + 10, y: y + 4 }, `${pipeline.name}${what}, ${withUnit(pipeline.depth, "stage")}`));
    });
    return element("svg", { width: Math.max(at, available) + 260, height: 38 + view.pipelines.length * 22 }, rects, pipelines);
  },
};
