// The list of kept nodes: filters, pages by cursor, rows that change in place.

import { button, byId, el, glyph, nodeButton, say, show } from "./dom.js";
import { ORDER, nodeMark, setState, stateOf } from "./marks.js";
import { NONE, clock, count, duration, given, middle, number } from "./words.js";

const PAGE = 100, LOOKED_UP = 8;

export class Nodes {
  constructor(view, link) {
    this.view = view;
    this.link = link;
    this.filter = { state: link.get("state"), stage: link.get("stage"), prefix: link.get("prefix") ?? "" };
    this.cursors = [null];
    this.rows = new Map();
    this.waiting = 0;
    this.next = null;
    this.busy = false;
    this.loads = 0;
    this.build();
  }

  build() {
    const place = byId("filters");
    this.chips = new Map();
    for (const state of [null, ...ORDER]) {
      const mark = state && nodeMark(state);
      const label = el("span", {}, mark ? mark.word : "All");
      const chip = el("button", {
        type: "button", class: "filter", "aria-pressed": "false",
        onclick: () => this.choose({ state }),
      }, mark ? el("span", { class: `tone-${mark.tone}` }, glyph(mark.symbol)) : null, label, el("b"));
      this.chips.set(state, chip);
      place.append(chip);
    }
    this.find = el("input", {
      type: "search", placeholder: "Id begins with", "aria-label": "Node id begins with",
      maxlength: 256, value: this.filter.prefix,
      oninput: () => {
        clearTimeout(this.typing);
        this.typing = setTimeout(() => this.choose({ prefix: this.find.value.trim() }), 300);
      },
    });
    this.stageChip = el("button", { type: "button", class: "filter", "aria-pressed": "true",
      title: "Show all stages", onclick: () => this.choose({ stage: null }) });
    place.append(this.find, this.stageChip);
    show(place, true);
    this.first = button("First page", "[", () => this.turn(0));
    this.onward = button("Next page", "]", () => this.turn(1));
    this.newer = button("", "n", () => this.again(), { class: "button accent keyed" });
    this.note = el("span", { role: "status" });
    byId("nodes-foot").append(this.note, el("span", { class: "grow" }), this.newer, this.first, this.onward);
    show(byId("nodes-foot"), true);
    this.showFilter();
  }

  showFilter() {
    const { state, stage, prefix } = this.filter;
    for (const [name, chip] of this.chips) chip.setAttribute("aria-pressed", String(name === (state ?? null)));
    const name = stage === null || stage === undefined ? null : this.view.names.get(Number(stage));
    show(this.stageChip, stage !== null && stage !== undefined);
    say(this.stageChip, `Stage ${name?.name ?? stage} ×`);
    for (const [key, value] of Object.entries({ state, stage, prefix })) this.link.set(key, value);
  }

  choose(change) {
    Object.assign(this.filter, change);
    if (change.prefix !== undefined) this.find.value = change.prefix;
    this.showFilter();
    this.again();
  }

  isFiltered() {
    const { state, stage, prefix } = this.filter;
    return Boolean(state || prefix || (stage !== null && stage !== undefined));
  }

  clear() {
    this.find.value = "";
    this.choose({ state: null, stage: null, prefix: "" });
  }

  again() {
    this.cursors = [null];
    return this.load(false);
  }

  turn(by) {
    if (by === 0) return this.again();
    if (!this.next) return false;
    // Pressed again before it has come, it is the same page.
    if (this.cursors.at(-1) !== this.next) this.cursors.push(this.next);
    return this.load(false);
  }

  // `inPlace`: rows that stand keep their places, others wait until they are asked for.
  // Of several questions only the last is heard.
  async load(inPlace) {
    if (this.busy && inPlace) return;
    this.busy = true;
    const load = this.loads += 1;
    const asked = { ...this.filter, order: "newest", limit: PAGE, cursor: this.cursors.at(-1) };
    try {
      const { status, body } = await this.view.api.get("nodes", asked);
      if (load !== this.loads) return;
      if (status === 200 && body.items) this.take(body, inPlace);
      else if (!inPlace) this.refused(status, body);
    } catch {
      if (!inPlace && load === this.loads) say(this.note, "The server does not answer. The rows are the last ones read.");
    } finally {
      if (load === this.loads) this.busy = false;
    }
  }

  refused(status, body) {
    if (status === 200) return;
    const title = body?.title ?? "The list was not answered.";
    const gone = status === 410 && this.cursors.length > 1;
    say(this.note, gone ? "The run has changed since that page was read. Start at the first page." : title);
    if (gone || status === 400) {
      this.cursors = [null];
      this.next = null;
      this.onward.disabled = true;
    }
  }

  take(body, inPlace) {
    if (inPlace) return this.merge(body.items);
    this.next = body.next_cursor;
    this.waiting = 0;
    this.rows.clear();
    const list = byId("node-rows");
    list.replaceChildren(...body.items.map((item) => this.add(item)));
    if (!body.items.length) list.append(this.nothing());
    byId("node-rows").closest(".scroll").scrollTop = 0;
    this.sayAll(body.items.length);
    return undefined;
  }

