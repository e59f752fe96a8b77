import assert from "node:assert/strict";
import test from "node:test";

import { Store } from "./store.js";

// A chain of nodes that grows and changes, answered as the API answers.
class Server {
  constructor(nodes) {
    this.nodes = Array.from({ length: nodes }, () => ({ state: "PENDING", revision: 1 }));
    Object.assign(this, { revision: 1, topology: 1, fails: null, asked: [], runId: "run" });
  }

  publish(states, grown = 0) {
    this.revision += 1;
    if (grown) this.topology += 1;
    for (let at = 0; at < grown; at += 1) this.nodes.push({ state: "PENDING", revision: this.revision });
    for (const [ordinal, state] of Object.entries(states)) this.nodes[ordinal] = { state, revision: this.revision };
  }

  get body() {
    return { execution: { run_id: "run", attempt: 1 }, topology_version: this.topology };
  }

  page(items, { cursor, limit }) {
    const from = Number(cursor ?? 0);
    const next = from + limit < items.length ? String(from + limit) : null;
    return { items: items.slice(from, from + limit), next_cursor: next };
  }

  async get(path, parameters) {
    this.asked.push(path);
    if (this.fails?.(path, parameters)) return { status: 503, body: { title: "no" } };
    const run = { run_id: this.runId, topology_version: this.topology };
    return { status: 200, body: { run, ...this[path](parameters) } };
  }

  "topology/nodes"(asked) {
    const all = this.nodes.map((_, ordinal) => ({ ordinal, id: `n${ordinal}`, rank: ordinal, stage: "s" }));
    return this.page(all.slice(asked.start), asked);
  }

  "topology/edges"(asked) {
    const all = this.nodes.slice(1).map((_, at) => ({ source: at, target: at + 1 }));
    return this.page(all.filter(({ target }) => target >= asked.start), asked);
  }

  changes({ since, after, began, limit }) {
    const all = this.nodes.map(({ state, revision }, ordinal) =>
      ({ ordinal, state, detail_revision: revision, detail: {}, stage: 0 }));
    const found = all.filter((row) => row.detail_revision > since && row.ordinal > after);
    const items = found.slice(0, limit), more = found.length > limit;
    const start = began ?? this.revision;
    const next = more ? { after: items.at(-1).ordinal, began: start, since } : { after: -1, began: null, since: start };
    return { items, more, next };
  }
}

function follower(server) {
  const view = { api: server, body: server.body };
  const store = new Store(view);
  // What the page last heard of may be older than what the server now answers.
  return { store, hear: () => { view.body = server.body; } };
}

const states = (store) => [...store.nodes.values()].map(({ state }) => state);

test("a row of a node that is not drawn yet is not lost", async () => {
  const server = new Server(3);
  const { store, hear } = follower(server);
  await store.follow();
  server.publish({ 3: "RUNNING" }, 1);
  await store.follow();
  hear();
  await store.follow();
  assert.deepEqual(states(store), ["PENDING", "PENDING", "PENDING", "RUNNING"]);
});

test("edges outlive a read that was cut short", async () => {
  const server = new Server(600);
  const { store } = follower(server);
  for (const path of ["topology/nodes", "topology/edges"]) {
    server.fails = (asked, { cursor }) => asked === path && cursor === "256";
    await assert.rejects(store.follow());
  }
  server.fails = null;
  await store.follow();
  assert.equal(store.nodes.size, 600);
  assert.equal(store.edges.length, 599);
});

test("a graph that has grown while it was read has every edge once", async () => {
  const server = new Server(300);
  const { store, hear } = follower(server);
  server.fails = (path) => {
    if (path === "topology/edges" && server.topology === 1) server.publish({}, 50);
  };
  await store.follow();
  hear();
  await store.follow();
  assert.equal(store.nodes.size, 350);
  assert.deepEqual(store.edges.map(({ target }) => target), Array.from({ length: 349 }, (_, at) => at + 1));
});

test("a window holds its own nodes and the edges between them", async () => {
  const server = new Server(5000);
  const { store } = follower(server);
  store.shift(2000);
  server.publish({ 1999: "RUNNING", 2000: "RUNNING", 3999: "FAILED", 4000: "RUNNING" });
  await store.follow();
  assert.equal(store.nodes.size, 2000);
  assert.equal(store.edges.length, 1999);
  assert.deepEqual([store.nodes.get(2000).state, store.nodes.get(3999).state], ["RUNNING", "FAILED"]);
  server.publish({ 2001: "SUCCEEDED" });
  assert.equal(await store.follow(), true);
  assert.equal(store.nodes.get(2001).state, "SUCCEEDED");
});

test("what has not changed asks once and draws nothing", async () => {
  const server = new Server(3);
  const { store } = follower(server);
  await store.follow();
  server.asked = [];
  assert.equal(await store.follow(), false);
  assert.deepEqual(server.asked, ["changes"]);
});

test("an answer about another run is not merged", async () => {
  const server = new Server(3);
  const { store } = follower(server);
  await store.follow();
  server.runId = "next";
  server.publish({ 0: "RUNNING" });
  await assert.rejects(store.follow());
  assert.deepEqual(states(store), ["PENDING", "PENDING", "PENDING"]);
});
