import { html } from "./vendor/preact-htm.js";
import { FirstSteps, Heads, Pages, Search } from "./controls.js";
import { hrefOf } from "./links.js";
import { Since, Time, Until } from "./moments.js";

const columns = () => [
  { name: "stream", text: "stream", kind: "name", first: "" },
  { name: "state", text: "state", kind: "state", first: "" },
  { name: "tube", text: html`tide, last 5 min<small>full: now, empty: 2 d old</small><small>lines: 1 min, 1 h</small>`, kind: "tube", note: "How old the watermark was: full is now, empty is two days old; the lines are a minute and an hour" },
  { name: "watermark", text: "watermark", kind: "watermark", first: "" },
  { name: "writers", text: "writers", kind: "writers", first: "-" },
  { name: "readers", text: "readers", kind: "readers", first: "-" },
  { name: "marks", text: "marks", kind: "marks right", first: "-" },
];

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
            href=${hrefOf({ q: place.q, sort: place.sort, state: pill.state === place.state ? null : pill.state })}>${pill.text}</a>`)}
      </nav>
      <${Search} name="q" place=${place} hint="Search streams, or the writer holding them" />
    </div>
    ${list.empty ? html`<section class="card ${list.empty.commands ? "teach" : "blank"}"><p>${list.empty.text}</p>${list.empty.commands && html`<${FirstSteps} steps=${list.empty} service=${parts.service}><a href="?show=help">Help</a> explains the states of a stream.<//>`}</section>` : html`
      <table class="card streams">
        <${Heads} columns=${columns()} place=${place} />
        <tbody onFocusIn=${hold} onFocusOut=${release}>${list.rows.map((row) => html`<${Row} key=${row.stream} row=${row} />`)}</tbody>
      </table>`}
    ${list.groups_refusal && html`<p class="dim waiting">The reader groups are not known: ${list.groups_refusal}</p>`}
    <${Pages} place=${place} page=${list.page} pages=${list.pages} />`;
}

function Row({ row }) {
  return html`
    <tr class="edge-${row.edge}">
      <td class="name"><a data-row href=${hrefOf({ stream: row.stream })} title=${row.stream}>${row.stream}</a>${row.table && html`<small class="dim" title=${row.table}>${row.table}</small>`}</td>
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
      <td class="writers" title=${row.writers.map((one) => one.text).join(" · ")}>${row.writers.map((one, at) => html`${at ? html`<span class="dim"> · </span>` : ""}<span class="ink-${one.tone}">${one.text}</span>`)}</td>
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
