// The stage graph: one card a stage, columns by rank, arrows from left to right.

import { svg } from "./dom.js";
import { reduced } from "./edges.js";
import { ended, nodeMark, segments, stageState, total } from "./marks.js";
import { OTHER } from "./stages.js";
import { count, middle, nodes, percent } from "./words.js";

const LARGE = { w: 148, h: 118, kind: "large", chars: 15, gapX: 26, gapY: 14 };
const NARROW = { w: 98, h: 84, kind: "narrow", chars: 11, gapX: 18, gapY: 12 };
const LOW = { w: 148, h: 44, kind: "low", chars: 17, gapX: 30, gapY: 10 };
const BLOCK = { w: 118, h: 28, kind: "block", chars: 11, gapX: 20, gapY: 8 };
const ALL_EDGES = 12, PAD = 14;

function sizeFor(number, columns, width) {
  if (number > 32) return BLOCK;
  if (number > ALL_EDGES) return LOW;
  return columns * (LARGE.w + LARGE.gapX) > width + LARGE.gapX ? NARROW : LARGE;
}

function columnsOf(items) {
  const ranks = [...new Set(items.map((stage) => stage.rank))].sort((a, b) => a - b);
  const columns = ranks.map((rank) => items.filter((stage) => stage.rank === rank && stage.index !== OTHER));
  const other = items.find((stage) => stage.index === OTHER);
  if (other) columns.push([other]);
  return columns.filter((column) => column.length);
}

function place(columns, size, top) {
  const at = new Map();
  columns.forEach((column, x) => column.forEach((stage, y) =>
    at.set(stage.index, { x: PAD + x * (size.w + size.gapX), y: top + y * (size.h + size.gapY), column: x })));
  return at;
}

function edgePath(from, to, size, oneRow) {
  const middleOf = size.h / 2;
  const start = { x: from.x + size.w, y: from.y + middleOf };
  const end = { x: to.x - 2, y: to.y + middleOf };
  if (to.column === from.column) {
    const right = from.x + size.w;
    return `M${right} ${start.y}C${right + 24} ${start.y} ${right + 24} ${end.y} ${right + 2} ${end.y}`;
  }
  if (to.column < from.column) {
    const low = Math.max(from.y, to.y) + size.h + 8;
    return `M${from.x + size.w / 2} ${from.y + size.h}V${low}H${to.x + size.w / 2}V${to.y + size.h}`;
  }
  if (oneRow && to.column - from.column > 1) {
    const [a, b] = [from.x + size.w / 2, to.x + size.w / 2];
    const high = from.y - 26;
    return `M${a} ${from.y}C${a} ${high} ${a} ${high} ${a + 24} ${high}H${b - 24}C${b} ${high} ${b} ${high} ${b} ${to.y - 2}`;
  }
  const bend = Math.max((end.x - start.x) / 2, 12);
  return `M${start.x} ${start.y}C${start.x + bend} ${start.y} ${end.x - bend} ${end.y} ${end.x} ${end.y}`;
}

function text(x, y, kind, words, anchor) {
  return svg("text", { x, y, class: kind, "text-anchor": anchor }, words);
}

function bar(counts, x, y, width, height) {
  return segments(counts, total(counts), width, 1).map((part) => {
    const proud = part.state === "FAILED" ? 2 : 0;
    return svg("rect", {
      class: `seg seg-${part.state.toLowerCase()}`, rx: 1.5,
      x: x + part.x, y: y - proud, width: Math.max(part.width, 1), height: height + 2 * proud,
    });
  });
}

function keptRule(stage, x, y, width) {
  const whole = total(stage.node_counts);
  if (!whole) return null;
  const share = stage.kept >= whole ? width : Math.max((width * stage.kept) / whole, stage.kept ? 2 : 0);
  return svg("rect", { class: stage.kept >= whole ? "kept-whole" : "kept-part", x, y, width: share, height: 2 });
}

function icon(mark, x, y, size) {
  return svg("svg", { x, y, width: size, height: size, class: `tone-${mark.tone}` }, svg("use", { href: `#s-${mark.symbol}` }));
}

