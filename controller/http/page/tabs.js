// Tables below the chart of a stream.
import { html } from "./vendor/preact-htm.js";
import { service, usePolled } from "./ask.js";
import { GroupTable } from "./groups.js";
import {
  Refused, Search, Table, Writer, distance, eventTime, moment, short, span, toneOf,
} from "./words.js";

const PAGES = { writers: Writers, segments: Segments, marks: Marks, transactions: Transactions,
  readers: Readers, settings: Settings };
/** An external log knows no transactions. */
export const tabsOf = ({ config: { log } }) =>
  Object.keys(PAGES).filter((name) => log === "embedded" || name !== "transactions");
const MOST_OF_CUT = 12;
const maybe = (ms) => (ms == null ? "" : span(ms));
const when = (ms) => (ms == null ? "" : moment(ms, { fine: false }));

export const Tab = ({ name, ...rest }) => html`<${PAGES[name]} ...${rest} />`;

function Writers({ place, path, seen, isDated, list: slowest }) {
  const named = `${path}/writers?positions=false&limit=50&prefix=${encodeURIComponent(place.q)}`;
  const [found, error] = usePolled(place.q && named, 3_000, { stays: true });
  const list = place.q ? found : slowest;
  const rows = (list?.writers || []).map((row) => [
    html`<b><${Writer} name=${row.writer} /></b>`,
    html`<span class=${toneOf(row.state, seen.judged)}>${row.state}</span>`,
    row.stand == null ? "nowhere yet" : eventTime(row.stand, isDated),
    distance(row.behind_ms, isDated),
    row.silent_ms == null ? "" : `${span(row.silent_ms)} ago`,
    html`<${Meter} row=${row} clock="silence" at=${row.silent_for_ms} />`,
    html`<${Meter} row=${row} clock="standing_still" at=${row.standing_for_ms} />`,
    row.expires_in_ms != null ? `in ${span(row.expires_in_ms)}`
      : row.remaining_ms != null ? `in ${span(row.remaining_ms)} if others go on` : "",
  ]);
  const hint = "Writers whose name begins with …";
  return html`<p class="under"><${Search} place=${place} hint=${hint} />
    <span class="dim">${place.q ? "by name" : "the live ones, the slowest first"}</span></p>
    <${Refused} error=${error} />${list && html`<${Table} rows=${rows} none="No writer."
      heads=${["writer", "state", "stands at", "behind", "reported", "silent for",
        "standing still for", "dropped"]} />`}`;
}

/** A clock of a writer; how full it is shows where it is known when it ends. */
function Meter({ row, clock, at }) {
  if (at == null) return "";
  const left = row.clock === clock ? row.remaining_ms ?? row.expires_in_ms : null;
  const meter = left != null && html`<progress value=${at} max=${at + left}></progress> `;
  return html`${meter}${span(at)}`;
}

function Segments({ info }) {
  const loads = Object.fromEntries((info.scaling?.segments || []).map((one) => [one.number, one]));
  const rows = info.topology.segments.toReversed().map((row) => [
    html`<b>${row.number}</b>`,
    row.low == null ? "" : html`<span class="range"><i style=${{ left: `${100 * row.low}%`,
      width: `${100 * (row.high - row.low)}%` }}></i></span> ${row.low.toFixed(3)} to ${
      row.high.toFixed(3)}`,
    when(row.opened_ms),
    row.sealed_length == null ? "open" : when(row.sealed_ms) || "sealed",
    row.predecessors.join(", "),
    short(info.tail?.[row.number]),
    load(loads[row.number], info.scaling?.unit),
  ]);
  const actions = (info.scaling?.actions || []).toReversed().map((one) => [
    when(one.created_ms), one.sealed.join(", "), one.added.join(", "), one.reason]);
  return html`<${Table} rows=${rows} none="No segment." heads=${["segment", "keys", "opened",
      "sealed", "continues", "next offset", "load"]} />
    ${actions.length > 0 && html`<h2>Scalings</h2><${Table} rows=${actions}
      heads=${["when", "sealed", "added", "why"]} />`}`;
}
const load = (one, unit) => one && html`${one.per_s == null ? "measured soon"
  : `${short(one.per_s)} ${unit}/s`}${one.waits && html`<small> ${one.waits}</small>`}`;

function Marks({ path, seen, isDated }) {
  const after = Math.max(0, (seen.mark?.revision || 0) - 50);
  const [list, error] = usePolled(`${path}/marks?after=${after}&limit=50`, 60_000, { stays: true });
  const rows = (list?.marks || []).toReversed().map((row) => [
    row.revision, eventTime(row.lower, isDated), eventTime(row.upper, isDated),
    row.marked_ms == null ? "" : moment(row.marked_ms), html`<code>${cutOf(row)}</code>`]);
  return html`<${Refused} error=${error} />${list && html`<${Table} rows=${rows} none="No mark yet."
    heads=${["revision", "complete up to", "noted up to", "made", "cut: segment:offset"]} />`}`;
}
function cutOf({ cut }) {
  const all = Object.entries(cut).map((entry) => entry.join(":"));
  const more = all.length > MOST_OF_CUT ? `  … ${all.length} in all` : "";
  return all.slice(0, MOST_OF_CUT).join("  ") + more;
}

function Transactions({ path }) {
  const [list, error] = usePolled(`${path}/transactions?state=open&limit=100`, 5_000);
  const rows = (list?.transactions || []).map((row) => [
    html`<code>${row.id}</code>`, html`<${Writer} name=${row.writer} />`, short(row.events),
    short(row.size), maybe(row.expires_in_ms)]);
  return html`<${Refused} error=${error} />${list && html`<${Table} rows=${rows}
    none="No transaction is open."
    heads=${["transaction", "writer", "events", "bytes", "aborted without a call in"]} />`}`;
}

function Readers({ place }) {
  const [list, error] = usePolled("v1/reader-groups?windows=true&limit=1000", 5_000);
  const groups = list?.groups.filter(({ streams }) => streams.includes(place.stream));
  return html`<${Refused} error=${error} />${groups && html`<${GroupTable} groups=${groups}
    only=${place.stream} none="No reader group reads this stream." />`}`;
}

function Settings({ info }) {
  const rows = (service.about?.settings || []).map(({ name, default: usual, meaning }) => {
    const value = info.config[name], isUsual = JSON.stringify(value) === JSON.stringify(usual);
    const shown = valueOf(name, value);
    return [html`<code>${name}</code>`, isUsual ? shown : html`<b>${shown}</b>`,
      html`<span class="dim">${isUsual ? "" : valueOf(name, usual)}</span>`,
      html`<span class="meaning">${meaning}</span>`];
  });
  const heads = ["setting", "value", "default", "meaning"];
  return html`<${Table} rows=${rows} none="Loading …" heads=${heads} />`;
}
function valueOf(name, value) {
  if (name.endsWith("_ms") && value != null) return span(value);
  return value && typeof value === "object" ? JSON.stringify(value) : String(value);
}
