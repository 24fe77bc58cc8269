// Reader groups: how far each has read, and by whom.
import { html } from "./vendor/preact-htm.js";
import { serverNow, usePolled } from "./ask.js";
import {
  Ago, Facts, Refused, Search, Table, Waiting, distance, eventTime, hrefOf, isDate, short, span,
} from "./words.js";

export function AllGroups({ place }) {
  const [list, error] = usePolled("v1/reader-groups?windows=true&limit=1000", 5_000);
  document.title = "Reader groups · Tidegauge";
  if (!list) return html`<${Waiting} error=${error} />`;
  const found = list.groups.filter(({ group, streams }) =>
    !place.q || `${group} ${streams.join(" ")}`.includes(place.q));
  const count = `${list.groups.length}${list.cursor ? " or more" : ""}`;
  return html`<header class="top"><h1>${count} reader ${count === "1" ? "group" : "groups"}</h1>
    <span class="pills"></span><${Search} place=${place} hint="Search groups or streams" /></header>
    <${GroupTable} groups=${found} none="No reader group${place.q ? " matches" : " yet"}." />`;
}

/** Groups, and how far each has read in all its streams, or in one. */
export function GroupTable({ groups, only, none }) {
  const rows = groups.map(({ group, windows, state }) => {
    const seen = (windows || []).filter(({ stream }) => !only || stream === only);
    const readers = Object.entries(state.readers);
    return [
      html`<a data-row href=${hrefOf({ group })}><b>${group}</b></a>`,
      lines(seen, ({ stream }) => html`<a href=${hrefOf({ stream })}>${stream}</a>`),
      lines(seen, ({ lower }) => (lower == null ? "nothing yet" : eventTime(lower))),
      lines(seen, behind),
      lines(seen, left),
      !readers.length ? "nobody" : lines(readers, ([name, { owned }]) =>
        html`${name} <small>${count(owned)} segments</small>`),
    ];
  });
  return html`<${Table} rows=${rows} none=${none} heads=${["group", "stream", "has read up to",
    "behind the watermark", "events to its next mark", "readers"]} />`;
}
const lines = (rows, of) => rows.map((row) => html`<div>${of(row)}</div>`);
const count = (owned) =>
  Object.values(owned).reduce((sum, offsets) => sum + Object.keys(offsets).length, 0);
function behind({ lower, watermark: top, next_mark: next }) {
  if (!next) return "caught up";
  return lower == null ? "all of it" : distance(BigInt(top) - BigInt(lower), isDate(top));
}
function left({ next_mark: next, position }) {
  if (!next) return "";
  return short(Object.entries(next.cut).reduce((sum, [number, offset]) =>
    sum + Math.max(0, Number(offset) - Number(position[number] || 0)), 0));
}

export function Group({ place }) {
  const path = `v1/reader-groups/${place.group}`;
  const [one, error] = usePolled(path, 3_000), [seen] = usePolled(`${path}/time-window`, 3_000);
  document.title = `${place.group} · Tidegauge`;
  if (!one) return html`<${Waiting} error=${error} />`;
  const readers = one.readers.map((row) => [
    html`<b>${row.reader}</b>`, row.segments,
    html`<progress value=${row.silent_ms} max=${one.dead_after_ms}></progress> ${
      span(row.silent_ms)} ago, taken offline at ${span(one.dead_after_ms)}`,
    row.advanced_ms == null ? "not since it joined" : `${span(row.advanced_ms)} ago`]);
  return html`<${Refused} error=${error} /><header class="top"><h1>${place.group}</h1></header>
    <${GroupTable} groups=${[{ ...one, windows: seen?.windows }]} none="" />
    <h2>Readers</h2><${Table} rows=${readers} none="Nobody reads."
      heads=${["reader", "segments", "last heartbeat", "advanced"]} />
    ${one.progress && html`<${Progress} query=${one.progress} />`}`;
}

function Progress({ query }) {
  const facts = [
    ["bound", query.bound == null ? "before a mark" : eventTime(query.bound)],
    ["behind the watermark", query.lag_ms == null ? "unknown" : span(query.lag_ms)],
    ["rows still to read", query.backlog == null ? "unknown" : short(query.backlog)],
    ["late rows", short(query.late), query.late_by_ms && `by ${span(query.late_by_ms)} at most`],
    ["late in operators", short(query.late_output)],
    ["partially late", short(query.partially_late)],
    ["state", query.state_bytes == null ? "unknown" : `${short(query.state_bytes)}B`],
    ["reported", html`<${Ago} ms=${serverNow() - query.silent_ms} /> ago`],
  ];
  const late = Object.entries(query.late_writers).sort((a, b) => b[1] - a[1]);
  return html`<h2>Its query</h2><section class="card"><${Facts} rows=${facts} /></section>
    ${late.length > 0 && html`<h2>Late rows by writer</h2><${Table} heads=${["writer", "rows"]}
      rows=${late.map(([name, rows]) => [name, short(rows)])} />`}`;
}
