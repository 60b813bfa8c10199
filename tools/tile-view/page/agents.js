// Agents, which share out the warps of a block, and the pipes between them.
const agentsDrawing = {
  function: 0,
  show(into) {
    const of = model.functions[this.function];
    if (!of) return into.append("There are no warps before .as.");
    into.append(functionChooser(this));
    const agents = of.agents.length ? of.agents : [{ name: "all warps do the same", first_warp: 0, warps: of.warps, registers: null }];
    const rows = agents.map((agent, index) => ({
      cells: [element("span", { style: `color: ${colour(index, 50)}` }, agent.name), agent.warps === 1 ? agent.first_warp : `${agent.first_warp} to ${agent.first_warp + agent.warps - 1}`, agent.registers ?? "as many as the block starts with"],
    }));
    into.append(this.picture(of, agents), table(["agent", "warps", "registers of a thread"], rows));
    if (!of.pipes.length) return into.append(element("p", {}, "There are no pipes."));
    const name = (number) => agents[number]?.name ?? `agent ${number}`;
    const pipes = of.pipes.map((pipe) => ({
      cells: [pipe.name, name(pipe.producer), pipe.consumers.map(name).join(", "), pipe.buffers.map((buffer) => `buffer ${buffer}`).join(", "), pipe.depth, pipe.fill, `${pipe.full} fill, ${pipe.empty} free`],
      go: () => tell("buffer", pipe.buffers[0]),
    }));
    into.append(element("p", {}), table(["pipe", "from", "to", "buffers", "slots", "filled by", "arrivals"], pipes));
  },

  /** Agents in a row, the wider the more warps they have, and below them an arrow for each pipe, from who fills it to who needs that. */
  picture(of, agents) {
    const all = agents.reduce((sum, agent) => sum + agent.warps, 0), room = Math.min(900, window.innerWidth - 60);
    const label = (agent) => `${agent.name} (${counted(agent.warps, "warp")})`;
    const middles = [], boxes = [];
    let at = 2;
    for (const [index, agent] of agents.entries()) {
      const wide = Math.max(7 * label(agent).length + 12, (agent.warps / all) * room);
      boxes.push(element("g", {},
        element("rect", { class: "box", x: at, y: 2, width: wide - 4, height: 24, fill: colour(index) }),
        element("text", { x: at + 5, y: 18, style: "fill: #111" }, label(agent))));
      middles.push(at + wide / 2);
      at += wide;
    }
    const pipes = of.pipes.map((pipe, index) => {
      const from = middles[pipe.producer] ?? 0, ends = pipe.consumers.map((agent) => middles[agent] ?? 0), y = 42 + index * 22;
      const arrow = (end) => element("path", { d: `M${from} ${y} H${end} m${end < from ? 7 : -7} -4 L${end} ${y} l${end < from ? 7 : -7} 4`, fill: "none", stroke: colour(pipe.producer, 45), "stroke-width": 2 });
      const start = element("path", { d: `M${from} ${y - 4} v8`, stroke: colour(pipe.producer, 45), "stroke-width": 2 });
      const what = pipe.buffers.length ? `: ${pipe.buffers.map((buffer) => `buffer ${buffer}`).join(", ")}` : "";
      return element("g", { class: "pipe" }, start, ends.map(arrow), element("text", { x: Math.max(from, ...ends) + 10, y: y + 4 }, `${pipe.name}${what}, ${counted(pipe.depth, "slot")}`));
    });
    return element("svg", { width: Math.max(at, room) + 260, height: 38 + of.pipes.length * 22 }, boxes, pipes);
  },
};
