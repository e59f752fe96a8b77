// The page of one run: one summary poll drives all; each panel loads alone and fails alone.

import * as attempts from "./attempts.js";
import * as attention from "./attention.js";
import { announce, byId, el, say, show } from "./dom.js";
import { Drawer } from "./drawer.js";
import * as failures from "./failures.js";
import { Api, Feed } from "./feed.js";
import { serverClock, start as startFrame } from "./frame.js";
import { GraphPanel } from "./graphpanel.js";
import * as head from "./head.js";
import { Link } from "./link.js";
import { Nodes } from "./nodes.js";
import * as stages from "./stages.js";
import * as steps from "./steps.js";
import { Store, WINDOW } from "./store.js";
import { Timeline } from "./timeline.js";
import { count } from "./words.js";

const DETAIL_EVERY = 2000, AGAIN = 5000, RUNNING_READ = 256;

const main = byId("content");
const link = new Link();
// None before the first claim.
let attempt = Number(main.dataset.attempt);

const view = {
  name: document.querySelector("h1").textContent,
  api: new Api("earlier" in main.dataset ? attempt : null),
  now: serverClock(Number(main.dataset.now)),
  body: null, stages: null, failures: null, running: null, names: new Map(),
  availability: "NOT_REPORTED", error: main.dataset.error ?? "", heardAt: Number(main.dataset.now),
  open: (id) => drawer.open(id),
  selected: (id) => graph.select(id),
  follow: () => follow(),
  pickStage: (index) => pickStage(index),
  step: (by) => step(by),
  inGraph: () => graph.reveal(drawer.id),
  ordinalOf: (id) => ordinalOf(id),
};
view.store = new Store(view);
const nodes = new Nodes(view, link);
const graph = new GraphPanel(view, link, nodes);
const timeline = new Timeline(view);
const drawer = new Drawer(view, link);

let known = { state: null, failed: null, detail: null, word: null, attempt: null };
let following = null, followAgain = false;
let detailTimer = null, detailBusy = false, detailAt = 0;

const feed = new Feed({
  ask: (etag) => view.api.get("summary", {}, etag),
  hear,
  gone,
  turn: () => view.body && (head.tick(view), head.title(view)),
  // What is asked for must have been heard: the last word of an attempt comes after it.
  isFinal: () => view.body !== null && known.attempt === view.api.attempt
    && (head.hasEnded(view.body) || view.api.attempt !== null),
  stream: view.api.attempt ? null : "stream",
});
view.feed = feed;

function hear(body) {
  if (!attempt) begin(body.execution.attempt);
  if (body.execution.attempt !== attempt) return void another(body.execution.attempt);
  const before = view.body;
  view.body = { revision: null, terminal: null, ...body };
  view.heardAt = view.now();
  known.attempt = view.api.attempt;
  if (!before || before.detail_revision !== body.detail_revision || before.detail.availability !== body.detail.availability) {
    view.availability = body.detail.availability;
  }
  head.render(view);
  steps.render(view);
  attention.render(view);
  tell(view.body);
  soon();
}

function begin(number) {
  attempt = number;
  say(byId("attempt"), count(number));
}

// A new attempt never replaces the page: it is offered.
function another(number) {
  view.api.attempt = attempt;
  feed.stream = null;
  const place = byId("newer");
  place.replaceChildren(el("a", { href: "?" }, `Attempt ${count(number)} has started. Go to it `, el("kbd", {}, "a")));
  show(place, true);
  announce(`Attempt ${count(number)} has started.`);
  attempts.load(view, attempt).catch(() => {});
  feed.etag = null;
  feed.look();
}

function tell(body) {
  const failed = body.node_counts?.FAILED ?? 0;
  if (known.state && known.state !== body.execution.state) {
    announce(`${view.name} is now ${body.execution.state.toLowerCase().replace("_", " ")}.`);
    attempts.load(view, attempt).then((error) => {
      view.error = error;
      attention.render(view);
    }).catch(() => {});
  } else if (known.failed !== null && failed > known.failed) {
    announce(`${count(failed)} failed.`);
  }
  known = { ...known, state: body.execution.state, failed };
}