function anatomy(stage, name, size, over) {
  const counts = stage.node_counts;
  const whole = total(counts);
  const done = over ? counts.SUCCEEDED : ended(counts);
  const inner = size.w - 24;
  const word = over ? "succeeded" : "ended";
  if (size.kind === "block") return bar(counts, 10, 20, size.w - 20, 4);
  if (size.kind === "low") {
    return [bar(counts, 12, 26, inner - 62, 8), text(size.w - 10, 34, "t-low", `${count(done)} of ${count(whole)}`, "end")];
  }
  const share = whole ? `${percent(Math.floor((100 * done) / whole), done)} %` : "";
  const kept = stage.kept >= whole ? "all kept" : `${count(stage.kept)} kept`;
  const bad = counts.FAILED ? [`${count(counts.FAILED)} failed`, "t-bad"]
    : counts.SKIPPED ? [`${count(counts.SKIPPED)} skipped`, "t-low"]
      : counts.CANCELLED ? [`${count(counts.CANCELLED)} cancelled`, "t-low"] : null;
  if (size.kind === "narrow") {
    const mark = nodeMark(stageState(counts));
    return [text(10, 42, "t-mid", `${count(done)} of ${count(whole)}`), bar(counts, 10, 50, size.w - 20, 8),
      icon(mark, 10, 65, 11), text(25, 75, bad ? bad[1] : "t-low", bad ? bad[0] : mark.word.toLowerCase())];
  }
  return [
    text(12, 50, "t-big", count(done)), text(size.w - 12, 49, "t-mid", share, "end"),
    text(12, 66, "t-low", `of ${count(whole)} ${word}`), bar(counts, 12, 76, inner, 10),
    keptRule(stage, 12, 91, inner), text(12, 109, "t-low", kept),
    bad ? text(size.w - 12, 109, bad[1], bad[0], "end") : null,
  ];
}

// As long as there is room: how wide a letter is only the browser knows.
function title(stage, name, size, left, high) {
  const x = size.kind === "narrow" ? 10 : left + 18;
  const found = text(x, high + 11, size.kind === "block" ? "t-block" : "t-name", middle(name.name, size.chars + 4));
  found.dataset.room = size.w - x - 8;
  found.dataset.name = name.name;
  return found;
}

function squeeze(drawn) {
  for (const each of drawn.querySelectorAll("[data-room]")) {
    let most = each.textContent.length;
    while (most > 4 && each.getComputedTextLength() > Number(each.dataset.room)) {
      most -= 1;
      each.textContent = middle(each.dataset.name, most);
    }
  }
}

function card(stage, name, at, size, view, chosen) {
  const state = stageState(stage.node_counts);
  const mark = nodeMark(state);
  const over = Boolean(view.body.terminal);
  const kind = state === "FAILED" && over ? " is-failed"
    : ["RUNNING", "SUBMITTED"].includes(state) || (state === "FAILED" && !over) ? " is-running"
      : state === "PENDING" && !ended(stage.node_counts) ? " is-waiting" : "";
  const counts = stage.node_counts;
  const pick = () => view.pickStage(stage.index);
  const left = size.kind === "block" ? 8 : 12;
  const high = size.kind === "block" ? 4 : 9;
  return svg("g", {
    class: `card${kind}`, transform: `translate(${at.x} ${at.y})`, tabindex: 0, role: "button",
    "data-index": stage.index, "aria-pressed": String(chosen),
    "aria-label": `${name.label}: ${mark.word}, ${count(ended(counts))} of ${nodes(total(counts))} ended, ${count(counts.FAILED)} failed`,
    onclick: pick,
    onkeydown: (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        event.stopPropagation();
        pick();
      }
    },
  },
  svg("title", {}, name.label),
  svg("rect", { class: "card-box", width: size.w, height: size.h, rx: 8 }),
  size.kind === "narrow" ? null : icon(mark, left, high, 13),
  title(stage, name, size, left, high),
  anatomy(stage, name, size, over));
}

// Draws into `canvas`; returns what there is to say about the edges.
export function draw(view, canvas, chosen) {
  const { items, edges: all } = view.stages;
  const columns = columnsOf(items);
  const size = sizeFor(items.length, columns.length, canvas.clientWidth || 1200);
  const oneRow = columns.every((column) => column.length === 1);
  const forward = all.filter((edge) => edge.source !== edge.target);
  const edges = items.length > ALL_EDGES ? reduced(forward) : forward;
  const arcs = oneRow && edges.length >= columns.length;
  const top = arcs ? 40 : PAD;
  const at = place(columns, size, top);
  const rows = Math.max(...columns.map((column) => column.length));
  const width = 2 * PAD + columns.length * (size.w + size.gapX) - size.gapX;
  const height = top + rows * (size.h + size.gapY) - size.gapY + PAD + (edges.some((edge) => back(at, edge)) ? 12 : 0);
  const drawn = svg("svg", { width, height, role: "group", "aria-label": "Stages, left to right by longest path" },
    edges.map(({ source, target }) => at.has(source) && at.has(target)
      ? svg("path", { class: items.length > ALL_EDGES ? "edge-faint" : "edge", d: edgePath(at.get(source), at.get(target), size, oneRow), "marker-end": "url(#arrow)" })
      : null),
    items.map((stage) => card(stage, view.names.get(stage.index), at.get(stage.index), size, view, stage.index === chosen)));
  const focused = canvas.contains(document.activeElement) ? document.activeElement.dataset.index : null;
  canvas.replaceChildren(drawn);
  squeeze(drawn);
  if (focused !== null) canvas.querySelector(`[data-index="${focused}"]`)?.focus();
  if (edges.length === forward.length) return "";
  return `${count(edges.length)} of ${count(forward.length)} stage edges drawn; the others follow from these.`;
}

function back(at, { source, target }) {
  return at.has(source) && at.has(target) && at.get(target).column <= at.get(source).column;
}
