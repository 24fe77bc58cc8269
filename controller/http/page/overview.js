// All streams, trouble first: the service judges and orders them.
import { html, useLayoutEffect, useRef } from "./vendor/preact-htm.js";
import { serverNow, service, token, usePolled } from "./ask.js";
import { FirstSteps, WATERMARK } from "./help.js";
import {
  Ago, Pill, Search, States, Until, Waiting, eventTime, hrefOf, isDate, moment, others,
  rate, short,
} from "./words.js";

const PAGE = 100, ALL = 1_000; // streams that are asked for; the second where this page sorts them
const MOST_GROUPS = 3;

export const isAged = (row) => row.follows_clock && isDate(row.watermark);
const writersOf = (row) => Object.values(row.explanation?.states || {}).reduce((a, b) => a + b, 0);
/** Name, text, and what a column is sorted by: the most first, but for names. */
const COLUMNS = [
  ["stream", "stream", (row) => row.stream], ["state", "state"],
  ["behind", "behind the clock", (row) => (isAged(row) ? row.watermark : Infinity)],
  ["writers", "writers", (row) => -writersOf(row)],
  ["groups", "read by"], ["marks", "marks", (row) => -(row.judged?.marks_per_s || 0)],
  ["events", "events", (row) => -(row.events ?? -1)],
];

export function Overview({ place }) {
  const key = COLUMNS.find(([name]) => name === place.sort)?.[2];
  const query = new URLSearchParams({ order: "trouble", limit: key || place.all ? ALL : PAGE });
  if (place.q) query.set("q", place.q);
  if (place.state) query.set("state", place.state);
  const [list, error] = usePolled(`v1/streams?${query}`, 2_000, { stays: true });
  const [reading] = usePolled("v1/reader-groups?limit=1000", 10_000);
  const rows = useKeptPlace(sorted(list?.streams || [], key, place.down));
  const total = Object.values(list?.counts || {}).reduce((sum, count) => sum + count, 0);
  const held = list?.counts.held;
  document.title = (held ? `${held} held · ` : "") + "Tidegauge";
  if (!list || error) return html`<${Waiting} error=${error} />`;
  if (!total && !place.q) return html`<${Empty} />`;
  const groups = {};
  for (const { group, streams } of reading?.groups || [])
    for (const stream of streams) (groups[stream] ??= []).push(group);
  return html`<header class="top"><h1>${total} ${total === 1 ? "stream" : "streams"}</h1>
    <nav class="pills" aria-label="By state">${pillsOf(list.counts, rows).map((pill) => html`<a
      class="pill ${pill.tone}" title=${pill.meaning}
      aria-current=${pill.state === place.state ? "true" : null}
      href=${hrefOf({ ...place, state: pill.state === place.state ? null : pill.state })}
      >${pill.text}</a>`)}</nav>
    <${Search} place=${place} hint="Search streams, or the writer holding them" /></header>
  ${!rows.length ? html`<p class="card dim">No stream matches.</p>`
    : html`<div class="card wide"><table class="streams">
      <thead><tr>${COLUMNS.map((column) => html`<${Head} place=${place} column=${column} />`)}
      </tr></thead><tbody>${rows.map((row) =>
        html`<${Row} key=${row.stream} row=${row} groups=${groups[row.stream] || []} />`)}
      </tbody></table></div>`}
  ${list.more && html`<p class="dim more">${rows.length} of ${list.counts[place.state] || total},
    ${" "}trouble first. ${rows.length < ALL && html`<a href=${hrefOf({ ...place, all: 1 })}>
    Show up to ${short(ALL)}</a>`}</p>`}`;
}

/** Of each state that there is: its count, and the tone of the first row in it, the worst. */
const pillsOf = (counts, rows) => (service.about?.states || [])
  .filter(({ state }) => counts[state])
  .map(({ state, label, tone, meaning }) => {
    const row = rows.find(({ judged }) => judged?.state === state);
    return { state, meaning, text: `${counts[state]} ${label}`, tone: row?.judged.tone ?? tone };
  });

