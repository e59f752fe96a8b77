// How far a run has come that has not reported yet: from the queue to its first report.
// One that waits for its next attempt has left the way behind it.

import { byId, say, setGlyph, show } from "./dom.js";
import { hasEnded, isReported } from "./head.js";
import { age, clock, moment } from "./words.js";

export function render(view) {
  const { body } = view;
  const waits = !isReported(body) && !hasEnded(body) && body.execution.state !== "RETRY_WAIT";
  show(byId("steps"), waits);
  if (!waits) return;
  const { enqueued_at: queued, claimed_at: claimed, started_at: started } = body.execution;
  const now = view.now();
  let before = null;
  [queued, claimed, started, null].forEach((at, place) => {
    const item = byId("step-list").children[place];
    if (!item) return;
    const done = at !== null;
    const [symbol, tone] = done ? ["succeeded", "succeeded"] : before ? ["waiting", "accent"] : ["pending", "pending"];
    setGlyph(item.firstElementChild, symbol, tone);
    say(item.lastElementChild, done ? clock(moment(at), now)
      : before ? `${age(now - moment(before))} so far` : "not yet");
    before = at;
  });
}
