import { html } from "./vendor/preact-htm.js";
import { go } from "./links.js";

function step(by) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by));
  rows[next].focus();
  rows[next].scrollIntoView({ block: "nearest" });
}

const dialog = () => document.querySelector("dialog.keys");

const deeds = {
  "/": ["search", () => document.querySelector("input[type=search]")?.focus()],
  j: ["next row", () => step(1)],
  k: ["previous row", () => step(-1)],
  Enter: ["open the row", null], // it is a link
  o: ["all streams", () => go("./")],
  g: ["all reader groups", () => go("?show=groups")],
  "?": ["show these keys", () => dialog().showModal()],
};

export const Keys = () => html`<dl class="keyboard">${Object.entries(deeds).map(([key, [what]]) =>
  html`<div><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl>`;

export const KeysDialog = () => html`<dialog class="keys card" aria-label="Keys" onClick=${() => dialog().close()}>
  <h2>Keys</h2><${Keys} /><button autofocus>close</button></dialog>`;

export function followKeys() {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || dialog().open) return;
    const typing = event.target.matches?.("input");
    if (typing) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const deed = deeds[event.key]?.[1];
    if (!deed) return;
    event.preventDefault();
    deed();
  });
}
