// The timeline: how many ran at once, and when each stage ran. A span is no share.

import { Axis } from "./axis.js";
import { byId, el, say, segmented, show, svg } from "./dom.js";
import { hasEnded } from "./head.js";
import { ended, newBar, nodeMark, setBar, setState, stageState, stateOf, total } from "./marks.js";
import { NodeLanes } from "./nodelanes.js";
import { isFinished, outcome } from "./stages.js";
import { NONE, clock, count, duration, moment, nodes, plural } from "./words.js";

const THIN = 6;

export class Timeline {
  constructor(view) {
    this.view = view;
    this.unfolded = false;
    this.rows = new Map();
    this.shown = "";
    this.fold = el("button", { type: "button", class: "button", "aria-pressed": "true",
      onclick: () => this.toggle() }, "Fold finished");
    this.kind = "stages";
    this.lanes = new NodeLanes(view);
    this.choices = el("span", { class: "segmented", role: "group", "aria-label": "Timeline by" });
    byId("timeline-title").after(this.choices);
    byId("timeline-tools").append(this.fold);
    this.choose("stages");
  }

  choose(kind) {
    this.kind = kind;
    this.shown = "";
    segmented(this.choices, [["stages", "Stages"], ["nodes", "Nodes"]], kind, (one) => this.choose(one));
    if (kind === "nodes") {
      this.lanes.open();
      this.view.follow();
    }
    if (this.view.stages) this.render();
  }

  toggle() {
    this.unfolded = !this.unfolded;
    this.fold.setAttribute("aria-pressed", String(!this.unfolded));
    this.shown = "";
    this.render();
  }

  render() {
    const { stages, body } = this.view;
    const started = (stages?.items ?? []).filter((stage) => stage.first_start_ms !== null);
    show(byId("timeline"), started.length > 0);
    if (!started.length) return;
    const from = Math.min(body.started_at_ms ?? Infinity, ...started.map((stage) => stage.first_start_ms));
    this.active = !hasEnded(body);
    show(this.fold, this.active && this.kind === "stages");
    if (this.kind === "nodes") return void this.lanes.render();
    const last = body.execution.finished_at ? moment(body.execution.finished_at) : 0;
    this.to = this.active ? this.view.now()
      : Math.max(body.ended_at_ms ?? last, ...started.map((stage) => stage.last_end_ms ?? 0));
    this.scale = new Axis(from, this.to, this.active);
    const [listed, folds] = this.sorted(stages.items);
    say(byId("timeline-said"), `${body.discovered_nodes === 1 ? "" : "all "}${nodes(body.discovered_nodes)}, by stage`);
    const key = `${listed.map((stage) => stage.index)} ${folds.length}`;
    if (key !== this.shown) this.build(listed, folds);
    this.shown = key;
    folds.forEach((text, at) => say(this.folds[at], text));
    this.update(listed);
  }

  // A stage with a failure never folds.
  sorted(items) {
    const ordered = [...items].sort((a, b) => (a.first_start_ms ?? Infinity) - (b.first_start_ms ?? Infinity) || a.index - b.index);
    if (!this.active || this.unfolded) return [ordered, []];
    const done = ordered.filter(isFinished);
    const ahead = ordered.filter((stage) => stage.first_start_ms === null && !isFinished(stage) && !stage.node_counts.FAILED);
    const listed = ordered.filter((stage) => !done.includes(stage) && !ahead.includes(stage));
    const folds = [];
    if (done.length) folds.push(`${plural(done.length, "stage", "stages")} finished, ${outcome(done)}`);
    if (ahead.length) {
      const sum = ahead.reduce((all, stage) => all + total(stage.node_counts), 0);
      folds.push(`${plural(ahead.length, "stage", "stages")} not started, ${nodes(sum)}`);
    }
    return [listed, folds];
  }

  build(listed, folds) {
    this.rows.clear();
    this.folds = folds.map(() => el("span"));
    this.axis = svg("svg", { "aria-hidden": "true" });
    this.strip = svg("svg", { role: "img", viewBox: "0 0 1000 40", preserveAspectRatio: "none" });
    this.peak = el("span", { class: "number" });
    this.length = el("span");
    const lanes = listed.map((stage) => this.lane(stage));
    this.stripRow = el("div", { class: "axis strip" }, el("span", {}, "Running at once"), this.length, this.peak, this.strip);
    byId("timeline-body").replaceChildren(this.stripRow, el("div", { class: "lanes" },
      el("div", { class: "axis" }, el("span", {}, "Stage"), el("span", {}, "Ended"),
        el("span", { class: "number" }, "p50 · p95"), this.axis),
      this.folds.map((text) => el("div", { class: "lane folded" }, text)), lanes));
  }