  merge(items) {
    const fresh = items.filter((item) => !this.rows.has(item.ordinal));
    const seen = new Set(items.map((item) => item.ordinal));
    for (const item of items) {
      const known = this.rows.get(item.ordinal);
      if (known) this.set(known, item);
    }
    if (this.cursors.length > 1) return;
    this.waiting = fresh.length;
    if (!this.rows.size && fresh.length) return void this.take({ items, next_cursor: this.next }, false);
    this.sayAll(this.rows.size);
    if (!this.filter.state) return;
    const left = [...this.rows].filter(([ordinal]) => !seen.has(ordinal)).slice(0, LOOKED_UP);
    for (const [, known] of left) this.lookUp(known);
  }

  async lookUp(known) {
    const { status, body } = await this.view.api.get("node", { id: known.item.id });
    if (status === 200 && body.node) this.set(known, body.node);
  }

  sayAll(shown) {
    const { body } = this.view;
    const kept = `Among the ${count(body.retained_nodes)} kept`;
    const which = this.isFiltered() ? "those that match, " : "";
    say(byId("nodes-said"), `${kept}, ${which}newest change first`);
    const page = this.cursors.length;
    const more = this.next ? "more follow" : page > 1 ? "the last page" : "these are all";
    say(this.note, shown ? `${count(shown)} shown${page > 1 ? `, page ${page}` : ""}; ${more}.` : "");
    this.onward.disabled = !this.next;
    this.first.disabled = page === 1;
    show(this.newer, this.waiting > 0);
    this.newer.firstChild.textContent = `${count(this.waiting)} newer, show `;
  }

  nothing() {
    const { state, prefix } = this.filter;
    const { body } = this.view;
    const all = state ? body.node_counts[state] : 0;
    let text = prefix ? `No kept node begins with «${prefix}».` : "No kept node matches.";
    if (state && !prefix) {
      text = `No ${state.toLowerCase()} node among the ${count(body.retained_nodes)} kept.`;
      const cut = body.retained_nodes < body.discovered_nodes;
      if (all && cut && !this.filter.stage) text += ` ${count(all)} in all, past the kept ones.`;
    }
    return el("tr", {}, el("td", { colspan: 8, class: "nothing" }, text));
  }

  add(item) {
    const cells = {
      state: stateOf(nodeMark(item.state), true), stage: el("td", { class: "far-1" }),
      try: el("td", { class: "number" }), started: el("td", { class: "number far-1" }),
      ran: el("td", { class: "number" }), host: el("td", { class: "far-2" }),
      word: el("td", { class: "far-1 word" }),
    };
    const row = el("tr", { "data-id": item.id }, el("td", {}, cells.state),
      el("th", { scope: "row" }, nodeButton(item.id, this.view.open)), cells.stage, cells.try,
      cells.started, cells.ran, cells.host, cells.word);
    row.querySelector(".node").textContent = middle(item.id, 52);
    const known = { item: null, row, cells };
    this.rows.set(item.ordinal, known);
    this.set(known, item);
    return row;
  }

  set(known, item) {
    known.item = item;
    const { cells } = known;
    const { detail } = item;
    const now = this.view.now();
    const name = this.view.names.get(item.stage);
    setState(cells.state, nodeMark(item.state));
    say(cells.stage, name?.name ?? "");
    cells.stage.title = name?.label ?? "";
    say(cells.try, count(detail.try ?? 1));
    say(cells.started, detail.started_ms ? clock(detail.started_ms, now) : NONE);
    say(cells.ran, ran(item, now));
    say(cells.host, detail.host ?? NONE);
    const word = lastWord(item);
    say(cells.word, word);
    cells.word.title = word;
    cells.word.classList.toggle("bad", item.state === "FAILED");
  }

  tick(now) {
    for (const { item, cells } of this.rows.values()) {
      if (item.state === "RUNNING") say(cells.ran, ran(item, now));
    }
  }

  counts() {
    const { body } = this.view;
    const whole = body.detail.complete ? body.node_counts : null;
    for (const [state, chip] of this.chips) {
      say(chip.lastElementChild, state && whole ? count(whole[state]) : "");
    }
  }
}

export function ran(item, now) {
  const { started_ms: from, ended_ms: to } = item.detail;
  if (!from) return NONE;
  if (item.state === "RUNNING") return duration(now - from);
  return to ? duration(to - from) : NONE;
}

export function fault(detail) {
  if (!detail.error) return ["", "no error reported"];
  const { kind, text, omitted } = detail.error;
  return [kind ?? "", omitted ? `error not kept: ${omitted}` : (text ?? "")];
}

function lastWord(item) {
  const { detail, state } = item;
  if (state === "FAILED") return fault(detail).filter(Boolean).join(": ");
  const far = detail.current === undefined ? ""
    : detail.total === undefined ? number(detail.current)
      : `${number(detail.current)} of ${number(detail.total)}`;
  return [given(detail.message), far].filter(Boolean).join(", ");
}
