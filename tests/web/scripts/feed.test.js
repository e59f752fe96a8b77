import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";

import { Feed } from "./feed.js";

globalThis.document = { hidden: false, addEventListener: () => {} };

let now, timers;
Date.now = () => now;
globalThis.setTimeout = (act, ms) => timers.push({ act, at: now + ms });
globalThis.clearTimeout = (number) => delete timers[number - 1];

beforeEach(() => {
  now = 0;
  timers = [];
});

function feedOf(answers, more) {
  const heard = [];
  const feed = new Feed({
    ask: async () => {
      const answer = answers.shift() ?? { status: 503, wait: 0 };
      if (answer instanceof Error) throw answer;
      return answer;
    },
    hear: (body) => heard.push(body), gone: () => heard.push("gone"), turn: () => {},
    isFinal: () => false, stream: null, ...more,
  });
  return { feed, heard };
}

const body = (revision) => ({ status: 200, etag: String(revision), body: { changed_at_ms: revision } });

// Lets an answer be heard, then the clock run to the next question.
async function pass(ms) {
  await new Promise(setImmediate);
  now += ms;
  timers.forEach(({ act, at }, place) => {
    if (at > now) return;
    delete timers[place];
    act();
  });
  await new Promise(setImmediate);
}

test("when the server was asked and when it answered are two times", async () => {
  const { feed } = feedOf([body(1), new Error("no answer"), new Error("no answer")]);
  feed.start();
  await pass(0);
  await pass(1200);
  await pass(1200);
  assert.equal(feed.answeredAt, 0);
  assert.equal(feed.askedAt, 2400);
  assert.equal(feed.failures, 2);
});

test("an unchanged answer is no silence", async () => {
  const { feed, heard } = feedOf([body(1), { status: 304 }]);
  feed.start();
  await pass(0);
  await pass(1200);
  assert.equal(feed.answeredAt, 1200);
  assert.equal(heard.length, 1);
});

test("it is asked until the last word has been heard", async () => {
  const made = feedOf([body(1), body(2), body(3)], { isFinal: () => made.heard.at(-1).changed_at_ms === 2 });
  made.feed.start();
  await pass(0);
  assert.equal(made.feed.final, false);
  await pass(1200);
  assert.equal(made.feed.final, true);
  await pass(60000);
  assert.equal(made.heard.length, 2);
});

test("when nothing may be seen any more nothing is asked any more", async () => {
  const { feed, heard } = feedOf([{ status: 404 }, body(1)]);
  feed.start();
  await pass(0);
  await pass(60000);
  assert.deepEqual(heard, ["gone"]);
});
