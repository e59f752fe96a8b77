// The graph's panel: cards of stages, marks of nodes, or the list that says the same.

import * as cards from "./cards.js";
import { button, byId, el, say, segmented, show } from "./dom.js";
import { legend } from "./marks.js";
import { NodeGraph } from "./nodegraph.js";
import { summary } from "./stages.js";
import { WINDOW } from "./store.js";
import { count, nodes } from "./words.js";

const OPENS_ON_NODES = 500, LEGIBLE = 0.9;

export class GraphPanel {
  constructor(view, link, nodes) {
    this.view = view;
    this.link = link;
    this.nodes = nodes;
    this.canvas = byId("canvas");
    this.graph = new NodeGraph({ ...delegated(view), sayGraph: (text) => this.say(text) }, this.canvas);
    this.said = el("span", { class: "quiet", role: "status" });
    byId("graph-foot").append(legend(), el("span", { class: "grow" }), this.said);
    this.earlier = button("Earlier nodes", null, () => this.shift(-WINDOW));
    this.later = button("Later nodes", null, () => this.shift(WINDOW));
    this.zooms = [
      button("Zoom", "+", () => this.zoom(1.25), { "aria-label": "Zoom in" }),
      button("", "\u2212", () => this.zoom(0.8), { "aria-label": "Zoom out" }),
      button("Fit", "0", () => this.fit()),
    ];
    byId("graph-tools").append(this.earlier, this.later, ...this.zooms);
    this.canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey || this.kind !== "nodes") return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 1.1 : 0.9);
    }, { passive: false });
    this.kind = null;
    this.drawn = "";
  }

  start() {
    if (this.kind) return;
    const { body } = this.view;
    const narrow = matchMedia("(max-width: 720px)").matches;
    const usual = narrow ? "list" : body.discovered_nodes <= OPENS_ON_NODES ? "nodes" : "stages";
    const asked = this.link.get("view");
    this.choose(["stages", "nodes", "list"].includes(asked) ? asked : usual, true);
  }

  choose(kind, silently) {
    this.kind = kind;
    this.drawn = "";
    if (!silently) this.link.set("view", kind);
    const views = byId("graph-views");
    segmented(views, [["stages", "Stages"], ["nodes", "Nodes"], ["list", "List"]], kind, (one) => this.choose(one));
    show(views, true);
    say(byId("graph-title"), "Graph");
    show(this.canvas, kind !== "list");
    show(byId("stage-list"), kind === "list");
    show(byId("graph-foot"), kind !== "list");
    show(byId("graph-tools"), kind === "nodes");
    if (kind === "nodes") this.graph.forget();
    this.canvas.replaceChildren();
    this.render();
    if (kind === "nodes" && !silently) this.view.follow();
  }

  toggle() {
    this.choose(this.kind === "nodes" ? "stages" : "nodes");
  }

  zoom(by) {
    this.graph.scale(this.graph.zoom * by);
  }

  fit() {
    this.graph.fit(0);
  }

  shift(by) {
    const { store, body } = this.view;
    const first = Math.min(Math.max(store.first + by, 0), Math.max(body.retained_nodes - 1, 0));
    store.shift(first - (first % WINDOW));
    this.graph.forget();
    this.view.follow();
  }

  render() {
    const { stages, store, body } = this.view;
    if (!stages || !this.kind) return;
    if (this.kind === "list") return void say(byId("stages-said"), summary(stages.items));
    if (this.kind === "stages") return void this.stages(stages);
    const cut = body.retained_nodes > WINDOW;
    show(this.earlier, cut);
    show(this.later, cut);
    this.earlier.disabled = store.first === 0;
    this.later.disabled = store.last >= body.retained_nodes;
    if (!store.loaded) {
      if (!this.canvas.children.length) this.canvas.append(el("p", { class: "nothing" }, "The nodes are being read."));
      return;
    }
    say(byId("stages-said"), this.window());
    const fresh = this.graph.size < 0;
    this.graph.draw(store);
    if (fresh) this.graph.fit(LEGIBLE);
  }

  stages(stages) {
    const key = JSON.stringify([stages.items, this.nodes.filter.stage, this.canvas.clientWidth]);
    if (key === this.drawn) return;
    this.drawn = key;
    say(byId("stages-said"), summary(stages.items));
    const chosen = this.nodes.filter.stage === null ? null : Number(this.nodes.filter.stage);
    const edges = cards.draw(this.view, this.canvas, chosen);
    this.say(`${edges} A card shows its nodes below.`.trim());
  }

  window() {
    const { store, body } = this.view;
    const { retained_nodes: kept, discovered_nodes: all } = body;
    const last = Math.min(store.last, kept);
    const rest = all > kept ? `; ${count(all)} in the run` : "";
    if (kept <= WINDOW) return `${nodes(kept)}, left to right by longest path${rest}`;
    return `Nodes ${count(store.first + 1)} to ${count(last)} of ${count(kept)} kept${rest}`;
  }

  say(text) {
    say(this.said, text);
  }

  select(id) {
    this.graph.choose(id);
  }

  async reveal(id) {
    const { store } = this.view;
    if (this.kind !== "nodes") this.choose("nodes");
    if (!store.byId(id)) {
      const found = await this.view.ordinalOf(id);
      if (found === null) return;
      store.shift(found - (found % WINDOW));
      await this.view.follow();
    }
    this.graph.choose(id);
    byId("graph").scrollIntoView({ block: "start" });
    this.graph.reveal();
  }
}

// What the node graph may know of the page.
function delegated(view) {
  return {
    get store() { return view.store; },
    open: (id) => view.open(id),
    labelNames: () => new Map([...view.names.values()].map((name) => [name.label, name])),
  };
}
