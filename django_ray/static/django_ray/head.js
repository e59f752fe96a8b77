// The status line and the head: how fresh, how complete, how far. Says what the server says.

import { byId, el, say, setGlyph, show } from "./dom.js";
import { ENDED, ORDER, chip, ended, executionMark, setBar } from "./marks.js";
import { NONE, age, clock, count, duration, moment, nodes, percent, plural } from "./words.js";

const HAS_DETAIL = new Set(["AVAILABLE", "TRUNCATED"]);
const LATE = 15000, STALE = 30000, UNCHANGED = 10000;
const MINUTE = 60000, LEAST_ENDED = 20, LEAST_MINUTES = 3;
const STEPS = [1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1440];

export function hasEnded(body) {
  return ENDED.has(body.execution.state);
}

export function isUndecided(body) {
  return body.execution.state === "RECONCILE";
}

export function isReported(body) {
  return body.revision !== null;
}

export function hasDetail(view) {
  return HAS_DETAIL.has(view.availability);
}

function wholeOf(body) {
  if (!isReported(body)) return 0;
  if (body.terminal) return body.discovered_nodes;
  return Math.max(body.declared_nodes, body.discovered_nodes);
}

export function freshness(body, now) {
  if (hasEnded(body) || isUndecided(body)) return "Final";
  if (!isReported(body)) return "Waiting";
  const silent = now - body.observed_at_ms;
  if (silent >= STALE) return "Stale";
  return silent > LATE ? "Late" : "Live";
}

function freshText(word, body, now) {
  const revision = isReported(body) ? `revision ${count(body.revision)}` : "";
  if (word === "Final") {
    const text = revision || "no summary was reported";
    if (!body.execution.finished_at) return text;
    const then = moment(body.execution.finished_at);
    return `${text}, ended ${clock(then, now)}, ${age(now - then)} ago`;
  }
  if (word === "Waiting") return "no revision yet";
  const heard = age(now - body.observed_at_ms);
  if (word === "Stale") return `${revision}, ${heard} ago; reports usually come every 5 s or sooner`;
  if (word === "Late") return `${revision}, ${heard} ago; usual at most 5 s`;
  const unchanged = now - body.changed_at_ms;
  if (unchanged >= UNCHANGED) {
    return `${revision}, unchanged for ${age(unchanged)}; heard ${heard} ago`;
  }
  return `${revision}, ${heard} ago`;
}

const FRESH = {
  Live: ["live", "accent"],
  Late: ["clock", "plain"],
  Stale: ["clock", "warn"],
  Waiting: ["waiting", "plain"],
  Final: ["check", "plain"],
};

// What is said of the poll itself comes before what is said of the run.
export function fresh(view, now) {
  const { body, feed } = view;
  if (feed.silent) {
    const next = feed.nextAt ? `, next try in ${age(Math.max(feed.nextAt - Date.now(), 0))}` : "";
    const asked = age(Date.now() - feed.askedAt);
    return ["warning", "warn", "No answer from the server",
      `last asked ${asked} ago${next}; figures of ${clock(view.heardAt, now)}`];
  }
  if (feed.paused) {
    const text = isReported(body) ? `revision ${count(body.revision)}, ` : "";
    return ["paused", "plain", "Paused by you", `${text}frozen ${age(now - view.heardAt)} ago`];
  }
  const word = freshness(body, now);
  const [symbol, tone] = FRESH[word];
  const said = word === "Waiting" ? "Waiting for the first report" : word;
  let text = freshText(word, body, now);
  if (word === "Waiting") text += `; asked ${age(Date.now() - feed.askedAt)} ago`;
  return [symbol, tone, said, text];
}

function keptNodes(body) {
  return `${count(body.retained_nodes)} of ${count(body.discovered_nodes)}`;
}

function kept(body) {
  const edges = `${count(body.retained_edges)} of ${count(body.discovered_edges)}`;
  return `${keptNodes(body)} nodes and ${edges} edges kept`;
}

const ABSENT = {
  NOT_REPORTED: ["dashed", "plain", "Nothing kept", "·"],
  OMITTED_BY_POLICY: ["dashed", "plain", "Summary only", "by policy ·"],
  DISABLED: ["dashed", "plain", "Node reporting is off", "·"],
  EXPIRED: ["dashed", "plain", "Detail expired", "counts remain ·"],
  MISSING: ["warning", "warn", "Detail missing", "a fault ·"],
  CORRUPT: ["warning", "warn", "Detail damaged", "not shown ·"],
};

