// The one poll that drives everything: ETag, jitter, back-off, pause, hidden tab, and a bell.

const SOON = 1000, LATEST = 15000, AWAKE = 5000, ATTEMPTS = 3;

export class Api {
  constructor(attempt) {
    this.attempt = attempt;
  }

  // Returns {status, body, etag, wait}; throws where nothing answers.
  async get(path, parameters, etag) {
    const asked = new URLSearchParams();
    for (const [name, value] of Object.entries(parameters ?? {})) {
      for (const one of [value].flat()) {
        if (one !== null && one !== undefined && one !== "") asked.append(name, one);
      }
    }
    if (this.attempt) asked.set("attempt", this.attempt);
    const query = asked.toString();
    const answer = await fetch(query ? `${path}?${query}` : path, {
      headers: etag ? { "If-None-Match": etag } : {},
      credentials: "same-origin",
      cache: "no-store",
    });
    const kind = answer.headers.get("Content-Type") ?? "";
    const body = answer.status !== 304 && kind.includes("json") ? await answer.json() : null;
    return {
      status: answer.status,
      body,
      etag: answer.headers.get("ETag"),
      wait: Number(answer.headers.get("Retry-After")) || 0,
    };
  }
}

// Tells `hear` of each new body, `gone` once nothing may be seen, `turn` of any other turn.
export class Feed {
  constructor({ ask, hear, gone, turn, isFinal, stream }) {
    Object.assign(this, { ask, hear, gone, turn, isFinal, stream });
    this.paused = false;
    this.final = false;
    this.failures = 0;
    this.interval = SOON;
    this.askedAt = this.answeredAt = Date.now();
    this.nextAt = null;
    this.slowedUntil = 0;
    this.etag = null;
    this.changed = null;
    this.timer = null;
    this.busy = false;
    document.addEventListener("visibilitychange", () => this.look());
  }

  get stopped() {
    return this.paused || this.final || document.hidden;
  }

  start() {
    this.look();
  }

  look() {
    if (this.stopped) {
      clearTimeout(this.timer);
      this.nextAt = null;
      this.hush();
    } else {
      this.interval = SOON;
      this.poll();
      this.listen();
    }
    this.turn();
  }

  pause(paused) {
    this.paused = paused;
    this.look();
  }

  end() {
    this.final = true;
    this.look();
  }

  // A stream only rings; where there is none, an EventSource gives up by itself.
  listen() {
    if (!this.stream || this.source || typeof EventSource === "undefined") return;
    this.source = new EventSource(this.stream);
    this.source.addEventListener("revision", () => {
      if (!this.busy && !this.stopped && Date.now() > this.askedAt + 500) this.poll();
    });
  }

  hush() {
    this.source?.close();
    this.source = null;
  }

  plan(ms) {
    clearTimeout(this.timer);
    if (this.stopped) return;
    const wait = ms * (0.9 + 0.2 * Math.random());
    this.nextAt = Date.now() + wait;
    this.timer = setTimeout(() => this.poll(), wait);
  }

  async poll() {
    if (this.busy || this.stopped) return;
    this.busy = true;
    this.askedAt = Date.now();
    clearTimeout(this.timer);
    try {
      this.settle(await this.ask(this.etag));
    } catch {
      this.failed(0);
    } finally {
      this.busy = false;
    }
    this.turn();
  }

  settle(answer) {
    if (answer.status === 401 || answer.status === 403 || answer.status === 404) {
      this.final = true;
      this.hush();
      this.gone();
      return;
    }
    if (answer.status !== 200 && answer.status !== 304) {
      this.slowedUntil = answer.status === 429 ? Date.now() + 1000 * answer.wait : 0;
      this.failed(1000 * answer.wait);
      return;
    }
    this.failures = 0;
    this.slowedUntil = 0;
    this.answeredAt = Date.now();
    if (answer.status === 200) {
      this.etag = answer.etag;
      this.hear(answer.body);
    }
    if (this.isFinal()) {
      this.final = true;
      this.hush();
      return;
    }
    this.interval = this.pace(answer);
    this.plan(this.interval);
  }

  // While a run changes it is asked each second; a quiet one less and less often.
  pace(answer) {
    const mark = answer.body ? (answer.body.changed_at_ms ?? answer.etag) : this.changed;
    const same = mark === this.changed;
    this.changed = mark;
    const most = answer.status === 304 ? LATEST : AWAKE;
    return same ? Math.min(this.interval * 1.4, most) : SOON;
  }

  failed(wait) {
    this.failures += 1;
    this.interval = Math.min(SOON * 2 ** (this.failures - 1), LATEST);
    this.plan(Math.max(wait, this.interval));
  }

  get silent() {
    return this.failures >= ATTEMPTS;
  }
}
