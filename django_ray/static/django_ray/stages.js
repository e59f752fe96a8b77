// The stages as a list: the twin of the graph, in an order that holds until it is asked for.

import { byId, el, say, show } from "./dom.js";
import { ended, newBar, nodeMark, setBar, setState, stageState, stateOf, total } from "./marks.js";
import { NONE, count, duration, nodes, plural, shortNames } from "./words.js";

// The stage of all callables past the named ones; a user may call one of these the same.
export const OTHER = 63;

const RANK = { FAILED: 0, RUNNING: 1, SUBMITTED: 2, PENDING: 3 };
const FINISHED = new Set(["SUCCEEDED", "CANCELLED", "SKIPPED"]);
const rows = new Map();
let order = null;

function sort(items) {
  const place = (stage) => RANK[stageState(stage.node_counts)] ?? 4;
  return [...items].sort((a, b) => place(a) - place(b) || a.index - b.index);
}

export function named(stages) {
  const names = shortNames(stages.items.map((stage) => stage.label));
  return new Map(stages.items.map((stage, at) => {
    const found = names[at];
    const folded = stage.index === OTHER && stages.folded;
    const said = folded ? { ...found, name: `other (${plural(stages.folded, "callable", "callables")})` } : found;
    return [stage.index, said];
  }));
}

export function again() {
  order = null;
}

function newRow(stage, name) {
  const bar = newBar("bar-row");
  const head = el("th", { scope: "row" },
    stateOf(nodeMark(stageState(stage.node_counts))), " ",
    el("span", { class: "name", title: name.label }, name.name),
    name.tag ? el("small", { class: "quiet tag" }, ` ${name.tag}`) : null);
  const cell = (kind) => el("td", { class: `number ${kind ?? ""}` });
  const row = el("tr", {}, head, el("td", { class: "barred" }, bar),
    el("td", { class: "number" }, el("b"), el("span")),
    cell(), cell(), cell("far-1"), cell("far-1"), cell("far-2"));
  return row;
}

function setRow(row, stage) {
  const counts = stage.node_counts;
  const [head, barred, done, running, failed, p50, p95, kept] = row.children;
  setState(head.firstElementChild, nodeMark(stageState(counts)));
  setBar(barred.firstElementChild, counts, total(counts));
  say(done.firstElementChild, count(ended(counts)));
  say(done.lastElementChild, ` of ${count(total(counts))}`);
  say(running, counts.RUNNING ? count(counts.RUNNING) : NONE);
  say(failed, counts.FAILED ? count(counts.FAILED) : NONE);
  failed.classList.toggle("bad", counts.FAILED > 0);
  say(p50, duration(stage.p50_ms));
  say(p95, duration(stage.p95_ms));
  say(kept, count(stage.kept));
}

export function isFinished(stage) {
  return FINISHED.has(stageState(stage.node_counts));
}

// Says what the nodes of finished stages came to.
export function outcome(done) {
  const sum = (pick) => done.reduce((all, stage) => all + pick(stage.node_counts), 0);
  const all = sum(total), well = sum((counts) => counts.SUCCEEDED);
  return well === all ? `all ${nodes(all)} succeeded` : `${count(well)} of ${nodes(all)} succeeded`;
}

export function summary(items) {
  const done = items.filter(isFinished);
  const whole = plural(items.length, "stage", "stages");
  return done.length ? `${whole}, ${count(done.length)} finished: ${outcome(done)}` : whole;
}

export function render(view) {
  const { stages } = view;
  show(byId("graph"), Boolean(stages?.items.length));
  if (!stages) return;
  const body = byId("stage-rows");
  const names = named(stages);
  if (!order) {
    order = sort(stages.items).map((stage) => stage.index);
    rows.clear();
    body.replaceChildren();
  }
  for (const stage of stages.items) if (!order.includes(stage.index)) order.push(stage.index);
  const found = new Map(stages.items.map((stage) => [stage.index, stage]));
  for (const index of order) {
    const stage = found.get(index);
    if (!stage) continue;
    let row = rows.get(index);
    if (!row) {
      row = newRow(stage, names.get(index));
      rows.set(index, row);
      body.append(row);
    }
    setRow(row, stage);
  }
}
