// A window of kept nodes and their edges, followed by changes: what graph and timeline draw.

import { behind } from "./edges.js";

export const WINDOW = 2000;
const PAGE = 256, EDGES = 6000;

export class Store {
  constructor(view) {
    this.view = view;
    this.first = 0;
    this.version = 0;
    this.forget();
  }

  forget() {
    this.version += 1;
    this.nodes = new Map();
    this.edges = [];
    this.edgesCut = false;
    this.next = { since: 0, after: -1, began: null };
    this.topology = 0;
    this.loaded = false;
    this.run = null;
  }

  get last() {
    return this.first + WINDOW;
  }

  shift(first) {
    this.first = first;
    this.forget();
  }

  async ask(path, parameters) {
    const { version } = this;
    const { status, body } = await this.view.api.get(path, parameters);
    // Whoever asked for another window since then has no use for this answer.
    if (version !== this.version) throw new Error("the window has moved on");
    if (status !== 200 || !body.items) throw new Error("no answer to draw from");
    if (body.run.run_id !== this.view.body.execution.run_id) throw new Error("another run answers");
    return body;
  }

  // Returns whether anything changed.
  async follow() {
    const { body } = this.view;
    const run = `${body.execution.run_id} ${body.execution.attempt}`;
    if (this.run !== null && this.run !== run) this.forget();
    this.run = run;
    const grown = await this.grow(body.topology_version);
    return (await this.change()) || grown;
  }

  // Nodes come in with their edges or not at all: a read that was cut short is begun again.
  async grow(topology) {
    if (this.topology >= topology) return false;
    const begun = Math.max(this.first, Math.max(-1, ...this.nodes.keys()) + 1);
    const nodes = begun < this.last ? await this.readNodes(begun) : [];
    const edges = nodes.length ? await this.readEdges(begun, nodes.at(-1).ordinal) : [];
    for (const node of nodes) this.nodes.set(node.ordinal, { ...node, state: "PENDING", revision: 0, detail: {} });
    this.edges.push(...edges);
    this.topology = topology;
    return true;
  }

  async readNodes(begun) {
    const found = [];
    let cursor = null;
    do {
      const page = await this.ask("topology/nodes", { start: begun, limit: PAGE, cursor });
      found.push(...page.items.filter((node) => node.ordinal < this.last));
      cursor = page.next_cursor;
    } while (cursor && found.at(-1)?.ordinal + 1 < this.last);
    return found;
  }

  // The edges that end at `begun` up to `last`; what ends further on comes with its node.
  async readEdges(begun, last) {
    const found = [];
    let cursor = null;
    for (;;) {
      const page = await this.ask("topology/edges", { start: begun, limit: PAGE, cursor });
      for (const edge of page.items) {
        if (edge.target > last) return found;
        if (edge.source >= this.first) found.push(edge);
      }
      cursor = page.next_cursor;
      if (!cursor) return found;
      if (this.edges.length + found.length > EDGES) {
        this.edgesCut = true;
        return found;
      }
    }
  }

  // A first round asks for the window alone, every later one for what is newer.
  async change() {
    let changed = false;
    if (!this.loaded) this.next = { since: 0, after: this.first - 1, began: null };
    for (let turn = 0; turn < 12; turn += 1) {
      const page = await this.ask("changes", { ...this.next, limit: PAGE });
      // A row may be newer than the graph that is drawn, and is asked for once.
      changed = (await this.grow(page.run.topology_version)) || changed;
      for (const row of page.items) changed = this.merge(row) || changed;
      const past = (page.items.at(-1)?.ordinal ?? -1) >= this.last;
      if (!this.loaded && past) {
        this.next = { since: page.next.began ?? page.next.since, after: -1, began: null };
        break;
      }
      this.next = page.next;
      if (!page.more) break;
    }
    this.loaded = true;
    return changed;
  }

  merge(row) {
    const known = this.nodes.get(row.ordinal);
    if (!known || known.revision >= row.detail_revision) return false;
    Object.assign(known, { state: row.state, revision: row.detail_revision, detail: row.detail, stageIndex: row.stage });
    return true;
  }

  byId(id) {
    for (const node of this.nodes.values()) if (node.id === id) return node;
    return null;
  }

  needs(ordinal) {
    return this.edges.filter((edge) => edge.target === ordinal).map((edge) => edge.source);
  }

  feeds(ordinal) {
    return this.edges.filter((edge) => edge.source === ordinal).map((edge) => edge.target);
  }

  behind(ordinal) {
    return behind(this.edges, ordinal);
  }
}
