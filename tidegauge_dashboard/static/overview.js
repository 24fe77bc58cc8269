import { html, useState } from "./vendor/preact-htm.js";
import { go, hrefOf } from "./links.js";
import { Since, Time, Until } from "./moments.js";

export const viewOfOverview = ({ state, q, page }, { rows }) =>
  ({ kind: "overview", state: state || null, search: q || "", page: Math.min(Math.max(1, Math.floor(page) || 1), 1e6), rows: rows || null });

export function Overview({ place, parts, setMore }) {
  const { list } = parts;
  if (!list) return null;
  // Rows keep their place while one of them has the focus.
  const hold = () => setMore({ rows: list.rows.map((row) => row.stream) });
  const release = (event) => event.currentTarget.contains(event.relatedTarget) || setMore({});
  return html`
    <div class="headline">
      <h1>${list.total} ${list.total === "1" ? "stream" : "streams"}</h1>
      <nav class="pills" aria-label="By state">
        ${list.pills.map((pill) => html`
          <a key=${pill.state} class="pill ${pill.tone}" aria-current=${pill.state === place.state ? "true" : null}
            href=${hrefOf({ q: place.q, state: pill.state === place.state ? null : pill.state })}>${pill.text}</a>`)}
      </nav>
      <${Search} name="q" place=${place} hint="stream or writer that holds" />
    </div>
    ${list.empty ? html`<section class="card blank"><p>${list.empty.text}</p>${list.empty.command && html`<${Command} text=${list.empty.command} />`}</section>` : html`
      <table class="card streams" onFocusIn=${hold} onFocusOut=${release}>
        <thead><tr><th class="name">stream</th><th class="state">state</th><th class="tube" title="Full is now, empty is two days old; the lines are a minute and an hour">tide, last 5 min</th><th class="watermark">watermark</th><th class="writers">writers</th><th class="readers">readers</th><th class="marks right">marks</th></tr></thead>
        <tbody>${list.rows.map((row) => html`<${Row} key=${row.stream} row=${row} />`)}</tbody>
      </table>`}
    ${list.groups_refusal && html`<p class="dim waiting">The reader groups are not known: ${list.groups_refusal}</p>`}
    <${Pages} place=${place} page=${list.page} pages=${list.pages} />`;
}

function Row({ row }) {
  return html`
    <tr class="edge-${row.edge}">
      <td class="name"><a data-row href=${hrefOf({ stream: row.stream })} title=${row.stream}>${row.stream}</a></td>
      <td class="state"><div>
        <span class="pill ${row.tone}">${row.label}</span>${" "}
        ${row.who && html`<b class="who" title=${row.who}>${row.who}</b> `}${row.others && html`<span class="dim">${row.others}</span> `}
        ${row.since != null && html`<b><${Since} ms=${row.since} /></b> `}
        ${row.drops != null && html`<span class="dim">dropped in <${Until} ms=${row.drops} /></span> `}
        ${row.note && html`<span class="dim note" title=${row.note}>${row.note}</span>`}
      </div></td>
      <td class="tube">${row.tube && html`<${Tube} tube=${row.tube} />`}</td>
      <td class="watermark">
        ${row.aged != null ? html`<b><${Since} ms=${row.aged} /> old</b><small><${Time} time=${row.watermark} /></small>`
          : row.ahead != null ? html`<b><${Until} ms=${row.ahead} /> ahead</b><small><${Time} time=${row.watermark} /></small>`
          : html`<b><${Time} time=${row.watermark} /></b>`}
      </td>
      <td class="writers">${row.writers.map((one, at) => html`${at ? html`<span class="dim"> · </span>` : ""}<span class="ink-${one.tone}">${one.text}</span>`)}</td>
      <td class="readers">${row.readers.map((one) => html`<div>
        ${one.group ? html`<a href=${hrefOf({ group: one.group })} title=${one.group}>${one.group}</a> ` : ""}<span class="ink-${one.tone}">${one.text}</span></div>`)}</td>
      <td class="marks right dim">${row.marks}</td>
    </tr>`;
}

/** Five minutes of water: full is now, empty is two days old; lines at a minute and an hour. */
function Tube({ tube }) {
  const { heights, tone, lines } = tube;
  const wide = heights.length;
  let path = "", from = null;
  heights.forEach((height, at) => {
    if (height === null) return;
    if (from === null) { from = at; path += `M${at} 100`; }
    path += `L${at} ${100 - height}L${at + 1} ${100 - height}`;
  });
  if (from !== null) path += `L${wide} 100Z`;
  return html`<svg viewBox="0 0 ${wide} 100" preserveAspectRatio="none" role="img" aria-label=${tube.text}>
    <path class="water ${tone}" d=${path} />
    ${lines.map((at) => html`<path class="level" d="M0 ${100 - at}H${wide}" />`)}
  </svg>`;
}

/** What to type: a click or the focus selects it, as one line for a terminal. */
export const Command = ({ text }) => html`<code class="command" tabindex="0" title="Select, then copy"
  onFocus=${(event) => getSelection().selectAllChildren(event.currentTarget)}>${text}</code>`;

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

function Pages({ place, page, pages }) {
  if (pages < 2) return null;
  const to = (number) => hrefOf({ q: place.q, state: place.state, page: number > 1 ? number : null });
  return html`<nav class="pages" aria-label="Pages">
    ${page > 1 ? html`<a href=${to(page - 1)}>‹ before</a>` : html`<span class="dim">‹ before</span>`}
    <span>page ${page} of ${pages}</span>
    ${page < pages ? html`<a href=${to(page + 1)}>next ›</a>` : html`<span class="dim">next ›</span>`}
  </nav>`;
}
