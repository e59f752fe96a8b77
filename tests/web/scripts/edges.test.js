import assert from "node:assert/strict";
import test from "node:test";

import { behind, reduced } from "./edges.js";

const edges = (...pairs) => pairs.map(([source, target]) => ({ source, target }));
const words = (found) => found.map(({ source, target }) => `${source}${target}`).sort().join(" ");

test("an edge that follows from others is left out", () => {
  assert.equal(words(reduced(edges("ab", "bc", "ac", "cd", "ad", "bd"))), "ab bc cd");
});

test("no arrow vanishes where stages form a cycle", () => {
  const cycle = edges("ab", "bc", "ca", "ad", "bd");
  assert.equal(words(reduced(cycle)), words(cycle));
});

test("what lies behind a cycle is still reached, and nothing twice", () => {
  const found = reduced(edges("sa", "ab", "ba", "bt", "st", "tu", "su"));
  assert.equal(words(found), "ab ba bt sa tu");
});

test("a reduced graph leads wherever the whole one did", () => {
  let seed = 7;
  const random = (most) => (seed = (seed * 48271) % 2147483647) % most;
  for (let round = 0; round < 200; round += 1) {
    const all = new Map();
    for (let at = 0; at < 14; at += 1) {
      const [source, target] = [random(7), random(7)];
      if (source !== target) all.set(`${source} ${target}`, { source, target });
    }
    const whole = [...all.values()], some = reduced(whole);
    for (let from = 0; from < 7; from += 1) assert.deepEqual(behind(some, from), behind(whole, from));
  }
});
