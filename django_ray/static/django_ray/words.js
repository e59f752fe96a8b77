// How counts, durations, ages, times and names read. A missing value is a dash.

export const NONE = "\u2013";
const SECOND = 1000, MINUTE = 60000, HOUR = 3600000, DAY = 86400000;
const grouped = new Intl.NumberFormat("en");

export function count(number) {
  return grouped.format(number);
}

export function plural(number, one, many) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function nodes(number) {
  return plural(number, "node", "nodes");
}

export function duration(ms) {
  if (ms === null || ms === undefined) return NONE;
  if (ms < SECOND) return `${Math.max(Math.floor(ms), 0)} ms`;
  if (ms < 10 * SECOND) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  const seconds = Math.floor(ms / SECOND);
  if (seconds < 60) return `${seconds} s`;
  const two = (value) => String(value).padStart(2, "0");
  if (seconds < 3600) return `${Math.floor(seconds / 60)}:${two(seconds % 60)}`;
  const minutes = Math.floor(seconds / 60);
  return `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(seconds % 60)}`;
}

// Two clocks may disagree, so what lies ahead is 0.
export function age(ms) {
  if (ms < 2 * SECOND) return `${(Math.floor(Math.max(ms, 0) / 100) / 10).toFixed(1)} s`;
  if (ms < 2 * MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (ms < 2 * HOUR) return `${Math.floor(ms / MINUTE)} min`;
  return ms < 2 * DAY ? `${Math.floor(ms / HOUR)} h` : `${Math.floor(ms / DAY)} days`;
}

export function clock(ms, today) {
  const text = new Date(ms).toISOString();
  const time = text.slice(11, 19);
  return text.slice(0, 10) === new Date(today).toISOString().slice(0, 10)
    ? time
    : `${text.slice(0, 10)} ${time}`;
}

export function moment(text) {
  return Date.parse(text);
}

export function percent(whole, done) {
  return whole === 0 && done ? "<1" : String(whole);
}

export function middle(text, most) {
  if (text.length <= most) return text;
  const head = Math.ceil((most - 1) / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
}

// A stage's last part, and what tells it from others that end alike.
export function shortNames(labels) {
  const split = (label) => label.split(".").filter(Boolean);
  const found = labels.map((label) => split(label).at(-1) ?? label);
  const seen = new Map();
  for (const name of found) seen.set(name, (seen.get(name) ?? 0) + 1);
  return labels.map((label, place) => {
    const parts = split(label);
    const same = seen.get(found[place]) > 1 && parts.length > 1;
    return { name: found[place], tag: same ? parts.at(-2) : "", label };
  });
}

export function given(value) {
  if (value === null || value === undefined) return null;
  if (typeof value === "object" && "omitted" in value) return `not kept: ${value.omitted}`;
  return value;
}

export function number(value) {
  return new Intl.NumberFormat("en", { maximumSignificantDigits: 6 }).format(value);
}
