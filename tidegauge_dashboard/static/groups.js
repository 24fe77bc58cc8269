import { html } from "./vendor/preact-htm.js";
import { Heads, Pages, Search } from "./controls.js";
import { hrefOf } from "./links.js";
import { Blank } from "./tabs.js";

const COLUMNS = [
  { name: "group", text: "group", first: "" },
  { name: "behind", text: "behind", first: "-" },
  { name: "readers", text: "readers", kind: "right", first: "-" },
  { name: "streams", text: "streams", first: "-" },
];

export default function Groups({ place, parts }) {
  const { list } = parts;
  if (!list) return null;
  return html`
    <div class="headline">
      <h1>${list.total} reader ${list.total === "1" ? "group" : "groups"}</h1>
      <span class="pills"></span>
      <${Search} name="q" place=${place} hint="Search groups, or the streams they read" />
    </div>
    ${list.empty ? html`<${Blank} text=${list.empty} />` : html`
      <table class="card list groups">
        <${Heads} columns=${COLUMNS} place=${place} />
        <tbody>${list.rows.map((row) => html`<tr key=${row.group}>
          <td class="who" title=${row.group}><a data-row href=${hrefOf({ group: row.group })}>${row.group}</a></td>
          <td class="ink-${row.tone}" data-of="behind">${row.text}${row.farthest && html` <small class="dim">in ${row.farthest}</small>`}</td>
          <td class="right" data-of="readers">${row.readers}</td>
          <td class="wide">${row.streams.map((one, at) => html`${at ? " · " : ""}<a href=${hrefOf({ stream: one })}>${one}</a>`)} <span class="dim">${row.more}</span></td>
        </tr>`)}</tbody>
      </table>`}
    <${Pages} place=${place} page=${list.page} pages=${list.pages} />`;
}
