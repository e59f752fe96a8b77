// A run's bar in a page of another's: one summary poll a bar, none while nobody looks.

import { say, setClass, show } from "./dom.js";
import { Api, Feed } from "./feed.js";
import { serverClock } from "./frame.js";
import { completeness, fresh, freshness, hasEnded, howFar, isReported } from "./head.js";
import { executionMark, setBar } from "./marks.js";

const TICK = 1000, LOGIN = 401;

class Progress {
  constructor(place) {
    this.place = place;
    this.api = new Api(null);
    this.now = serverClock(Number(place.dataset.now));
    this.heardAt = this.now();
    this.body = null;
    this.feed = new Feed({
      ask: (etag) => this.ask(etag),
      hear: (body) => this.hear(body),
      gone: () => this.gone(),
      turn: () => this.tick(),
      isFinal: () => this.body !== null && hasEnded(this.body),
      stream: null,
    });
  }

  start() {
    this.timer = setInterval(() => document.hidden || this.tick(), TICK);
    this.feed.start();
  }

  // Whoever is sent to a log-in page may not see the run any more.
  async ask(etag) {
    const answer = await this.api.get(this.place.dataset.source, {}, etag);
    return answer.status === 200 && !answer.body ? { ...answer, status: LOGIN } : answer;
  }

  hear(body) {
    const { attempt: pinned } = this.place.dataset;
    if (pinned && Number(pinned) !== body.execution.attempt) return this.leave(body.execution.attempt);
    this.body = { revision: null, terminal: null, ...body };
    this.heardAt = this.now();
    const far = howFar(this.body);
    const { attempt } = this.body.execution;
    say(this.part("attempt"), `attempt ${attempt}`);
    show(this.part("attempt"), attempt > 1);
    say(this.part("percent"), far.percent ? `${far.percent} %` : "");
    say(this.part("far"), [far.of, far.said].filter(Boolean).join(" "));
    setBar(this.part("bar"), far.counts ?? {}, far.whole);
    say(this.part("counts"), this.part("bar").getAttribute("aria-label"));
    this.line("complete", completeness(this.body, this.body.detail.availability));
  }

  // The next attempt has a page of its own.
  leave(attempt) {
    this.body = null;
    clearInterval(this.timer);
    this.line("fresh", ["", "", "As last seen", `attempt ${attempt} has started`]);
    this.feed.end();
  }

  gone() {
    clearInterval(this.timer);
    this.place.remove();
  }

  tick() {
    if (!this.body) return;
    const now = this.now();
    const stale = freshness(this.body, now) === "Stale";
    const { execution } = this.body;
    const mark = executionMark(execution.state, isReported(this.body), stale);
    const state = this.part("state");
    say(state, mark.word);
    setClass(state, `ray-progress-state ray-progress-${mark.tone}`);
    if (state.title !== mark.code) state.title = mark.code;
    this.place.classList.toggle("ray-progress-stale", stale);
    this.line("fresh", fresh(this, now));
    if (this.feed.final) clearInterval(this.timer);
  }

  line(name, [, , word, text, code]) {
    const [bold, rest, exact] = this.part(name).children;
    say(bold, word);
    say(rest, text);
    if (exact) say(exact, code ?? "");
  }

  part(name) {
    return this.place.querySelector(`.ray-progress-${name}`);
  }
}

for (const place of document.querySelectorAll(".ray-progress[data-source]")) {
  new Progress(place).start();
}
