// The list of runs: rows change in place, newer ones wait until they are asked for.

import { byId, el, say, setClass, setGlyph, show } from "./dom.js";
import { Api, Feed } from "./feed.js";
import { serverClock, start as startFrame } from "./frame.js";
import { ENDED, chip, ended, executionMark, setBar } from "./marks.js";
import { STALE } from "./head.js";
import { age, clock, count, duration, moment, percent, plural } from "./words.js";

const EVERY = 5000, LIMIT = 50;
const ACTIVE = ["QUEUED", "CLAIMED", "RUNNING", "RETRY_WAIT", "RECONCILE"];
const main = byId("content");
const now = serverClock(Number(main.dataset.now));
const api = new Api(null);
const asked = new URLSearchParams(location.search);
const rows = new Map([...document.querySelectorAll("tr[data-id]")].map((row) => [row.dataset.id, row]));
const items = new Map();
let newer = 0;

// Rows that are on the page, and whatever is active or has ended since.
const feed = new Feed({
  ask: (etag) => api.get("runs/", {
    limit: LIMIT, prefix: asked.get("prefix"), queue: asked.get("queue"),
    state: asked.get("show") === "active" ? ACTIVE : asked.get("show") === "ended" ? [...ENDED] : [],
  }, etag),
  hear,
  gone: () => location.reload(),
  turn: tick,
  isFinal: () => false,
  stream: null,
});
feed.pace = () => EVERY;

function hear(body) {
  const fresh = body.items.filter((item) => !rows.has(item.execution.id));
  newer = asked.get("cursor") || asked.get("show") === "attention" ? 0 : fresh.filter(isNewer).length;
  for (const item of body.items) {
    if (rows.has(item.execution.id)) {
      items.set(item.execution.id, item);
      set(rows.get(item.execution.id), item);
    }
  }
  const button = byId("newer");
  show(button, newer > 0);
  say(button.firstElementChild, `${plural(newer, "new run", "new runs")}, show`);
}

// Older ones than the page shows are no news.
function isNewer(item) {
  return moment(item.execution.enqueued_at) > Number(main.dataset.now);
}

function isStale(item) {
  return !ENDED.has(item.execution.state) && item.observed_at_ms !== null && now() - item.observed_at_ms >= STALE;
}

function set(row, item) {
  const { execution, node_counts: counts } = item;
  const [state, , share, barred, done, failed, started] = row.children;
  const over = ENDED.has(execution.state);
  const reported = item.revision !== null;
  const mark = executionMark(execution.state, reported, isStale(item));
  if (state.textContent !== mark.word) state.replaceChildren(chip(mark));
  let whole = reported ? item.discovered_nodes : 0;
  if (!over) whole = Math.max(whole, item.declared_nodes ?? 0);
  if (reported && whole) {
    say(share.firstElementChild, `${percent(item.percent, ended(counts))} %`);
    let bar = barred.querySelector("svg");
    if (!bar) {
      bar = document.querySelector("svg.bar-row")?.cloneNode(false);
      if (bar) barred.replaceChildren(bar);
    }
    if (bar) setBar(bar, counts, whole);
    done.replaceChildren(`${count(over ? counts.SUCCEEDED : ended(counts))} `,
      el("span", { class: "quiet" }, `of ${count(whole)} ${over ? "succeeded" : "ended"}`));
  }
  say(failed, counts?.FAILED ? `${count(counts.FAILED)} failed` : "");
  say(started, execution.started_at ? clock(moment(execution.started_at), now()) : "");
  setAges(row, item);
}

function setAges(row, item) {
  const { execution } = item;
  const took = row.children[7], fresh = row.children[8];
  const until = execution.finished_at ? moment(execution.finished_at) : now();
  say(took, execution.started_at ? duration(until - moment(execution.started_at)) : "");
  const stale = isStale(item);
  setClass(fresh, stale ? "fresh stale" : "fresh");
  let text = item.observed_at_ms === null ? "no report yet" : `${age(now() - item.observed_at_ms)} ago`;
  if (execution.state === "QUEUED") text = `queued ${age(now() - moment(execution.enqueued_at))}`;
  if (execution.finished_at) text = `ended ${clock(moment(execution.finished_at), now())}`;
  say(fresh.firstElementChild, stale ? `stale, ${text}` : text);
}

function tick() {
  const [icon, word, text] = byId("fresh").children;
  const asking = age(Date.now() - feed.askedAt);
  const [symbol, tone, said] = feed.silent ? ["warning", "warn", "No answer from the server"]
    : feed.paused ? ["paused", "plain", "Paused by you"] : ["live", "accent", "Live"];
  setGlyph(icon, symbol, tone);
  byId("status").dataset.tone = tone;
  say(word, said);
  say(text, feed.silent ? `last asked ${asking} ago` : `list as of ${clock(now() - (Date.now() - feed.askedAt), now())}, ${asking} ago`);
  say(byId("pace"), feed.paused ? "" : "Every 5 s");
  for (const [id, item] of items) setAges(rows.get(id), item);
}

function pause() {
  feed.pause(!feed.paused);
  byId("pause").setAttribute("aria-pressed", String(feed.paused));
  say(byId("pause").firstElementChild, feed.paused ? "Go on" : "Pause");
}

// Along the rows by key, as along any list.
function step(by) {
  const links = [...document.querySelectorAll("tr[data-id] a")];
  const at = links.indexOf(document.activeElement);
  links[Math.min(Math.max(at + by, 0), links.length - 1)]?.focus();
}

startFrame({
  "/": () => byId("find").focus(),
  j: () => step(1),
  k: () => step(-1),
  p: pause,
  r: () => location.reload(),
  n: () => (newer ? location.assign(location.pathname + location.search) : false),
  "]": () => byId("older")?.click(),
  "[": () => byId("first")?.click(),
});
byId("pause").addEventListener("click", pause);
show(byId("pause"), true);
byId("newer").addEventListener("click", () => location.reload());
setInterval(() => document.hidden || tick(), 1000);
feed.start();