function completeness(body, availability) {
  if (availability === "AVAILABLE") {
    if (body.detail.complete) return ["full", "plain", "Complete", `· ${kept(body)}`, ""];
    return ["half", "plain", "Growing", `· ${kept(body)}; the rest follows`, ""];
  }
  if (availability === "TRUNCATED") {
    return ["half", "warn", "Partial", `· ${keptNodes(body)} nodes kept:`, body.detail.reasons.join(", ")];
  }
  const [symbol, tone, word, text] = ABSENT[availability];
  const yet = availability === "NOT_REPORTED" && !hasEnded(body) ? " yet" : "";
  return [symbol, tone, `${word}${yet}`, text, availability];
}

// Names what is whole, then what is cut.
function cut(body, availability) {
  show(byId("cut"), availability === "TRUNCATED");
  if (availability !== "TRUNCATED") return;
  const [bold, rest, code] = byId("cut").lastElementChild.children;
  const { retained_nodes: kept, discovered_nodes: all } = body;
  say(bold, `The counts and stages cover all ${nodes(all)}.`);
  say(rest, kept === all
    ? "Some of what its nodes said is left out, or was not reported."
    : `Node graph, node list and failure details cover the first ${count(kept)} registered, with `
      + `${count(body.retained_edges)} of ${count(body.discovered_edges)} edges.`);
  say(code, body.detail.reasons.join(", "));
}

function sayLine(place, [symbol, tone, word, text, code]) {
  const [icon, bold, rest, exact] = place.children;
  setGlyph(icon, symbol, tone);
  say(bold, word);
  say(rest, text);
  if (exact) say(exact, code ?? "");
}

export function tick(view) {
  const now = view.now();
  const line = fresh(view, now);
  sayLine(byId("fresh"), line);
  byId("status").dataset.tone = line[1];
  const { feed, body } = view;
  const pace = feed.final
    ? "Not polling"
    : feed.slowedUntil > Date.now()
      ? `Asking too often; next try in ${age(feed.slowedUntil - Date.now())}`
      : feed.paused
        ? ""
        : `Every ${Math.max(Math.round(feed.interval / 1000), 1)} s`;
  say(byId("pace"), pace);
  show(byId("pause"), !feed.final);
  facts(body, now);
  const word = freshness(body, now);
  byId("bar").classList.toggle("stale", word === "Stale");
  setChip(body, word === "Stale");
}

function setChip(body, stale) {
  const mark = executionMark(body.execution.state, isReported(body), stale);
  const place = byId("chip");
  if (place.textContent !== mark.word) place.replaceChildren(chip(mark));
}

// How far a run is: the percent, what it is of, and the words beside it.
export function howFar(body) {
  const whole = wholeOf(body);
  const counts = isReported(body) ? body.node_counts : null;
  const done = counts && (body.terminal ? counts.SUCCEEDED : ended(counts));
  const known = Boolean(counts && whole);
  return {
    counts,
    whole: counts ? whole : 0,
    percent: known ? percent(body.percent, done) : "",
    of: known ? `${count(done)} of ${count(whole)}` : "",
    said: said(body, whole),
  };
}

export function render(view) {
  const { body } = view;
  const far = howFar(body);
  const { counts } = far;
  sayLine(byId("complete"), completeness(body, view.availability));
  cut(body, view.availability);
  say(byId("percent"), far.percent);
  show(byId("percent-unit"), Boolean(far.percent));
  say(byId("whole"), far.of);
  say(byId("of"), far.said);
  setBar(byId("bar").firstElementChild, counts ?? {}, far.whole);
  [...byId("counts").children].forEach((item, place) => {
    const number = counts?.[ORDER[place]];
    item.classList.toggle("none", !number);
    say(item.querySelector("b"), number === undefined ? NONE : count(number));
  });
  title(view);
  tick(view);
}

function said(body, whole) {
  if (!isReported(body) || (!whole && !body.terminal)) return "No node yet";
  if (!body.terminal) return "nodes ended";
  return whole ? "nodes succeeded" : "No node was registered";
}

