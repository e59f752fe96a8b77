// The node graph: columns by rank, a block a stage, a mark a node in order of registration.
// Places follow from (rank, stage, ordinal) alone, so growth only appends.

import { svg } from "./dom.js";
import { reduced } from "./edges.js";
import { nodeMark } from "./marks.js";
import { count, middle } from "./words.js";

const TOP = 32, LEFT = 14, GAP_X = 30, NAME = 14, GAP_Y = 2, ROWS = 12, LEAST = 108, BEHIND = 600;
const DONE = new Set(["SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"]);

function pitchOf(number) {
  if (number <= 24) return [15, 6];
  return number <= 96 ? [11, Math.min(10, Math.ceil(number / 3))] : [8, Math.max(12, Math.ceil(number / 40))];
}

function disc(x, y, r) {
  return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;
}

// Below 12 px a mark is reduced and keeps its difference.
const SHAPES = {
  SUCCEEDED: (x, y, r) => disc(x, y, r),
  FAILED: (x, y, r) => `M${x} ${y - 1.75 * r}L${x + 1.75 * r} ${y}L${x} ${y + 1.75 * r}L${x - 1.75 * r} ${y}z`,
  CANCELLED: (x, y, r) => `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
  SKIPPED: (x, y, r) => disc(x, y, 0.75 * r),
  RUNNING: (x, y, r) => `M${x - r} ${y - 1.2 * r}L${x + 1.3 * r} ${y}L${x - r} ${y + 1.2 * r}z`,
  SUBMITTED: (x, y, r) => disc(x, y, 0.9 * r),
  PENDING: (x, y, r) => disc(x, y, 0.8 * r),
};

export class NodeGraph {
  constructor(view, canvas) {
    this.view = view;
    this.canvas = canvas;
    this.zoom = 1;
    this.chosen = null;
    this.forget();
  }

  forget() {
    this.size = -1;
    this.svg = null;
    this.marks = new Map();
  }

  // Lays out anew only when the graph has grown; else only the marks that changed.
  draw(store) {
    if (store.nodes.size !== this.size || !this.svg || !this.canvas.contains(this.svg)) this.lay(store);
    for (const node of store.nodes.values()) this.set(node);
    this.sayHeads(store);
    this.overlay(store);
  }

  blocksOf(store) {
    const ranks = new Map();
    for (const node of store.nodes.values()) {
      if (!ranks.has(node.rank)) ranks.set(node.rank, new Map());
      const blocks = ranks.get(node.rank);
      if (!blocks.has(node.stage)) blocks.set(node.stage, []);
      blocks.get(node.stage).push(node.ordinal);
    }
    return [...ranks].sort(([a], [b]) => a - b);
  }

  lay(store) {
    this.forget();
    this.size = store.nodes.size;
    this.places = new Map();
    this.blocks = [];
    this.heads = [];
    let x = LEFT, height = 0;
    for (const [rank, stages] of this.blocksOf(store)) {
      const from = x, groups = [...stages];
      for (let at = 0; at < groups.length; at += ROWS) {
        const [width, low] = this.column(groups.slice(at, at + ROWS), rank, x);
        height = Math.max(height, low);
        x += width + GAP_X;
      }
      this.heads.push({ rank, x: from, width: x - GAP_X - from, ordinals: groups.flatMap(([, all]) => all) });
    }
    this.width = x - GAP_X + LEFT;
    this.height = height + 12;
    this.paint(store);
  }

  column(groups, rank, x) {
    let y = TOP, width = LEAST;
    for (const [stage, ordinals] of groups) {
      const [pitch, across] = pitchOf(ordinals.length);
      ordinals.forEach((ordinal, at) => this.places.set(ordinal, {
        x: x + pitch * (at % across) + pitch / 2, y: y + NAME + pitch * Math.floor(at / across) + pitch / 2,
        pitch, block: this.blocks.length,
      }));
      const high = NAME + pitch * Math.ceil(ordinals.length / across);
      const wide = pitch * Math.min(across, ordinals.length);
      width = Math.max(width, wide);
      this.blocks.push({ stage, rank, x, y, width: wide, height: high, ordinals });
      y += high + GAP_Y;
    }
    return [width, y];
  }

  blockEdges(store) {
    const pairs = new Map();
    for (const { source, target } of store.edges) {
      const [a, b] = [this.places.get(source)?.block, this.places.get(target)?.block];
      if (a !== undefined && b !== undefined && a !== b) pairs.set(`${a} ${b}`, { source: a, target: b });
    }
    const all = [...pairs.values()];
    this.allEdges = all.length;
    const drawn = this.blocks.length > ROWS ? reduced(all) : all;
    this.drawnEdges = drawn.length;
    return drawn;
  }

  paint(store) {
    const edges = this.blockEdges(store).map(({ source, target }) => {
      const [a, b] = [this.blocks[source], this.blocks[target]];
      return svg("path", { class: "edge-faint", d: curve(a.x + Math.max(a.width, 60), a.y + NAME + 6, b.x - 4, b.y + NAME + 6) });
    });
    this.names = this.view.labelNames();
    this.labels = this.blocks.map((block) => this.label(block));
    const failedLast = svg("g", {});
    const marks = svg("g", {});
    for (const ordinal of this.places.keys()) {
      const mark = this.newMark(ordinal);
      marks.append(mark.element);
      this.marks.set(ordinal, mark);
    }
    this.failed = failedLast;
    this.over = svg("g", {});
    this.headTexts = this.heads.map((head) => this.head(head));
    this.svg = svg("svg", {
      viewBox: `0 0 ${this.width} ${this.height}`, role: "group", tabindex: 0,
      "aria-label": "Nodes by rank. Arrow keys move along edges and within a block, Enter opens.",
    }, edges, this.headTexts.map(({ group }) => group), this.labels, marks, failedLast, this.over);
    this.svg.addEventListener("click", (event) => this.click(event));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.scale(this.zoom);
    this.canvas.replaceChildren(this.svg);
  }

  label(block) {
    const name = this.names.get(block.stage) ?? { name: block.stage, label: block.stage, tag: "" };
    return svg("text", { x: block.x, y: block.y + 10 }, svg("title", {}, name.label), middle(name.name, 16),
      name.tag ? svg("tspan", { class: "t-tag", x: block.x + block.width + 4, y: block.y + NAME + 11 }, middle(name.tag, Math.max(6, Math.floor((LEAST - block.width) / 6)))) : null);
  }

  head({ rank, x, width }) {
    const said = svg("text", { x: x + width, y: 14, "text-anchor": "end", class: "t-low" });
    const group = svg("g", {}, svg("text", { x, y: 14, class: "t-low" }, rank ? String(rank) : "rank 0"), said,
      svg("path", { class: "rule", d: `M${x} 22h${width}` }));
    return { group, said };
  }

  newMark(ordinal) {
    const { x, y, pitch } = this.places.get(ordinal);
    const full = pitch === 15;
    const element = full
      ? svg("use", { x: x - 6, y: y - 6, width: 12, height: 12, "data-o": ordinal, class: "m-mark" })
      : svg("path", { "data-o": ordinal });
    return { element, full, state: null };
  }

  set(node) {
    const mark = this.marks.get(node.ordinal);
    if (!mark || mark.state === node.state) return;
    mark.state = node.state;
    const { x, y, pitch } = this.places.get(node.ordinal);
    const { symbol, tone } = nodeMark(node.state);
    if (mark.full) {
      mark.element.setAttribute("href", `#s-${symbol}`);
      mark.element.setAttribute("class", `m-mark tone-${tone}`);
    } else {
      mark.element.setAttribute("d", SHAPES[node.state](x, y, pitch * 0.39));
      mark.element.setAttribute("class", `m-mark m-${symbol}`);
    }
    // Failed marks are painted last: no neighbour covers one.
    if (node.state === "FAILED") this.failed.append(mark.element);
  }

  sayHeads(store) {
    const done = (ordinal) => DONE.has(store.nodes.get(ordinal)?.state);
    this.heads.forEach((head, at) => {
      const { ordinals } = head;
      this.headTexts[at].said.textContent = `${count(ordinals.filter(done).length)} of ${count(ordinals.length)}`;
    });
    this.blocks.forEach((block, at) => {
      const states = block.ordinals.map((ordinal) => store.nodes.get(ordinal)?.state);
      const hot = states.some((state) => state === "RUNNING" || state === "FAILED");
      this.labels[at].setAttribute("class", hot ? "t-hot" : states.every((state) => DONE.has(state)) ? "t-done" : "");
    });
  }

  choose(id) {
    this.chosen = id;
    if (this.svg) this.overlay(this.view.store);
  }

  // The chosen node's own edges: direct ones strong, those further behind faint.
  overlay(store) {
    const node = this.chosen === null ? null : store.byId(this.chosen);
    this.view.sayGraph(node ? this.sentence(store, node) : this.edgesSaid(store));
    const parts = [];
    if (node && this.places.has(node.ordinal)) {
      const behind = store.behind(node.ordinal);
      const own = store.edges.filter((edge) => edge.source === node.ordinal || edge.target === node.ordinal);
      const far = store.edges.filter((edge) => behind.has(edge.source)).slice(0, BEHIND);
      parts.push(...far.map((edge) => this.edge(edge, "edge-behind")), ...own.map((edge) => this.edge(edge, "edge-own")));
      for (const { source, target } of own) parts.push(this.ring(source === node.ordinal ? target : source, "ring"));
      parts.push(this.ring(node.ordinal, "ring ring-chosen"), this.box(node));
    }
    this.over.replaceChildren(...parts.filter(Boolean));
  }

  sentence(store, node) {
    const behind = store.behind(node.ordinal).size;
    const own = `${node.id}: needs ${count(store.needs(node.ordinal).length)}, ${count(behind)} behind it.`;
    return store.edgesCut ? `${own} Not all edges are drawn.` : own;
  }

  edgesSaid(store) {
    const cut = store.edgesCut ? ` Only the first ${count(store.edges.length)} edges are read.` : "";
    if (this.drawnEdges === this.allEdges) return `Select a node to see its own edges.${cut}`;
    return `${count(this.drawnEdges)} of ${count(this.allEdges)} edges between blocks drawn; the others follow from these. Select a node to see its own.${cut}`;
  }

  edge({ source, target }, kind) {
    const [a, b] = [this.places.get(source), this.places.get(target)];
    return a && b ? svg("path", { class: kind, d: curve(a.x, a.y, b.x, b.y) }) : null;
  }

  ring(ordinal, kind) {
    const at = this.places.get(ordinal);
    return at ? svg("circle", { class: kind, cx: at.x, cy: at.y, r: at.pitch / 2 + 1 }) : null;
  }

  box(node) {
    const { x, y } = this.places.get(node.ordinal);
    const width = Math.min(Math.max(node.id.length, 18), 40) * 6.6 + 20;
    const left = Math.max(Math.min(x + 14, this.width - width - 8), 4);
    const high = Math.min(Math.max(y - 14, 4), this.height - 46);
    const said = `${nodeMark(node.state).word}, try ${count(node.detail.try ?? 1)}`;
    return svg("g", { transform: `translate(${left} ${high})` },
      svg("rect", { class: "label-box", width, height: 40, rx: 5 }),
      svg("text", { x: 10, y: 17, class: "t-hot" }, middle(node.id, 40)), svg("text", { x: 10, y: 32, class: "t-low" }, said));
  }

  click(event) {
    const ordinal = event.target.dataset?.o;
    if (ordinal === undefined) return;
    const node = this.view.store.nodes.get(Number(ordinal));
    if (node) this.view.open(node.id);
  }

  key(event) {
    const { store } = this.view;
    const node = this.chosen === null ? null : store.byId(this.chosen);
    if (event.key === "Enter" && node) return void this.view.open(node.id);
    const step = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: "needs", ArrowRight: "feeds" }[event.key];
    if (step === undefined || event.shiftKey) return undefined;
    event.preventDefault();
    const next = node ? this.neighbour(store, node, step) : this.blocks[0]?.ordinals[0];
    if (next !== undefined && store.nodes.has(next)) this.choose(store.nodes.get(next).id);
    return undefined;
  }

  neighbour(store, node, step) {
    if (step === "needs" || step === "feeds") return store[step](node.ordinal)[0];
    const { ordinals } = this.blocks[this.places.get(node.ordinal).block];
    return ordinals[ordinals.indexOf(node.ordinal) + step];
  }

  // It never zooms or moves by itself: only a key, a button or a wheel does.
  scale(zoom) {
    this.zoom = Math.min(Math.max(zoom, 0.3), 4);
    this.svg?.setAttribute("width", Math.round(this.width * this.zoom));
    this.svg?.setAttribute("height", Math.round(this.height * this.zoom));
  }

  fit(least) {
    this.scale(Math.max(Math.min((this.canvas.clientWidth - 2) / this.width, 1), least));
  }

  reveal() {
    this.over?.querySelector(".ring-chosen")?.scrollIntoView({ block: "nearest", inline: "center" });
  }
}

function curve(x1, y1, x2, y2) {
  const bend = Math.max(Math.abs(x2 - x1) / 2, 14);
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}
