// What several pages have: commands, searches, column heads that sort, and pages of a table.
import { html, useState } from "./vendor/preact-htm.js";
import { go, hrefOf } from "./links.js";

const COPIED_MS = 1500;

/** What to type: a click or the focus selects it, as one line for a terminal; a button copies it. */
export function Command({ text }) {
  const [copied, setCopied] = useState(false);
  const copy = async (event) => {
    await copyText(text, event.currentTarget.previousElementSibling);
    setCopied(true);
    setTimeout(() => setCopied(false), COPIED_MS);
  };
  return html`<span class="typed"><code class="command" tabindex="0" title="Select, then copy"
    onFocus=${(event) => getSelection().selectAllChildren(event.currentTarget)}>${text}</code>
    <button class="copy" onClick=${copy} aria-label="Copy the command">${copied ? "copied" : "copy"}</button></span>`;
}

// A page that is not served from this machine, or by https, has no clipboard of its own.
async function copyText(text, node) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    getSelection().selectAllChildren(node);
    document.execCommand("copy");
  }
}

/** What a watermark is, and three commands that end with a moving one. */
export const FirstSteps = ({ steps, service, children }) => html`
  <p>${steps.watermark}</p>
  <p>Type these in a terminal; the row of <b>demo/first</b> moves while the third command runs:</p>
  <ol class="steps">${steps.commands.map((text) => html`<li key=${text}><${Command} text=${text} /></li>`)}</ol>
  <p>${children} The <a href="${service}/docs">API documentation</a> lists all calls; guides are in <code>docs/</code> of the sources.</p>`;

export function Search({ name, place, hint }) {
  const [typed, setTyped] = useState(null);
  const { kind, [name]: current, page: _page, ...rest } = place;
  const change = (event) => {
    setTyped(event.target.value);
    go(hrefOf({ ...rest, [name]: event.target.value }), { replace: true });
  };
  return html`<input type="search" aria-label=${hint} placeholder="${hint}  ( / )" value=${typed ?? current ?? ""}
    onInput=${change} onBlur=${() => setTyped(null)} spellcheck="false" autocomplete="off" />`;
}

/** Column heads. A click on one with a `first` direction sorts, the next turns it round, the third sorts no more. */
export function Heads({ columns, place }) {
  const { kind: _kind, page: _page, sort, ...rest } = place;
  return html`<thead><tr>${columns.filter(Boolean).map(({ name, text, kind, first, note }) => {
    if (first == null) return html`<th class=${kind} title=${note}>${text}</th>`;
    const down = sort === `-${name}`, up = sort === name;
    const turned = first === "-" ? name : `-${name}`;
    const next = sort === first + name ? turned : sort === turned ? null : first + name;
    return html`<th class=${kind} title=${note} aria-sort=${up ? "ascending" : down ? "descending" : null}>
      <a class="sort" href=${hrefOf({ ...rest, sort: next })}>${text}<i aria-hidden="true">${up ? " ▲" : down ? " ▼" : ""}</i></a></th>`;
  })}</tr></thead>`;
}

export function Pages({ place, page, pages }) {
  if (pages < 2) return null;
  const { kind: _kind, page: _page, ...rest } = place;
  const to = (number) => hrefOf({ ...rest, page: number > 1 ? number : null });
  return html`<nav class="pages" aria-label="Pages">
    ${page > 1 ? html`<a href=${to(page - 1)}>‹ previous</a>` : html`<span class="dim">‹ previous</span>`}
    <span>page ${page} of ${pages}</span>
    ${page < pages ? html`<a href=${to(page + 1)}>next ›</a>` : html`<span class="dim">next ›</span>`}
  </nav>`;
}