export function title(view) {
  const { body } = view;
  const failed = isReported(body) ? body.node_counts.FAILED : 0;
  const far = howFar(body).percent;
  const share = far ? `${far} % ` : "";
  const bad = failed ? `, ${count(failed)} failed` : "";
  const held = document.hidden && !view.feed.final ? "\u2016 " : "";
  document.title = `${held}${share}${view.name}${bad}`;
  say(byId("brief-said"), `${share}${bad.replace(", ", "")}`);
}

function facts(body, now) {
  const found = hasEnded(body) ? endFacts(body, now) : liveFacts(body, now);
  const place = byId("facts");
  while (place.children.length > found.length) place.lastElementChild.remove();
  while (place.children.length < found.length) {
    const value = el("dd", {}, el("b"), " ", el("span"));
    place.append(el("div", {}, el("dt"), value, el("dd", { class: "basis" })));
  }
  found.forEach(([label, value, unit, basis], at) => {
    const [term, dd, base] = place.children[at].children;
    say(term, label);
    say(dd.firstElementChild, value);
    say(dd.lastElementChild, unit);
    say(base, basis);
  });
}

function endFacts(body, now) {
  const { started_at: begun, finished_at: end } = body.execution;
  const took = begun && end
    ? ["Took", duration(moment(end) - moment(begun)), "",
      `${clock(moment(begun), now)} to ${clock(moment(end), moment(begun))}`]
    : ["Took", NONE, "", "it never started"];
  const of = (label, number) =>
    isReported(body)
      ? [label, count(number), number === 1 ? "node" : "nodes", "of those seen"]
      : [label, NONE, "", "not reported"];
  return [took, of("Failed", body.node_counts?.FAILED), of("Skipped", body.node_counts?.SKIPPED)];
}

function liveFacts(body, now) {
  const begun = body.execution.started_at;
  const stale = freshness(body, now) === "Stale";
  const elapsed = begun
    ? ["Elapsed", duration(now - moment(begun)), "", `since ${clock(moment(begun), now)}`]
    : ["Elapsed", NONE, "", "not started"];
  return [elapsed, rate(body, stale), left(body, stale), running(body, stale)];
}

// How many nodes ended in each minute that the run lived through whole.
function fullMinutes(body) {
  if (!isReported(body)) return [];
  const first = Math.floor(body.started_at_ms / MINUTE) + 1;
  const lived = Math.max(Math.floor(body.observed_at_ms / MINUTE) - first, 0);
  const known = body.ended_by_minute.slice(0, -1);
  return known.slice(Math.max(known.length - lived, 0));
}

function rate(body, stale) {
  if (stale) return ["Rate", NONE, "", "no report to count from"];
  const minutes = fullMinutes(body);
  if (!minutes.length) return ["Rate", NONE, "", "needs a full minute"];
  return ["Rate", count(minutes.at(-1)), "a minute", "ended, last full minute"];
}

function left(body, stale) {
  const none = (why) => ["Left", NONE, "", why];
  if (stale) return none("not estimated while stale");
  if (!isReported(body) || !body.declared_nodes) return none("needs a known total");
  if (body.discovered_nodes > body.declared_nodes) return none("still growing");
  const minutes = fullMinutes(body);
  if (minutes.length < LEAST_MINUTES || minutes.at(-1) < LEAST_ENDED) return none("too early");
  const ordered = [...minutes].sort((a, b) => a - b);
  const slow = ordered[Math.floor(ordered.length / 4)];
  const fast = ordered[Math.floor((3 * ordered.length) / 4)];
  if (slow < 1) return none("waits for long nodes");
  const rest = body.declared_nodes - ended(body.node_counts);
  const near = (value) => STEPS.find((step) => value <= step) ?? STEPS.at(-1);
  const [low, high] = [near(rest / fast), near(rest / slow)];
  return ["Left", low < high ? `${low} to ${high}` : `about ${low}`, "min",
    `from the last ${minutes.length} min`];
}

function running(body, stale) {
  if (!isReported(body)) return ["Running now", NONE, "", "not known yet"];
  const number = body.node_counts.RUNNING;
  const unit = number === 1 ? "node" : "nodes";
  if (stale) return ["Running then", count(number), unit, "as of the last report"];
  const hosts = body.hosts ? `${plural(body.hosts, "host", "hosts")} seen` : "no host named yet";
  return ["Running now", count(number), unit, hosts];
}
