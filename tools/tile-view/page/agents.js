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

  /** Agents in a row, each as wide as it has warps, and pipes as arcs of boxes below. */
  picture(of, agents) {
    const all = Math.max(1, ...agents.map((agent) => agent.first_warp + agent.warps));
    const width = Math.min(900, window.innerWidth - 60), unit = width / all, height = 34 + of.pipes.length * 24;
    const boxes = agents.map((agent, index) => element("g", {},
      element("rect", { x: agent.first_warp * unit, y: 2, width: agent.warps * unit - 3, height: 24, fill: colour(index) }),
      element("text", { x: agent.first_warp * unit + 5, y: 18, style: "fill: #111" }, `${agent.name} (${agent.warps} ${agent.warps === 1 ? "warp" : "warps"})`)));
    const middle = (agent) => agents[agent] ? (agents[agent].first_warp + agents[agent].warps / 2) * unit : 0;
    const pipes = of.pipes.map((pipe, index) => {
      const ends = [pipe.producer, ...pipe.consumers].map(middle), y = 40 + index * 24;
      return element("g", {},
        element("rect", { x: Math.min(...ends), y, width: Math.max(30, Math.max(...ends) - Math.min(...ends)), height: 4, fill: colour(pipe.producer) }),
        element("text", { x: Math.min(...ends) + 4, y: y + 16 }, `${pipe.name}: ${pipe.depth} slots`));
    });
    return element("svg", { width, height }, boxes, pipes);
  },
};
