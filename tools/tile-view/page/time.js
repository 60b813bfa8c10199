// Shows the report of tile-time, and the decisions of passes.
const timeDrawing = {
  show(into) {
    const { time } = model;
    if (!time) return into.append("No launch was given: --launch FILE describes the launch.");
    const percent = (share) => element("span", { class: "part" }, element("span", { class: "bar", style: `width: ${(share * 120).toFixed(0)}px` }), ` ${(100 * share).toFixed(1)} %`);
    const microseconds = (time.seconds * 1e6).toFixed(2);
    const throughput = [
      time.tflops && `${time.tflops.toFixed(1)} TFLOP/s`, time.gigabytes_per_second && `${time.gigabytes_per_second.toFixed(0)} GB/s`,
      time.roofline && `${(100 * time.roofline.reached_share).toFixed(0)} % of the roofline (${time.roofline.limited_by})`,
    ].filter(Boolean);
    const registers = `${time.registers} registers${time.registers_estimated ? " (estimated)" : ""}`;
    into.append(element("p", {}, element("b", {}, `${microseconds} us on ${time.gpu}`),
      ` (${time.cycles.toFixed(0)} cycles); a CTA takes ${time.cta_cycles.toFixed(0)}; ${time.resident_ctas} resident, limited by ${time.limited_by}; ${time.waves.toFixed(2)} waves; ${registers}`));
    into.append(element("p", { id: "throughput" }, throughput.join("; ")));
    const utilization = time.utilization.filter((entry) => entry.share >= 0.005).map((entry) => ({ cells: [entry.unit, percent(entry.share)] }));
    const waits = time.warp_roles.flatMap((warp_role) => warp_role.waits.map((wait) => ({
      cells: [element("span", { class: "part" }, `warps ${warp_role.warps}`), wait.reason, percent(wait.share), wait.lines.join(", ")], go: () => goToPtx(wait.lines[0]),
    })));
    const advice = time.advice.map((entry) => ({ cells: [percent(entry.saved_share), entry.scenario, entry.suggestion] }));
    into.append(element("div", { class: "split" },
      element("div", {}, table(["unit", "share of time"], utilization)),
      element("div", {}, table(["warp role", "waits for", "share of time", "PTX lines"], waits)),
      element("div", {}, table(["saves", "what if", "how"], advice), this.sources())));
  },

  /** Lists the twelve source lines with the longest predicted times. */
  sources() {
    const rows = [...heat.bySource].sort((one, other) => other[1] - one[1]).slice(0, 12).map(([key, share]) => {
      const [file, line] = key.split(":").map(Number);
      const source_position = model.source_positions.findIndex((source_position) => source_position.file === file && source_position.line === line);
      return { cells: [`${(100 * share).toFixed(1)} %`, sourceText(source_position)], go: () => selectSource(source_position) };
    });
    return table(["time", "source line"], rows);
  },
};

function goToPtx(line) {
  const pane = panes.find((pane) => pane.data.name === "ptx"), row = pane?.data.numbers.indexOf(line);
  if (!pane || row < 0 || line === undefined) return;
  if (pane.root.hidden) toggle(pane);
  activate(pane);
  pane.go(row);
}

const decisionsDrawing = {
  show(into) {
    const rows = model.log.map((one) => ({ cells: [one.pass, one.outcome, one.name, one.message, sourceText(one.source_position)], go: () => selectSource(one.source_position) }));
    into.append(rows.length ? table(["pass", "", "", "", ""], rows) : "No pass reported anything.");
  },
};
