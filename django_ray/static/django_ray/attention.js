// The attention slot: what is wrong, or that nothing is. Says what the server says.

import { byId, el, nodeButton, setGlyph, show } from "./dom.js";
import { freshness, hasDetail, hasEnded, isReported, isUndecided } from "./head.js";
import { ended } from "./marks.js";
import { age, clock, count, duration, moment, nodes } from "./words.js";

const UNREPORTED = 30000, UNCLAIMED = 60000, SLOW_FACTOR = 3, SLOW_ENDED = 10;

const strong = (text) => ({ kind: "strong", text });
const plain = (text) => ({ kind: "text", text });
const code = (text) => ({ kind: "code", text });
const node = (text) => ({ kind: "node", text });
// A line of what is not read yet: one that stands and begins like it says more.
const unread = (...line) => Object.assign(line, { isUnread: true });

const END = {
  SUCCEEDED: "Succeeded",
  CANCELLED: "Cancelled on request",
  TIMED_OUT: "Ended by its time limit",
  LOST: "Lost: its process or host on Ray was gone; this was noticed",
  FAILED: "Failed",
};

const UNDECIDED = [
  strong("What its compiled graph has done is not known."),
  plain("It waits for an operator, and for"),
  code("manage.py ray_reconcile"),
];

function asked(body, now) {
  const at = body.execution.cancel_requested_at;
  if (!at || hasEnded(body)) return [];
  const counts = body.node_counts;
  const ending = counts ? counts.RUNNING + counts.SUBMITTED : 0;
  const line = [strong(`Cancellation was asked for ${age(now - moment(at))} ago.`)];
  if (ending) line.push(plain(`${nodes(ending)} may still be ending.`));
  return [line];
}

function endings(view, now) {
  const { body } = view;
  if (isUndecided(body)) return view.error ? [UNDECIDED, [code(view.error)]] : [UNDECIDED];
  if (!hasEnded(body)) return [];
  const { state, finished_at: at } = body.execution;
  const line = [strong(at ? `${END[state]} at ${clock(moment(at), now)}.` : `${END[state]}.`)];
  if (body.terminal?.derived) {
    if (state === "SUCCEEDED") {
      line.push(plain("The end was confirmed by the task, not by a last report."));
    } else if (state === "LOST") line.push(plain("What ran then is unknown."));
    else line.push(plain("The counts are the last seen ones."));
  } else if (body.terminal && state === "CANCELLED") {
    const done = count(body.node_counts.SUCCEEDED);
    line.push(plain(`${done} of ${nodes(body.discovered_nodes)} had succeeded.`));
  }
  return view.error ? [line, [code(view.error)]] : [line];
}

function queued(body, now) {
  const { enqueued_at: at, queue } = body.execution;
  const waited = now - moment(at);
  if (waited < UNCLAIMED) {
    return [strong(`Queued for ${age(waited)}.`), plain(`Waits for a worker on queue ${queue}.`)];
  }
  return [
    strong(`No worker has claimed it for ${age(waited)}.`),
    plain("Is"),
    code("manage.py ray_worker"),
    plain(`running for queue ${queue}?`),
  ];
}

const BEFORE = {
  CLAIMED: [strong("A worker has claimed it."), plain("The run has not started.")],
  RETRY_WAIT: [strong("Waits to be tried again."), plain("The next attempt starts later.")],
};

function unreported(view, now) {
  const { body } = view;
  const { state, started_at: begun } = body.execution;
  if (view.availability === "CORRUPT") {
    return [strong("The summary of this run is damaged and not shown.")];
  }
  const off = body.policy === "disabled";
  const inTask = plain("Its state and result are in the task.");
  if (hasEnded(body)) {
    if (off) return [strong("Node reporting was off for this run."), inTask];
    if (!begun) return [strong(`${body.execution.attempt && !body.execution.run_id ? "The next attempt" : "The run"} was not started.`)];
    return [strong("No summary of this run is stored."), plain("Its result is in the task.")];
  }
  if (state === "QUEUED") return queued(body, now);
  if (BEFORE[state]) return BEFORE[state];
  if (off) return [strong("Node reporting is off for this run."), inTask];
  if (body.policy === "terminal_only") {
    return [strong("One summary comes with the end, by policy.")];
  }
  const since = begun ? now - moment(begun) : 0;
  if (since >= UNREPORTED) {
    const where = plain("Look at its worker's log, then at this run's collector.");
    return [strong(`No report for ${age(since)}.`), where];
  }
  return [
    strong("The run has started and has not reported a node yet."),
    plain("The graph, timeline and table appear here with the first report."),
  ];
}

function failed(view) {
  const { body, failures } = view;
  const counts = body.node_counts;
  if (!counts.FAILED) {
    if (body.discovered_nodes) return [[strong("Nothing failed.")]];
    if (!body.terminal) return [[strong("The run has not reported a node yet.")]];
    const valid = plain("That is a valid end; its result is in the task.");
    return [[strong("This run registered no node."), valid]];
  }
  const behind = counts.SKIPPED ? `, ${count(counts.SKIPPED)} skipped behind` : "";
  const head = strong(`${count(counts.FAILED)} failed${behind}.`);
  const cause = failures?.items[0];
  if (!failures && hasDetail(view)) return [unread(head)];
  if (!cause) return [[head, plain("Counted; none of them is kept with detail.")]];
  const lines = [[head, ...example(failures, cause)]];
  const rest = failures.failed - failures.examined;
  if (!failures.more && rest > 0) {
    const text = `${count(failures.examined)} of the ${count(failures.failed)} failures`;
    lines.push([plain(`${text} kept in detail; ${count(rest)} counted only.`)]);
  }
  return lines;
}

