// "/" searches, "j" and "k" go down and up the rows, Enter follows the link, "o" goes home.
import { go } from "./links.js";

function step(by) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by));
  rows[next].focus();
  rows[next].scrollIntoView({ block: "nearest" });
}

const deeds = {
  "/": () => document.querySelector("input[type=search]")?.focus(),
  j: () => step(1),
  k: () => step(-1),
  o: () => go("./"),
};

export function followKeys() {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches?.("input");
    if (typing) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const deed = deeds[event.key];
    if (!deed) return;
    event.preventDefault();
    deed();
  });
}
