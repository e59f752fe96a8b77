// A time axis: places in percent, ticks at round times, the line of now.

import { svg } from "./dom.js";
import { clock } from "./words.js";

const STEPS = [
  0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600,
  7200, 14400, 43200, 86400,
];
const LABEL = 90;

export class Axis {
  constructor(from, to, active) {
    this.from = from;
    this.to = to;
    this.active = active;
    this.span = Math.max(to - from, 1) * (active ? 1.04 : 1.01);
  }

  at(ms) {
    return (100 * (ms - this.from)) / this.span;
  }

  rect(from, to, y, height, kind) {
    const x = Math.max(this.at(from), 0);
    const width = Math.max(this.at(to) - x, 0.2);
    return svg("rect", { class: kind, x: `${x.toFixed(3)}%`, width: `${width.toFixed(3)}%`, y, height });
  }

  // At most one label for so many pixels.
  measure(wide) {
    this.wide = wide || 700;
    const most = Math.max(Math.floor(this.wide / LABEL), 1);
    const seconds = STEPS.find((step) => this.span / (1000 * step) <= most) ?? STEPS.at(-1);
    this.fine = seconds < 1;
    const step = 1000 * seconds;
    this.marks = [];
    for (let ms = Math.ceil(this.from / step) * step; ms < this.from + this.span; ms += step) this.marks.push(ms);
  }

  grid() {
    const lines = this.marks.map((ms) => line(this.at(ms), "tick"));
    if (this.active) lines.push(line(this.at(this.to), "now"));
    return lines;
  }

  labels(today) {
    const room = (100 * LABEL) / this.wide;
    const clear = this.active ? this.at(this.to) - room : 100 - room / 2;
    const found = this.marks.filter((ms) => this.at(ms) < clear).map((ms) =>
      svg("text", { x: `${this.at(ms).toFixed(2)}%`, dx: 4, y: 19 }, this.time(ms, today)));
    if (this.active) {
      found.push(svg("text", { class: "now-said", x: `${this.at(this.to)}%`, dx: -4, y: 19, "text-anchor": "end" }, "now"));
    }
    return found;
  }

  time(ms, today) {
    const whole = clock(ms, today);
    return this.fine ? `${whole}.${String(Math.round(ms) % 1000).padStart(3, "0").slice(0, 2)}` : whole;
  }
}

function line(at, kind) {
  return svg("line", { class: kind, x1: `${at.toFixed(3)}%`, x2: `${at.toFixed(3)}%`, y1: 0, y2: "100%" });
}
