// One node beside the page: its error first, then what it said, its tries, needs and feeds.

import { button, byId, el, nodeButton, say } from "./dom.js";
import { chip, nodeMark, stateOf } from "./marks.js";
import { fault, ran } from "./nodes.js";
import { NONE, age, clock, count, duration, number } from "./words.js";

const SHOWN = 8;

export class Drawer {
  constructor(view, link) {
    this.view = view;
    this.link = link;
    this.id = null;
    this.opener = null;
    this.copied = el("span");
    window.addEventListener("popstate", () => {
      const id = new URLSearchParams(location.search).get("node");
      if (id) this.open(id, true);
      else this.close(true);
    });
  }

  async open(id, silently) {
    if (!this.id) this.opener = document.activeElement;
    this.id = id;
    this.drawn = "";
    if (!silently) this.link.push("node", id);
    const drawer = byId("drawer");
    drawer.hidden = false;
    byId("columns").classList.add("with-drawer");
    this.mark();
    await this.refresh();
    byId("drawer-title")?.focus({ preventScroll: true });
  }

  close(silently) {
    if (!this.id) return false;
    this.id = null;
    byId("drawer").hidden = true;
    byId("drawer").replaceChildren();
    byId("columns").classList.remove("with-drawer");
    if (!silently) this.link.push("node", null);
    this.mark();
    this.opener?.focus?.({ preventScroll: true });
    return true;
  }

  mark() {
    for (const row of document.querySelectorAll("tr[data-id]")) {
      row.setAttribute("aria-selected", String(row.dataset.id === this.id));
    }
    this.view.selected(this.id);
  }

  async refresh() {
    const id = this.id;
    if (!id) return;
    try {
      const { status, body } = await this.view.api.get("node", { id });
      if (id !== this.id) return;
      if (status !== 200 || !("found" in body)) return this.problem(body?.title);
      const events = await this.events(body.node);
      const needs = await this.needs(body.node);
      if (id === this.id) this.draw(body, events, needs);
    } catch {
      if (id === this.id && !this.drawn) this.problem("The server does not answer.");
    }
  }

  async events(node) {
    if (!node) return [];
    const { status, body } = await this.view.api.get("events");
    if (status !== 200 || !body.items) return [];
    return body.items.filter((event) => event.ordinal === node.ordinal).reverse();
  }

  // Direct needs: from the window where it holds them, else the edges that end at the node.
  async needs(node) {
    if (!node) return null;
    const { store, api } = this.view;
    if (store.loaded && store.nodes.has(node.ordinal)) {
      return { of: store.needs(node.ordinal), to: store.feeds(node.ordinal), behind: store.behind(node.ordinal).size };
    }
    const { status, body } = await api.get("topology/edges", { start: node.ordinal, limit: 32 });
    if (status !== 200 || !body.items) return null;
    const of = body.items.filter((edge) => edge.target === node.ordinal).map((edge) => edge.source);
    return { of, to: null, behind: 0 };
  }

  problem(title) {
    this.put(this.header(this.id, null), el("section", {}, el("p", {}, title ?? "There is no detail to show.")));
  }

  draw(found, events, needs) {
    const near = [...(needs?.of ?? []), ...(needs?.to ?? [])].map((each) => this.view.store.nodes.get(each)?.state);
    const key = JSON.stringify([found, events, needs, near]);
    if (key === this.drawn) return;
    this.drawn = key;
    const { node } = found;
    if (!node) return this.put(this.header(this.id, null), this.absent(found.counters));
    this.put(this.header(node.id, node), this.error(node), this.progress(node), this.times(node),
      this.edges(node, needs), this.metrics(node), this.preview(node), this.history(events), this.tools());
  }

  // Where the drawer has scrolled to, and the focus in its head, outlive an update.
  put(...parts) {
    const drawer = byId("drawer");
    const { scrollTop } = drawer;
    const focused = drawer.contains(document.activeElement) ? document.activeElement.dataset.what : null;
    drawer.replaceChildren(...parts.filter(Boolean));
    drawer.scrollTop = scrollTop;
    if (focused) drawer.querySelector(`[data-what="${focused}"]`)?.focus({ preventScroll: true });
  }

  header(id, node) {
    const said = node ? this.identity(node) : "";
    return el("header", {},
      el("div", { class: "row" }, node ? chip(nodeMark(node.state)) : null, el("span", { class: "grow" }),
        button("Previous", "k", () => this.view.step(-1), { "data-what": "previous" }),
        button("Next", "j", () => this.view.step(1), { "data-what": "next" }),
        button("Close", "Esc", () => this.close(), { "data-what": "close" })),
      el("h2", { id: "drawer-title", tabindex: "-1", "data-what": "title" }, id),
      el("p", { class: "quiet" }, said));
  }

  identity(node) {
    const stage = this.view.names.get(node.stage)?.label ?? node.stage;
    return `stage ${stage} · ordinal ${count(node.ordinal)} · try ${count(node.detail.try ?? 1)}`;
  }