  lane(stage) {
    const name = this.view.names.get(stage.index);
    const row = {
      state: stateOf(nodeMark(stageState(stage.node_counts))), bar: newBar("bar-row"),
      done: el("span"), usual: el("span", { class: "number" }), time: svg("svg", { role: "img" }),
    };
    this.rows.set(stage.index, row);
    return el("div", { class: "lane" },
      el("span", { title: name.label }, row.state, " ", name.name, name.tag ? el("small", { class: "quiet" }, ` ${name.tag}`) : null),
      el("span", { class: "ended-in" }, row.bar, row.done), row.usual, row.time);
  }

  update(listed) {
    this.ticks();
    this.series();
    for (const stage of listed) {
      const row = this.rows.get(stage.index);
      const counts = stage.node_counts;
      setState(row.state, nodeMark(stageState(counts)));
      setBar(row.bar, counts, total(counts));
      say(row.done, `${count(ended(counts))} of ${count(total(counts))}`);
      say(row.usual, stage.p50_ms === null ? NONE : `${duration(stage.p50_ms)} · ${duration(stage.p95_ms)}`);
      row.time.replaceChildren(...this.scale.grid(), ...this.spans(stage));
      row.time.setAttribute("aria-label", this.words(stage));
    }
  }

  words(stage) {
    const { first_start_ms: from, last_end_ms: to } = stage;
    if (from === null) return "not started";
    const now = this.view.now();
    const until = this.isOpen(stage) ? "still running" : to === null ? "no end reported" : `to ${clock(to, now)}`;
    return `from ${clock(from, now)}, ${until}`;
  }

  isOpen(stage) {
    const counts = stage.node_counts;
    return this.active && counts.RUNNING > 0;
  }

  // Up to six nodes: a thin lane each, where their times are known; above: one span.
  spans(stage) {
    if (stage.first_start_ms === null) return [];
    const whole = total(stage.node_counts);
    const { store } = this.view;
    const own = store.loaded && whole <= THIN && stage.kept === whole
      ? [...store.nodes.values()].filter((node) => node.stageIndex === stage.index && node.detail.started_ms) : [];
    if (own.length) {
      const high = 20 / own.length;
      return own.map((node, at) => {
        const end = node.detail.ended_ms ?? (node.state === "RUNNING" && this.active ? this.to : node.detail.started_ms);
        return this.scale.rect(node.detail.started_ms, end, 4 + at * high, Math.max(high - 1.5, 2), `ran-${node.state.toLowerCase()}`);
      });
    }
    const state = stageState(stage.node_counts);
    const end = this.isOpen(stage) ? this.to : (stage.last_end_ms ?? this.to);
    return [this.scale.rect(stage.first_start_ms, end, 8, 12, `span-${state.toLowerCase()}`)];
  }

  ticks() {
    this.scale.measure(this.axis.getBoundingClientRect().width);
    this.axis.replaceChildren(...this.scale.grid(), ...this.scale.labels(this.view.now()));
  }

  series() {
    const { running } = this.view.stages;
    show(this.stripRow, Boolean(running?.buckets.length));
    if (!running?.buckets.length) return;
    say(this.peak, `peak ${count(running.peak)}`);
    say(this.length, `0:00 to ${duration(this.to - this.scale.from)}`);
    const x = (ms) => Math.min(Math.max(10 * this.scale.at(ms), 0), 1000);
    const y = (value) => 38 - (34 * value) / Math.max(running.peak, 1);
    let path = `M${x(running.from_ms)} 38`;
    running.buckets.forEach((value, at) => {
      const begin = running.from_ms + at * running.width_ms;
      const end = Math.min(begin + running.width_ms, this.to);
      path += `L${x(begin).toFixed(1)} ${y(value).toFixed(1)}L${x(end).toFixed(1)} ${y(value).toFixed(1)}`;
    });
    const last = Math.min(running.from_ms + running.buckets.length * running.width_ms, this.to);
    this.strip.replaceChildren(svg("path", { class: "series", "vector-effect": "non-scaling-stroke", d: `${path}L${x(last)} 38z` }));
    this.strip.setAttribute("aria-label", `Nodes running at once, at most ${count(running.peak)}`);
  }
}
