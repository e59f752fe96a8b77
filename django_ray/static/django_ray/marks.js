// The words and marks of states, and the bars made of them: never a colour alone.

import { el, glyph, setClass, svg } from "./dom.js";
import { count } from "./words.js";

export const ORDER = [
  "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED", "RUNNING", "SUBMITTED", "PENDING",
];
export const ENDED = new Set(["SUCCEEDED", "FAILED", "CANCELLED", "TIMED_OUT", "LOST"]);

export function nodeMark(state) {
  const name = state.toLowerCase();
  return { symbol: name, tone: name, word: name[0].toUpperCase() + name.slice(1), code: state };
}

const EXECUTIONS = {
  QUEUED: ["pending", "Queued", "pending"],
  CLAIMED: ["pending", "Claimed", "pending"],
  RUNNING: ["running", "Running", "running"],
  RETRY_WAIT: ["waiting", "Waiting to retry", "pending"],
  RECONCILE: ["warning", "Needs reconciliation", "warn"],
  SUCCEEDED: ["succeeded", "Succeeded", "succeeded"],
  FAILED: ["failed", "Failed", "failed"],
  CANCELLED: ["cancelled", "Cancelled", "cancelled"],
  TIMED_OUT: ["clock", "Timed out", "failed"],
  LOST: ["warning", "Lost", "failed"],
};

export function executionMark(state, reported, stale) {
  const waits = state === "RUNNING" && !reported;
  const [symbol, word, tone] = waits ? ["waiting", "Waiting", "pending"] : EXECUTIONS[state];
  return { symbol, tone, word: stale ? `${word}, last known` : word, code: state, stale };
}

export function ended(counts) {
  return counts.SUCCEEDED + counts.FAILED + counts.CANCELLED + counts.SKIPPED;
}

export function total(counts) {
  return ORDER.reduce((sum, state) => sum + counts[state], 0);
}

// The first state that applies stands for a stage.
export function stageState(counts) {
  if (counts.FAILED) return "FAILED";
  if (counts.RUNNING) return "RUNNING";
  if (counts.SUBMITTED) return "SUBMITTED";
  if (counts.PENDING || !total(counts)) return counts.SUCCEEDED ? "RUNNING" : "PENDING";
  if (counts.CANCELLED) return "CANCELLED";
  return counts.SKIPPED ? "SKIPPED" : "SUCCEEDED";
}

export function chip(mark) {
  return el(
    "span",
    { class: `chip tone-${mark.tone}${mark.stale ? " last-known" : ""}`, title: mark.code },
    glyph(mark.symbol),
    el("span", {}, mark.word),
  );
}

export function stateOf(mark, withWord) {
  return el(
    "span",
    { class: `state tone-${mark.tone}`, title: mark.code },
    glyph(mark.symbol),
    el("span", withWord ? {} : { class: "unseen" }, mark.word),
  );
}

export function setState(element, mark) {
  setClass(element, `state tone-${mark.tone}`);
  element.title = mark.code;
  element.querySelector("use").setAttribute("href", `#s-${mark.symbol}`);
  element.lastElementChild.textContent = mark.word;
}

const LEAST = 3, LEAST_FAILED = 4;
const least = (state) => (state === "FAILED" ? LEAST_FAILED : LEAST);

// Segments of a bar `width` long; nobody is below the least, the others in proportion.
export function segments(counts, whole, width, gap) {
  const numbers = ORDER.map((state) => [state, counts[state]]);
  numbers.at(-1)[1] += Math.max(whole - total(counts), 0);
  const shown = numbers.filter(([, number]) => number > 0);
  const fixed = new Map();
  const free = width - gap * (shown.length - 1);
  let room, sum;
  for (;;) {
    const rest = shown.filter(([state]) => !fixed.has(state));
    room = free - [...fixed.values()].reduce((a, b) => a + b, 0);
    sum = rest.reduce((all, [, number]) => all + number, 0);
    const small = rest.filter(([state, number]) => room * number < least(state) * sum);
    if (!small.length || small.length === rest.length) break;
    for (const [state] of small) fixed.set(state, least(state));
  }
  let x = 0;
  return shown.map(([state, number]) => {
    const length = fixed.get(state) ?? (room * number) / sum;
    const segment = { state, x, width: length, number };
    x += length + gap;
    return segment;
  });
}

export function setBar(bar, counts, whole) {
  const head = bar.classList.contains("bar-head");
  const width = bar.getBoundingClientRect().width || (head ? 1200 : 150);
  const parts = whole > 0 ? segments(counts, whole, width, head ? 2 : 1) : [];
  const words = parts
    .map(({ state, number }) => `${count(number)} ${state.toLowerCase()}`)
    .join(", ");
  bar.setAttribute("aria-label", words || "No node is known yet");
  const rects = parts.map(({ state, x, width: length }) =>
    svg("rect", {
      class: `seg seg-${state.toLowerCase()}`,
      x: `${((100 * x) / width).toFixed(3)}%`,
      width: `${((100 * length) / width).toFixed(3)}%`,
    }),
  );
  if (!rects.length) rects.push(svg("rect", { class: "seg seg-unknown", x: 0, width: "100%" }));
  bar.replaceChildren(...rects);
}

export function newBar(kind) {
  return svg("svg", { class: `bar ${kind}`, role: "img" });
}

export function legend() {
  return el(
    "ul",
    { class: "legend", "aria-label": "Marks" },
    ORDER.map((state) => {
      const mark = nodeMark(state);
      return el("li", { class: `tone-${mark.tone}` }, glyph(mark.symbol), el("span", {}, mark.word));
    }),
  );
}
