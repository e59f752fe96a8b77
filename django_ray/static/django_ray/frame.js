// What both pages share: theme, list of keys, single keys that can be switched off.

import { byId, say, show } from "./dom.js";

const THEMES = ["auto", "light", "dark"];

function remember(name, value) {
  try {
    if (value === undefined) return localStorage.getItem(name);
    localStorage.setItem(name, value);
  } catch {
    // A browser that stores nothing keeps its own theme and all keys.
  }
  return null;
}

function applyTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  say(byId("theme-said"), theme);
}

function startTheme() {
  let theme = remember("django-ray-theme");
  if (!THEMES.includes(theme)) theme = "auto";
  applyTheme(theme);
  const button = byId("theme");
  show(button, true);
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    remember("django-ray-theme", theme);
    applyTheme(theme);
  });
}

function toggleKeys(shown) {
  const panel = byId("keys");
  const open = shown ?? panel.hidden;
  show(panel, open);
  if (open) byId("keys-close").focus();
}

// `actions` maps a key to what it does; false means that it did nothing.
export function start(actions) {
  startTheme();
  show(byId("keys-open"), true);
  byId("keys-open").addEventListener("click", () => toggleKeys());
  byId("keys-close").addEventListener("click", () => toggleKeys(false));
  const on = byId("keys-on");
  on.checked = remember("django-ray-keys") !== "off";
  on.addEventListener("change", () => remember("django-ray-keys", on.checked ? "on" : "off"));
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, select, textarea");
    if (event.key === "Escape" && !byId("keys").hidden) return toggleKeys(false);
    if (event.key === "Escape" && typing) return typing.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return undefined;
    if (event.key !== "Escape" && !on.checked) return undefined;
    if (event.key === "?") return toggleKeys();
    const act = actions[event.key];
    if (act && act(event) !== false) event.preventDefault();
    return undefined;
  });
}

// The server's clock: its time in the page is that of the moment the page began to arrive.
export function serverClock(nowMs) {
  const entry = performance.getEntriesByType("navigation")[0];
  const then = performance.timeOrigin + (entry?.responseStart || performance.now());
  const ahead = nowMs - then;
  // A page out of the browser's cache brings an old time.
  const offset = entry?.type === "back_forward" || entry?.transferSize === 0 ? 0 : ahead;
  return () => performance.timeOrigin + performance.now() + offset;
}
