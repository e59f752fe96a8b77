// Failures by cause, the largest first. What is open stays open while counts grow.

import { byId, el, nodeButton, say, show } from "./dom.js";
import { nodeMark, stateOf } from "./marks.js";
import { NONE, clock, count, duration } from "./words.js";

let shown = "";

function named(names, whole) {
  const more = whole > names.length ? ` and ${count(whole - names.length)} more` : "";
  return names.join(", ") + more;
}

function place(cause, view) {
  const now = view.now();
  const stages = cause.stages.map((index) => view.names.get(index)?.name).filter(Boolean);
  const parts = stages.length ? [`in ${named(stages, cause.stages_total)}`] : [];
  if (cause.hosts.length) {
    const only = cause.hosts_total === 1 && cause.nodes > 1 ? " only" : "";
    parts.push(named(cause.hosts, cause.hosts_total) + only);
  }
  if (cause.first_ms !== null) {
    const [first, last] = [clock(cause.first_ms, now), clock(cause.last_ms, now)];
    parts.push(first === last ? first : `${first} to ${last}`);
  }
  return parts.join(" · ");
}

function row(node, view) {
  const now = view.now();
  const ran = node.started_ms === null || node.ended_ms === null
    ? NONE : duration(node.ended_ms - node.started_ms);
  return el("tr", { "data-id": node.id },
    el("th", { scope: "row" }, stateOf(nodeMark("FAILED")), " ", nodeButton(node.id, view.open)),
    el("td", { class: "number" }, `try ${count(node.try)}`),
    el("td", { class: "number" }, node.ended_ms === null ? NONE : clock(node.ended_ms, now)),
    el("td", { class: "number far-1" }, ran),
    el("td", { class: "far-1" }, node.host ?? NONE));
}

function heads() {
  return el("thead", { class: "unseen" }, el("tr", {},
    ["Node", "Try", "Ended", "Ran", "Host"].map((name) => el("th", { scope: "col" }, name))));
}

function details(cause, view, open) {
  const left = cause.nodes - cause.examples.length;
  const said = el("span", {}, el("code", {}, cause.kind), ` ${cause.nodes > 1 ? cause.text : cause.examples[0].text}`,
    el("small", {}, place(cause, view)));
  return el("details", { class: "cause", open, "data-cause": `${cause.kind} ${cause.text}` },
    el("summary", {}, el("b", { class: "number" }, count(cause.nodes)), said),
    el("table", {}, heads(), el("tbody", {}, cause.examples.map((node) => row(node, view)))),
    left ? el("p", { class: "more" }, `and ${count(left)} more, in the list of nodes`) : null);
}

function saying(found) {
  if (!found.failed) return "Nothing failed.";
  const causes = found.causes_total === 1 ? "1 cause" : `${count(found.causes_total)} causes`;
  if (found.more) {
    return `${count(found.failed)} failed; the first ${count(found.examined)} by cause, ${causes}`;
  }
  const kept = `${count(found.examined)} of ${count(found.failed)} kept with detail`;
  const rest = found.failed - found.examined;
  return rest > 0 ? `${kept}; ${count(rest)} counted only` : `${kept}, ${causes}`;
}

export function render(view) {
  const { failures } = view;
  if (!failures) return;
  show(byId("failures"), failures.items.length > 0);
  say(byId("failures-said"), saying(failures));
  const key = JSON.stringify(failures.items);
  const list = byId("causes");
  // Nothing is exchanged under somebody's hands.
  if (key === shown || (shown && list.matches(":hover, :focus-within"))) return;
  const known = [...list.querySelectorAll("details[data-cause]")];
  const open = new Set(known.filter((each) => each.open).map((each) => each.dataset.cause));
  shown = key;
  list.replaceChildren(...failures.items.map((cause, at) =>
    details(cause, view, known.length ? open.has(`${cause.kind} ${cause.text}`) : at === 0)));
}