function example(failures, cause) {
  const text = failures.examined > 1 ? cause.text : cause.examples[0].text;
  const said = code([cause.kind, text].filter(Boolean).join(": "));
  if (failures.examined > 1) {
    return [plain(`${count(cause.nodes)} of ${count(failures.examined)} say`), said];
  }
  return [node(cause.examples[0].id), plain("ended with"), said];
}

// `running`: the kept nodes at work, longest first.
function long(view, now) {
  const { body, running } = view;
  if (hasEnded(body) || isUndecided(body)) return [];
  if (!running && body.node_counts.RUNNING && hasDetail(view)) return [unread()];
  if (!running?.length) {
    const none = body.node_counts.RUNNING
      ? "The running nodes are counted; none of them is kept."
      : "No node takes long just now.";
    return [[plain(none)]];
  }
  const stages = new Map((view.stages?.items ?? []).map((stage) => [stage.index, stage]));
  const slow = running.find((each) => isSlow(each, stages.get(each.stage), now));
  if (slow) return [[strong("Runs unusually long:"), ...ran(slow, stages, now)]];
  return [[strong("Nothing runs unusually long."), plain("Longest:"), ...ran(running[0], stages, now)]];
}

function ran(row, stages, now) {
  const usual = stages.get(row.stage)?.p95_ms;
  const text = `for ${duration(now - row.detail.started_ms)}`;
  return [
    node(row.id),
    plain(usual ? `${text} where its stage usually takes ${duration(usual)}` : text),
  ];
}

function isSlow(row, stage, now) {
  if (!stage?.p95_ms || ended(stage.node_counts) < SLOW_ENDED) return false;
  return now - row.detail.started_ms > SLOW_FACTOR * stage.p95_ms;
}

function silent(body, now) {
  const heard = age(now - body.observed_at_ms);
  const from = clock(body.observed_at_ms, now);
  return [[strong(`The collector has been silent for ${heard}. The figures are from ${from}.`)]];
}

function ground(view, word, now) {
  const { body } = view;
  const { state, enqueued_at: queuedAt, started_at: begun } = body.execution;
  const reported = isReported(body);
  if (isUndecided(body)) return ["warn", "warning"];
  if (["FAILED", "TIMED_OUT"].includes(state) || (reported && body.node_counts.FAILED)) {
    return ["bad", "failed"];
  }
  if (word === "Stale" || word === "Late") return ["warn", "clock"];
  if (state === "LOST") return ["warn", "warning"];
  if (!reported && !hasEnded(body)) {
    const quiet = ["disabled", "terminal_only"].includes(body.policy);
    const waits = state === "QUEUED"
      ? now - moment(queuedAt) >= UNCLAIMED
      : begun && now - moment(begun) >= UNREPORTED && !quiet;
    if (waits) return ["warn", "clock"];
  }
  if (["MISSING", "CORRUPT"].includes(view.availability)) return ["warn", "warning"];
  return ["plain", reported ? "check" : "waiting"];
}

function paragraph(line, open) {
  const parts = line.map(({ kind, text }, at) => {
    const space = at ? " " : "";
    if (kind === "strong") return [space, el("strong", {}, text)];
    if (kind === "code") return [space, el("code", {}, text)];
    if (kind === "node") return [space, nodeButton(text, open)];
    return [space, text];
  });
  return el("p", {}, parts);
}

const made = new WeakSet();

// Ages inside tick each second; a line is rebuilt only when its words have changed.
export function render(view) {
  const now = view.now();
  const { body } = view;
  const word = freshness(body, now);
  const lines = [...asked(body, now), ...endings(view, now)];
  if (!isReported(body)) lines.push(unreported(view, now));
  else {
    const rest = word === "Stale" ? silent(body, now) : long(view, now);
    const first = word === "Stale" && !body.node_counts.FAILED;
    lines.push(...(first ? [...rest, ...failed(view)] : [...failed(view), ...rest]));
  }
  const [tone, symbol] = ground(view, word, now);
  const slot = byId("attention");
  slot.className = `notice ground-${tone}`;
  setGlyph(slot.firstElementChild, symbol);
  const place = byId("attention-lines");
  lines.forEach((line, at) => {
    const text = line.map((part) => part.text).join(" ");
    const standing = place.children[at];
    const said = standing?.textContent ?? "";
    // A line that came with the page opens no node.
    if (line.isUnread ? said.startsWith(text) : said === text && made.has(standing)) return;
    // Only numbers moved: whoever has focus in the line keeps it.
    if (standing?.contains(document.activeElement)) return;
    const fresh = paragraph(line, view.open);
    made.add(fresh);
    if (standing) standing.replaceWith(fresh);
    else place.append(fresh);
  });
  const whole = !lines.some((line) => line.isUnread);
  while (whole && place.children.length > lines.length) place.lastElementChild.remove();
  if (view.failures) show(byId("to-failures"), view.failures.items.length > 0);
}