  absent(counters) {
    const cut = counters.retained_nodes < counters.discovered_nodes;
    const kept = `The first ${count(counters.retained_nodes)} of ${count(counters.discovered_nodes)} are.`;
    return el("section", {}, el("p", {}, cut
      ? `No kept node has this id. It may be counted and not kept. ${kept}`
      : "No node of this run has this id."));
  }

  error(node) {
    if (node.state !== "FAILED") return null;
    const [kind, text] = fault(node.detail);
    return el("section", {}, el("h3", {}, "Error"),
      el("pre", {}, kind ? el("b", {}, `${kind}: `) : null, text),
      el("p", { class: "quiet" }, "Secrets are removed before storing."));
  }

  progress(node) {
    const { current, total: whole, message, reported_ms: at } = node.detail;
    const said = current === undefined ? null : whole === undefined
      ? number(current) : `${number(current)} of ${number(whole)}`;
    const bar = said && whole > 0
      ? el("progress", { max: whole, value: Math.min(current, whole), "aria-label": said }) : null;
    const text = typeof message === "object" ? `message not kept: ${message.omitted}` : message;
    return el("section", {}, el("h3", {}, "Progress at the last report"),
      el("div", { class: "row" }, bar, el("span", {}, said ?? "not reported")),
      text ? el("p", {}, `«${text}»`) : null,
      at ? el("p", { class: "quiet" }, `${clock(at, this.view.now())}, ${age(this.view.now() - at)} ago`) : null);
  }

  times(node) {
    const { detail } = node;
    const now = this.view.now();
    const time = (ms) => (ms ? clock(ms, now) : "not reported");
    const waited = detail.submitted_ms && detail.started_ms
      ? duration(Math.max(detail.started_ms - detail.submitted_ms, 0)) : "not reported";
    const spent = ran(node, now);
    const facts = [
      ["host", detail.host ?? "not reported"], ["started", time(detail.started_ms)],
      ["ended", detail.ended_ms ? time(detail.ended_ms) : node.state === "RUNNING" ? "not yet" : "not reported"],
      ["ran", spent === NONE ? "not reported" : spent], ["waited at Ray", waited],
    ];
    if (detail.attempt !== undefined) facts.push(["Ray's attempt", count(detail.attempt)]);
    return el("section", {}, el("h3", {}, `Try ${count(detail.try ?? 1)}, the latest`), list(facts));
  }

  edges(node, needs) {
    if (!needs) return null;
    const parts = [el("h3", {}, `Needs ${count(needs.of.length)}`), ...this.neighbours(needs.of)];
    if (needs.to) {
      parts.push(el("h3", {}, `Feeds ${count(needs.to.length)}`), ...this.neighbours(needs.to));
      const more = needs.behind - needs.to.length;
      if (more > 0) parts.push(el("p", { class: "quiet" }, `and ${count(more)} more behind them`));
    }
    return el("section", {}, parts);
  }

  neighbours(ordinals) {
    const { store, open } = this.view;
    const shown = ordinals.slice(0, SHOWN).map((ordinal) => {
      const found = store.nodes.get(ordinal);
      if (!found) return el("div", { class: "row" }, `ordinal ${count(ordinal)}`);
      return el("div", { class: "row" }, stateOf(nodeMark(found.state)), nodeButton(found.id, open));
    });
    const rest = ordinals.length - shown.length;
    if (rest > 0) shown.push(el("p", { class: "quiet" }, `and ${count(rest)} more`));
    return shown;
  }

  metrics(node) {
    const { metrics } = node.detail;
    if (!metrics || !Object.keys(metrics).length) return null;
    const facts = Object.entries(metrics).map(([name, value]) =>
      [name, typeof value === "number" ? number(value) : value === null ? "not reported" : String(value)]);
    return el("section", {}, el("h3", {}, "Metrics"), list(facts));
  }

  preview(node) {
    const { preview } = node.detail;
    if (preview === undefined) return null;
    return el("section", {}, el("h3", {}, "Preview of its output"),
      el("code", { class: "preview" }, JSON.stringify(preview, null, 1)));
  }

  history(events) {
    if (!events.length) return null;
    const facts = events.map((event) => [clock(event.at_ms, this.view.now()), [event.kind, event.text].filter(Boolean).join(": ")]);
    return el("section", {}, el("h3", {}, "Events, newest first"), list(facts));
  }

  tools() {
    this.copied = el("span", { class: "quiet", role: "status" });
    return el("section", {}, el("div", { class: "row" },
      button("Show in graph", "g", () => this.view.inGraph(), { "data-what": "graph" }),
      button("Copy node id", "c", () => this.copy(), { "data-what": "copy" }), this.copied));
  }

  async copy() {
    try {
      await navigator.clipboard.writeText(this.id);
      say(this.copied, "copied");
    } catch {
      say(this.copied, "the browser does not let this page copy");
    }
  }
}

function list(facts) {
  return el("dl", {}, facts.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}
