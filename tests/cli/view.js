// Uses a page of tile-view as a person would, with clicks and keys, and stores its observations in the document. The test appends it to
// the page's own scripts; `problems` starts before them.
const saw = { problems, milliseconds: performance.now(), tabs: {} };

function check() {
  const rows = (name, kind) => [...document.querySelectorAll(`#pane-${name} .row.${kind}`)];
  const key = (key, target = document.body) => target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const pane = (name) => panes.find((pane) => pane.data.name === name);
  const click = (name, row) => {
    pane(name).show(row);
    pane(name).draw();
    document.querySelector(`#pane-${name} [data-row="${row}"] .code`).dispatchEvent(new MouseEvent("mousedown", { bubbles: true }));
  };
  saw.panes = panes.map((pane) => pane.data.name);
  panes.filter((pane) => pane.root.hidden).forEach((pane) => pane.button.click());
  saw.shown = document.querySelectorAll(".pane:not([hidden])").length;
  saw.inDocument = document.querySelectorAll(".row").length;

  // From the schedule to all others, and back from the PTX.
  const expected = new RegExp(SEEK);
  const from = pane("sched").data.lines.findIndex((line) => expected.test(line));
  click("sched", from);
  saw.line = pane("sched").data.lines[from];
  saw.linked = Object.fromEntries(panes.map((pane) => [pane.data.name, rows(pane.data.name, "linked").length + rows(pane.data.name, "exact").length]));
  const back = pane("ptx").linked()[0];
  click("ptx", back);
  saw.back = [...rows("sched", "exact"), ...rows("sched", "linked")].map((row) => row.querySelector(".code").textContent);
  saw.at = pane("ptx").at === back && document.querySelector("#pane-ptx .row.at") !== null;
  key(".");
  saw.next = pane("ptx").at > back || pane("ptx").linked().length === 1;

  // Keys.
  activate(pane("sched"));
  const before = pane("sched").at;
  key("ArrowDown");
  key("j");
  saw.moved = pane("sched").at - before;
  key("l");
  saw.right = state.pane.data.name;
  key("1");
  saw.hidden = panes[0].root.hidden;
  key("1");

  // Search.
  const field = document.getElementById("search");
  field.value = "ASSUME";
  key("Enter", field);
  saw.found = document.getElementById("found").textContent;
  saw.match = document.querySelector(".row.match .code")?.textContent;
  const first = search.now;
  key("n");
  saw.searchMoved = search.now !== first || search.matches.length === 1;

  // A layout is drawn when its name is clicked.
  const named = pane("sched").data.lines.findIndex((line) => /tile<.*#\d+>/.test(line));
  pane("sched").show(named);
  pane("sched").draw();
  const name = document.querySelector(`#pane-sched [data-row="${named}"] [data-layout]`);
  saw.name = name.textContent;
  name.dispatchEvent(new MouseEvent("mousedown", { bubbles: true }));
  saw.layout = document.querySelector("#layout-list [aria-pressed=true]").textContent;
  for (const [index, [name]] of TABS.entries()) {
    document.getElementById(`tab-${name}`).click();
    const canvas = drawing.querySelector("canvas");
    saw.tabs[name] = { text: drawing.textContent, boxes: drawing.querySelectorAll("svg .box").length, pipelines: drawing.querySelectorAll("svg .pipeline").length, colours: canvas ? colours(canvas) : 0, selected: tab === index };
  }
  document.getElementById("tab-layouts").click();
  const canvas = document.getElementById("layout-canvas"), box = canvas?.getBoundingClientRect();
  canvas?.dispatchEvent(new MouseEvent("mousemove", { clientX: box.left + 2, clientY: box.top + 2, bubbles: true }));
  saw.hovered = document.getElementById("layout-status")?.textContent;
  const loops = loopLines();
  saw.loopShare = [...heat.bySource].reduce((sum, [line, part]) => sum + (loops.has(line) ? part : 0), 0);
  saw.loops = loops.size;
  saw.allShare = [...heat.bySource.values()].reduce((sum, part) => sum + part, 0);
  saw.labels = panes.map((pane) => pane.button.textContent);
  const back0 = getComputedStyle(document.body).backgroundColor;
  document.getElementById("theme").click();
  saw.themes = [back0, getComputedStyle(document.body).backgroundColor];
  document.getElementById("theme").click();
  document.getElementById("tab-time").click();
  saw.throughput = document.getElementById("throughput")?.textContent;
  saw.lineHeights = [...drawing.querySelectorAll(".part")].map((one) => one.getClientRects().length);
  document.getElementById("tab-layouts").click();
  key("]");
  saw.nextTab = TABS[tab][0];
  key("d");
  saw.closed = drawer.classList.contains("closed");
  key("?");
  saw.help = document.getElementById("help").open;
}

function colours(canvas) {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let at = 0; at < data.length; at += 4) seen.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
  return seen.size;
}

try { check(); } catch (error) { problems.push(String(error.stack)); }
document.documentElement.replaceChildren(Object.assign(document.createElement("pre"), { textContent: `SAW${JSON.stringify(saw)}WAS` }));
