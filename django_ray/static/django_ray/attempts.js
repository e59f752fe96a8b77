// The attempts, newest first: one row each, with what each one's summary last said.

import { byId, el, show } from "./dom.js";
import { chip, ended, executionMark, newBar, setBar, total } from "./marks.js";
import { NONE, clock, count, duration, moment } from "./words.js";

const PICTURES = {
  AVAILABLE: "Complete", TRUNCATED: "Partial", NOT_REPORTED: "Nothing reported",
  OMITTED_BY_POLICY: "Summary only", DISABLED: "Reporting was off", EXPIRED: "Detail expired",
  MISSING: "Detail missing", CORRUPT: "Detail damaged",
};

function picture({ detail }) {
  const reasons = detail.reasons.join(", ");
  return [PICTURES[detail.availability], reasons ? el("code", {}, ` ${reasons}`) : null];
}

function nodesOf(item, over) {
  const counts = item.node_counts;
  if (!counts || !item.discovered_nodes) return NONE;
  const done = over ? counts.SUCCEEDED : ended(counts);
  return `${count(done)} of ${count(item.discovered_nodes)} ${over ? "succeeded" : "ended"}`;
}

function row(item, view, chosen) {
  const now = view.now();
  const over = item.finished_at !== null;
  const number = item.run.attempt;
  const bar = newBar("bar-row");
  const took = item.started_at && item.finished_at
    ? duration(moment(item.finished_at) - moment(item.started_at)) : NONE;
  const made = el("tr", { "aria-selected": String(number === chosen) },
    el("th", { scope: "row" }, el("a", { href: `?attempt=${number}` }, count(number))),
    el("td", {}, chip(executionMark(item.state, item.node_counts !== null, false))),
    el("td", { class: "number" }, item.started_at ? clock(moment(item.started_at), now) : NONE),
    el("td", { class: "number" }, took), el("td", { class: "barred far-1" }, bar),
    el("td", { class: "number" }, nodesOf(item, over)),
    el("td", { class: "word" }, item.error || NONE), el("td", { class: "far-1" }, picture(item.run)));
  return [made, () => setBar(bar, item.node_counts ?? {}, item.node_counts ? total(item.node_counts) : 0)];
}

// Returns the chosen attempt's error, if it has one.
export async function load(view, chosen) {
  const attempt = view.api.attempt;
  view.api.attempt = null;
  const asking = view.api.get("attempts");
  view.api.attempt = attempt;
  const { status, body } = await asking;
  if (status !== 200) return "";
  show(byId("attempts"), body.items.length > 1 || view.body?.execution.attempt > 1 || chosen > 1);
  const rows = body.items.map((item) => row(item, view, chosen));
  byId("attempt-rows").replaceChildren(...rows.map(([made]) => made));
  for (const [, draw] of rows) draw();
  return body.items.find((item) => item.run.attempt === chosen)?.error ?? "";
}