// The detail follows the summary, at most every two seconds, and never when nobody looks.
function soon() {
  if (detailTimer || detailBusy) return;
  detailTimer = setTimeout(detail, Math.max(0, detailAt + DETAIL_EVERY - Date.now()));
}

function keyOf(body) {
  return `${body.detail_revision} ${body.topology_version} ${body.execution.state} ${body.detail.availability}`;
}

async function detail() {
  detailTimer = null;
  const key = keyOf(view.body);
  if (key === known.detail || document.hidden) return;
  if (!head.hasDetail(view)) return void absent();
  detailBusy = true;
  detailAt = Date.now();
  const first = view.stages === null;
  try {
    await readStages();
    draw();
    await Promise.allSettled([readFailures(), readRunning(), nodes.load(!first)]);
    known.detail = key;
  } catch {
    // The head says that nothing answers; the panels keep their last picture.
    detailTimer = setTimeout(detail, AGAIN);
  } finally {
    detailBusy = false;
  }
  draw();
  await follow();
  await drawer.refresh();
  if (first && link.get("node")) drawer.open(link.get("node"), true);
  // Nobody else comes back for what was heard meanwhile, should it have been the last.
  if (keyOf(view.body) !== known.detail) soon();
}

function draw() {
  if (!view.stages || !head.hasDetail(view)) return;
  say(byId("absent").firstElementChild, "");
  show(byId("absent"), false);
  show(byId("nodes"), true);
  stages.render(view);
  graph.start();
  graph.render();
  failures.render(view);
  timeline.render();
  nodes.counts();
  attention.render(view);
}

async function readStages() {
  const { status, body } = await view.api.get("stages");
  if (status === 200 && body.items) {
    view.stages = body;
    view.names = stages.named(body);
    nodes.showFilter();
  } else if (body?.run) {
    view.availability = body.run.detail.availability;
    absent();
    head.render(view);
  } else {
    throw new Error("the stages were not answered");
  }
}

async function readFailures() {
  if (!view.body.node_counts?.FAILED) return;
  const { status, body } = await view.api.get("failures");
  if (status === 200 && body.items) view.failures = body;
}

async function readRunning() {
  if (!view.body.node_counts?.RUNNING || head.hasEnded(view.body)) {
    view.running = [];
    return;
  }
  const { status, body } = await view.api.get("nodes", { state: "RUNNING", limit: RUNNING_READ });
  if (status !== 200 || !body.items) return;
  view.running = body.items.filter((row) => row.detail.started_ms)
    .sort((a, b) => a.detail.started_ms - b.detail.started_ms);
}

// The window of the graph is read when it is drawn, or where it is all there is.
// One at a time; who asks meanwhile waits for another turn.
function follow() {
  if (following) {
    followAgain = true;
    return following;
  }
  following = followOnce().finally(() => {
    following = null;
    if (followAgain) {
      followAgain = false;
      return follow();
    }
    return undefined;
  });
  return following;
}

async function followOnce() {
  const { body } = view;
  if (!body) return;
  if (!head.hasDetail(view) || document.hidden) return;
  const drawn = graph.kind === "nodes" || timeline.kind === "nodes";
  if (!drawn && body.retained_nodes > WINDOW) return;
  try {
    await view.store.follow();
  } catch {
    return;
  }
  graph.render();
  timeline.render();
}

const ABSENT = {
  DISABLED: "Node reporting was off for this run. Its state and result are in the task.",
  OMITTED_BY_POLICY: "Only the summary is kept for this run, by its reporting policy. There is no graph, timeline or table.",
  EXPIRED: "The detail expired after the time set for it. Counts and outcome remain.",
  MISSING: "The detail of this run is missing. The summary refers to rows that are not there. Tell an administrator; the counts remain true.",
  CORRUPT: "The detail of this run is damaged and not shown. Its check failed. The counts remain true.",
};

