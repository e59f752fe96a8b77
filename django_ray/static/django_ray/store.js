// A window of kept nodes and their edges, followed by changes: what graph and timeline draw.

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
    this.topology = null;
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
    if (status !== 200 || !body.run) throw new Error("no answer to draw from");
    return body;
  }

  // Returns whether anything changed.
  async follow() {
    const { body } = this.view;
    const run = `${body.execution.run_id} ${body.execution.attempt}`;
    if (this.run !== null && this.run !== run) this.forget();
    this.run = run;
    let changed = false;
    if (this.topology !== body.topology_version) {
      await this.grow();
      this.topology = body.topology_version;
      changed = true;
    }
    return (await this.change()) || changed;
  }

  async grow() {
    const last = Math.max(-1, ...this.nodes.keys());
    let cursor = null, start = Math.max(this.first, last + 1);
    const begun = start;
    while (start < this.last) {
      const page = await this.ask("topology/nodes", { start: begun, limit: PAGE, cursor });
      if (!page.items) return;
      for (const node of page.items) {
        if (node.ordinal < this.last) this.nodes.set(node.ordinal, { ...node, state: "PENDING", revision: 0, detail: {} });
        start = node.ordinal + 1;
      }
      cursor = page.next_cursor;
      if (!cursor) break;
    }
    await this.connect(begun);
  }

  async connect(begun) {
    let cursor = null;
    for (;;) {
      const page = await this.ask("topology/edges", { start: begun, limit: PAGE, cursor });
      if (!page.items) return;
      for (const edge of page.items) {
        if (edge.target >= this.last) return;
        if (edge.target >= begun && edge.source >= this.first) this.edges.push(edge);
      }
      cursor = page.next_cursor;
      if (!cursor) return;
      if (this.edges.length > EDGES) {
        this.edgesCut = true;
        return;
      }
    }
  }

  // A first round asks for the window alone, every later one for what is newer.
  async change() {
    let changed = false;
    if (!this.loaded) this.next = { since: 0, after: this.first - 1, began: null };
    for (let turn = 0; turn < 12; turn += 1) {
      const page = await this.ask("changes", { ...this.next, limit: PAGE });
      if (!page.items) return changed;
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

  // Everything behind a node, itself left out.
  behind(ordinal) {
    const after = new Map();
    for (const { source, target } of this.edges) {
      if (!after.has(source)) after.set(source, []);
      after.get(source).push(target);
    }
    const seen = new Set(), stack = [ordinal];
    while (stack.length) {
      for (const next of after.get(stack.pop()) ?? []) {
        if (!seen.has(next)) {
          seen.add(next);
          stack.push(next);
        }
      }
    }
    return seen;
  }
}