function sorted(rows, key, isDown) {
  if (!key) return rows;
  const compare = (a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0);
  const up = rows.toSorted(compare);
  return isDown ? up.reverse() : up;
}

/** Keep the row that has the focus where it is while others move, and the focus on it. */
function useKeptPlace(rows) {
  const former = useRef([]);
  const focused = document.activeElement?.closest("[data-stream]")?.dataset.stream;
  const at = former.current.indexOf(focused);
  const now = rows.findIndex((row) => row.stream === focused);
  const kept = at < 0 || now < 0 ? rows : rows.toSpliced(now, 1).toSpliced(at, 0, rows[now]);
  former.current = kept.map((row) => row.stream);
  useLayoutEffect(() => {
    if (focused && document.activeElement === document.body)
      document.querySelector(`[data-stream="${CSS.escape(focused)}"] a`)?.focus();
  });
  return kept;
}

/** Up, down, and back to trouble first. */
function Head({ place, column: [name, text, key] }) {
  const isThis = name === place.sort;
  const sort = !isThis ? name : place.down ? null : name;
  const down = isThis && !place.down ? 1 : null;
  const arrow = isThis && (place.down ? " ↓" : " ↑");
  return html`<th class=${name}
    aria-sort=${isThis ? (place.down ? "descending" : "ascending") : null}>
    ${key ? html`<a href=${hrefOf({ ...place, sort, down })}>${text}${arrow}</a>` : text}</th>`;
}

function Row({ row, groups }) {
  const { judged, explanation: why } = row, isHeld = judged?.state === "held";
  const more = groups.length - MOST_GROUPS;
  return html`<tr class="edge ${judged?.tone}" data-stream=${row.stream}>
    <td class="name"><a data-row href=${hrefOf({ stream: row.stream })}>${row.stream}</a>
      ${row.table && html` <small>${row.table}${row.version != null && ` · version ${row.version}`}
      </small>`}</td>
    <td class="state"><${Pill} judged=${judged} />${" "}
      ${isHeld && why.holder && html`<b>${why.holder}</b> ${others(why.holder_count - 1)}`}
      ${judged?.since_ms != null && html`for <b><${Ago} ms=${judged.since_ms} /></b> `}
      ${isHeld && html`<small>${why.next_expiry_ms != null
        ? html`dropped in <${Until} ms=${serverNow() + why.next_expiry_ms} />`
        : row.drops_writers ? "dropped if others keep reporting" : "never dropped"}</small>`}
      ${why?.hint && html`<small class="hint" title=${why.hint}>${why.hint}</small>`}</td>
    <td class="behind">${isAged(row) ? html`<b><${Behind} ms=${row.watermark} /></b>${" "}
      <small>${moment(row.watermark, { fine: false })}</small>`
      : html`<b>${eventTime(row.watermark, row.follows_clock)}</b>`}</td>
    <td class="writers"><${States} states=${why?.states} judged=${judged} /></td>
    <td class="groups">${groups.slice(0, MOST_GROUPS).map((group) =>
      html`<a href=${hrefOf({ group })} title=${group}>${group}</a> `)}${others(more)}</td>
    <td class="marks dim">${judged?.marks_per_s >= 0.05 && rate(judged.marks_per_s)}</td>
    <td class="events dim">${short(row.events)}</td></tr>`;
}

export const Behind = ({ ms }) => ms > serverNow()
  ? html`<${Until} ms=${ms} /> ahead` : html`<${Ago} ms=${ms} />`;

const Empty = () => html`<section class="card steps"><h1>No stream${token()
    ? " that your token may see" : " yet"}</h1>
  <p>${WATERMARK}</p>
  <p>Type these in a terminal. The stream appears here, and moves while the third command runs.</p>
  <${FirstSteps} /></section>`;
