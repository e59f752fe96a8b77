// Elements by name, and text as text: nothing a user wrote is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

export function el(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

export function byId(id) {
  return document.getElementById(id);
}

// Only what differs is written: a reader's place and selection stay.
export function say(element, text) {
  const said = String(text);
  if (element.textContent !== said) element.textContent = said;
}

export function show(element, shown) {
  if (element.hidden === shown) element.hidden = !shown;
}

export function setClass(element, name) {
  if (element.getAttribute("class") !== name) element.setAttribute("class", name);
}

export function glyph(symbol, tone) {
  return svg(
    "svg",
    { class: tone ? `glyph tone-${tone}` : "glyph", "aria-hidden": "true" },
    svg("use", { href: `#s-${symbol}` }),
  );
}

export function setGlyph(icon, symbol, tone) {
  icon.firstElementChild.setAttribute("href", `#s-${symbol}`);
  setClass(icon, tone ? `glyph tone-${tone}` : "glyph");
}

export function nodeButton(id, open) {
  return el("button", { type: "button", class: "node", title: id, onclick: () => open(id) }, id);
}

export function button(text, key, press, attributes) {
  return el(
    "button",
    { type: "button", class: "button keyed", onclick: press, ...attributes },
    text,
    key ? el("kbd", {}, key) : null,
  );
}

// The buttons of a choice, made once: whoever pressed one keeps the focus on it.
export function segmented(place, choices, chosen, choose) {
  if (!place.children.length) {
    place.append(...choices.map(([, title]) => el("button", { type: "button" }, title)));
    choices.forEach(([name], at) => place.children[at].addEventListener("click", () => choose(name)));
  }
  choices.forEach(([name], at) => place.children[at].setAttribute("aria-pressed", String(name === chosen)));
}

// One polite region; at most one message in ten seconds, the newest of those that waited.
let last = 0;
let waiting = null;
export function announce(text) {
  const region = byId("announced");
  const now = Date.now();
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    last = Date.now();
    say(region, text);
  }, Math.max(0, last + 10000 - now));
}