function absent() {
  const text = ABSENT[view.availability] ?? "";
  show(byId("absent"), Boolean(text));
  if (text && !byId("absent").textContent.trim()) say(byId("absent").firstElementChild, text);
  for (const id of ["graph", "failures", "timeline", "nodes"]) show(byId(id), false);
}

// The right to see is gone: everything goes with it.
function gone() {
  drawer.close(true);
  document.title = "Runs";
  say(byId("status"), "");
  main.replaceChildren(el("section", { class: "panel alone" },
    el("h1", {}, "There is no such run, or it is not yours to see."),
    el("p", {}, el("a", { href: "../../" }, "To the runs you may see"))));
  document.querySelector(".top nav b").textContent = "";
  clearInterval(ticking);
}

function pickStage(index) {
  const chosen = String(nodes.filter.stage) === String(index) ? null : index;
  nodes.choose({ stage: chosen });
  graph.render();
}

async function ordinalOf(id) {
  const { status, body } = await view.api.get("node", { id });
  return status === 200 && body.node ? body.node.ordinal : null;
}

// The next or previous row of the list the open node is in; without one, the first.
function step(by) {
  const rows = [...document.querySelectorAll("#causes details[open] tr[data-id], #node-rows tr[data-id]")];
  const at = rows.findIndex((row) => row.dataset.id === drawer.id);
  const next = rows[at < 0 ? 0 : at + by];
  if (!next) return false;
  next.scrollIntoView({ block: "nearest" });
  drawer.open(next.dataset.id);
  return undefined;
}

function jump(id) {
  const panel = byId(id);
  if (panel.hidden) return false;
  panel.scrollIntoView({ block: "start" });
  panel.querySelector("button, a, summary, [tabindex]")?.focus({ preventScroll: true });
  return undefined;
}

function pause() {
  feed.pause(!feed.paused);
  const button = byId("pause");
  button.setAttribute("aria-pressed", String(feed.paused));
  say(button.firstElementChild, feed.paused ? "Go on" : "Pause");
  if (!feed.paused) soon();
}

startFrame({
  "/": () => nodes.find.focus(),
  1: () => jump("graph"),
  2: () => jump("timeline"),
  3: () => jump("nodes"),
  4: () => jump("attempts"),
  f: () => jump("failures"),
  v: () => graph.toggle(),
  j: () => step(1),
  k: () => step(-1),
  Escape: () => drawer.close() || (nodes.isFiltered() ? nodes.clear() : false),
  g: () => (drawer.id ? graph.reveal(drawer.id) : false),
  "+": () => graph.zoom(1.25),
  "-": () => graph.zoom(0.8),
  0: () => graph.fit(),
  p: pause,
  r: () => { stages.again(); stages.render(view); nodes.again(); },
  n: () => (nodes.waiting ? nodes.again() : false),
  "]": () => nodes.turn(1),
  "[": () => nodes.turn(0),
  a: () => (byId("newer").hidden ? false : location.assign("?")),
  c: () => (drawer.id ? drawer.copy() : false),
  u: () => location.assign("../../"),
});

byId("pause").addEventListener("click", pause);
show(byId("pause"), true);
byId("to-failures").addEventListener("click", (event) => {
  event.preventDefault();
  jump("failures");
});
addEventListener("scroll", () => show(byId("brief"), scrollY > 260), { passive: true });
document.addEventListener("visibilitychange", () => view.body && !document.hidden && soon());
addEventListener("resize", () => view.body && (head.render(view), graph.render(), timeline.render()));

const ticking = setInterval(() => {
  if (!view.body || document.hidden) return;
  head.tick(view);
  steps.render(view);
  if (!feed.final) attention.render(view);
  const word = head.freshness(view.body, view.now());
  if (known.word && known.word !== word && word === "Stale") announce("The figures are stale.");
  known.word = word;
  nodes.tick(view.now());
}, 1000);

if (Number(main.dataset.attempts) > 1) attempts.load(view, attempt).catch(() => {});
feed.start();
