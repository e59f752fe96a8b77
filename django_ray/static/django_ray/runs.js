// The list of runs: rows change in place, newer ones wait until they are asked for.

import { byId, el, say, setClass, setGlyph, show } from "./dom.js";
import { Api, Feed } from "./feed.js";
import { serverClock, start as startFrame } from "./frame.js";
import { freshness } from "./head.js";
import { ENDED, chip, ended, executionMark, newBar, setBar } from "./marks.js";
import { age, clock, count, duration, moment, percent, plural } from "./words.js";

const EVERY = 5000, LIMIT = 50, LOOKED_UP = 8;
const ACTIVE = ["QUEUED", "CLAIMED", "RUNNING", "RETRY_WAIT", "RECONCILE"];
const main = byId("content");
const now = serverClock(Number(main.dataset.now));
const api = new Api(null);
const asked = new URLSearchParams(location.search);
const rows = new Map([...document.querySelectorAll("tr[data-id]")].map((row) => [row.dataset.id, row]));
const items = new Map();
let newer = 0;

// The active ones are asked for apart: any number of others may have come after them.
const lists = { active: [ACTIVE], ended: [[...ENDED]] }[asked.get("show")] ?? [ACTIVE, []];
const heard = lists.map(() => ({ etag: null, body: { items: [] } }));
const active = new Set([...document.querySelectorAll("#active tr[data-id]")].map((row) => row.dataset.id));

async function ask() {
  const parameters = { limit: LIMIT, prefix: asked.get("prefix"), queue: asked.get("queue") };
  const answers = await Promise.all(lists.map((state, at) =>
    api.get("runs/", { ...parameters, state }, heard[at].etag)));
  const refused = answers.find(({ status }) => status !== 200 && status !== 304);
  if (refused) return refused;
  answers.forEach((answer, at) => {
    if (answer.status === 200) heard[at] = answer;
  });
  const items = heard.flatMap(({ body }) => body.items);
  return { status: 200, body: { items: [...items, ...await missing(items)] }, etag: null };
}

// A row that was active and is in no list is asked for by itself, in turn.
async function missing(items) {
  const there = new Set(items.map(({ execution }) => execution.id));
  const left = [...active].filter((id) => !there.has(id)).slice(0, LOOKED_UP);
  const answers = await Promise.all(left.map((id) => api.get(`runs/${id}/summary`)));
  for (const id of left) {
    active.delete(id);
    active.add(id);
  }
  return answers.filter(({ status }) => status === 200).map(({ body }) => body);
}

const feed = new Feed({
  ask,
  hear,
  gone: () => location.reload(),
  turn: tick,
  isFinal: () => false,
  stream: null,
});
feed.pace = () => EVERY;

function hear(body) {
  const fresh = [...new Map(body.items.map((item) => [item.execution.id, item])).values()]
    .filter((item) => !rows.has(item.execution.id));
  newer = asked.get("cursor") || asked.get("show") === "attention" ? 0 : fresh.filter(isNewer).length;
  for (const item of body.items) {
    if (rows.has(item.execution.id)) {
      if (ENDED.has(item.execution.state)) active.delete(item.execution.id);
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
  return freshness(item, now()) === "Stale";
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
    say(share.firstElementChild, `${percent(item.percent, over ? counts.SUCCEEDED : ended(counts))} %`);
    if (!barred.querySelector("svg")) barred.replaceChildren(newBar("bar-row"));
    setBar(barred.firstElementChild, counts, whole);
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
  const since = Date.now() - feed.answeredAt;
  const [symbol, tone, said] = feed.silent ? ["warning", "warn", "No answer from the server"]
    : feed.paused ? ["paused", "plain", "Paused by you"] : ["live", "accent", "Live"];
  setGlyph(icon, symbol, tone);
  byId("status").dataset.tone = tone;
  say(word, said);
  const list = `list as of ${clock(now() - since, now())}, ${age(since)} ago`;
  say(text, feed.silent ? `last asked ${age(Date.now() - feed.askedAt)} ago; ${list}` : list);
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
