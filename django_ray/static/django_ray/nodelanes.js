// The timeline by nodes: waited at Ray, then ran; rows by start, so many at a time.

import { Axis } from "./axis.js";
import { button, byId, el, nodeButton, say, show, svg } from "./dom.js";
import { hasEnded } from "./head.js";
import { nodeMark, setState, stateOf } from "./marks.js";
import { NONE, count, duration, middle } from "./words.js";

const ROWS = 100;

export class NodeLanes {
  constructor(view) {
    this.view = view;
    this.first = 0;
    this.order = [];
    this.rows = new Map();
    this.earlier = button("Earlier rows", null, () => this.turn(-ROWS));
    this.later = button("Later rows", null, () => this.turn(ROWS));
  }

  turn(by) {
    this.first = Math.max(0, Math.min(this.first + by, this.order.length - 1));
    this.build();
    this.update();
  }

  // The order is decided when the view is opened; who starts later comes at its end.
  open() {
    this.order = [];
    this.first = 0;
    this.built = false;
  }

  render() {
    const { store } = this.view;
    // Another window of the graph holds other nodes.
    if (store.version !== this.version) this.open();
    this.version = store.version;
    if (!store.loaded) {
      byId("timeline-body").replaceChildren(el("p", { class: "nothing" }, "The nodes are being read."));
      return;
    }
    const known = new Set(this.order);
    const begun = [...store.nodes.values()].filter((node) => node.detail.started_ms && !known.has(node.ordinal));
    begun.sort((a, b) => a.detail.started_ms - b.detail.started_ms || a.ordinal - b.ordinal);
    const short = this.order.length < this.first + ROWS;
    this.order.push(...begun.map((node) => node.ordinal));
    if (!this.built || (begun.length && short)) this.build();
    this.update();
  }

  shown() {
    return this.order.slice(this.first, this.first + ROWS).map((ordinal) => this.view.store.nodes.get(ordinal)).filter(Boolean);
  }

  build() {
    this.built = true;
    this.rows.clear();
    this.axis = svg("svg", { "aria-hidden": "true" });
    this.note = el("span");
    const lanes = this.shown().map((node) => this.lane(node));
    byId("timeline-body").replaceChildren(
      el("div", { class: "lanes" }, el("div", { class: "axis" }, el("span", {}, "Node"), el("span", {}, "Host"),
        el("span", { class: "number" }, "Try"), this.axis), lanes),
      el("div", { class: "panel-foot" }, this.note, el("span", {}, "hollow: waited at Ray; solid: ran; a diamond: failed"),
        el("span", { class: "grow" }), this.earlier, this.later));
  }

  lane(node) {
    const row = { state: stateOf(nodeMark(node.state)), host: el("span"), tried: el("span", { class: "number" }), time: svg("svg", { role: "img" }) };
    this.rows.set(node.ordinal, row);
    const id = nodeButton(node.id, this.view.open);
    id.textContent = middle(node.id, 30);
    return el("div", { class: "lane" }, el("span", {}, row.state, " ", id), row.host, row.tried, row.time);
  }

  range(nodes, now) {
    const from = Math.min(...nodes.map(({ detail }) => Math.min(detail.submitted_ms ?? Infinity, detail.started_ms)));
    const to = Math.max(...nodes.map((node) => this.end(node, now)));
    return [from, to];
  }

  end(node, now) {
    return node.detail.ended_ms ?? (node.state === "RUNNING" ? now : node.detail.started_ms);
  }

  update() {
    const nodes = this.shown();
    const { store, body } = this.view;
    const last = this.first + nodes.length;
    const cut = body.retained_nodes > store.nodes.size ? ` of the ${count(store.nodes.size)} in the graph's window` : "";
    say(byId("timeline-said"), `${count(this.order.length)} rows by start${cut}`);
    if (!nodes.length) return void byId("timeline-body").replaceChildren(el("p", { class: "nothing" }, "No kept node has started."));
    const over = hasEnded(body);
    const now = over ? (body.ended_at_ms ?? this.view.now()) : this.view.now();
    const runs = !over && nodes.some((node) => node.state === "RUNNING");
    const axis = new Axis(...this.range(nodes, now), runs);
    axis.measure(this.axis.getBoundingClientRect().width);
    this.axis.replaceChildren(...axis.grid(), ...axis.labels(this.view.now()));
    for (const node of nodes) this.set(node, axis, now);
    say(this.note, `Rows ${count(this.first + 1)} to ${count(last)}`);
    show(this.earlier, this.order.length > ROWS);
    show(this.later, this.order.length > ROWS);
    this.earlier.disabled = this.first === 0;
    this.later.disabled = last >= this.order.length;
    return undefined;
  }

  set(node, axis, now) {
    const row = this.rows.get(node.ordinal);
    if (!row) return;
    const { detail, state } = node;
    setState(row.state, nodeMark(state));
    say(row.host, detail.host ?? NONE);
    say(row.tried, `try ${count(detail.try ?? 1)}`);
    const end = this.end(node, now);
    const parts = axis.grid();
    if (detail.submitted_ms && detail.submitted_ms < detail.started_ms) {
      parts.push(axis.rect(detail.submitted_ms, detail.started_ms, 12, 4, "waited"));
    }
    parts.push(axis.rect(detail.started_ms, end, 8, 12, `ran-${state.toLowerCase()}`));
    const at = `${Math.min(axis.at(end), 94).toFixed(3)}%`;
    if (state === "FAILED") {
      parts.push(svg("svg", { x: `${axis.at(end).toFixed(3)}%`, y: 7, width: 14, height: 14, overflow: "visible" },
        svg("use", { href: "#s-failed", class: "tone-failed", x: -7, width: 14, height: 14 })));
    }
    const said = duration(end - detail.started_ms);
    parts.push(svg("text", { x: at, dx: state === "FAILED" ? 11 : 6, y: 18 }, said));
    row.time.replaceChildren(...parts);
    row.time.setAttribute("aria-label", `${nodeMark(state).word}, ran ${said}`);
  }
}
