// One stream: why its watermark is where it is, since when, and what helps.
import { html, useEffect } from "./vendor/preact-htm.js";
import { usePolled } from "./ask.js";
import { Chart, DAY, useHistory } from "./chart.js";
import { Behind, isAged } from "./overview.js";
import { Tab, tabsOf } from "./tabs.js";
import {
  Ago, Command, Facts, Pill, Refused, States, Waiting, Writer, addressed, colourOf, distance,
  eventTime, forgetColours, hrefOf, moment, rate, short, span, toneOf,
} from "./words.js";

const BARS = 10, LISTED = 50;

export function Stream({ place }) {
  const path = `v1/streams/${place.stream}`;
  const [seen, error] = usePolled(`${path}/watermark`, 2_000);
  const [info] = usePolled(path, 10_000);
  const tabs = info ? tabsOf(info) : [], tab = tabs.includes(place.tab) ? place.tab : tabs[0];
  const limit = tab === tabs[0] && !place.q ? LISTED : BARS;
  const slowest = `${path}/writers?order=slowest&positions=false&limit=${limit}`;
  const [list] = usePolled(slowest, 4_000, { stays: true });
  const past = useHistory(place, path);
  useEffect(forgetColours, [place.stream]);
  const isHeld = seen?.judged?.state === "held";
  document.title = `${isHeld ? "held · " : ""}${place.stream} · Tidegauge`;
  if (!seen || !info) return html`<${Waiting} error=${error} />`;
  const isDated = info.config.max_future_skew_ms != null;
  const { view, night, since, until, span: wide } = place;
  const to = (more) => hrefOf({ stream: place.stream, tab: place.tab, ...more });
  const shared = { place, path, info, seen, isDated, list, to };
  return html`<${Refused} error=${error} /><${Head} ...${shared} />
    <div class="pictures"><${Chart} ...${shared} past=${past} />
      <div class="beside"><${Bars} ...${shared} /><${Longest} ...${past} to=${to} /></div></div>
    <nav class="tabs" aria-label="Parts of the stream">${tabs.map((name) => html`<a
      href=${to({ view, night, since, until, span: wide, tab: name === tabs[0] ? null : name })}
      aria-current=${name === tab ? "page" : null}>${name}</a>`)}</nav>
    <${Tab} key=${tab} name=${tab} ...${shared} />`;
}

function Head({ place, info, seen, isDated }) {
  const { explanation: why, judged, mark } = seen, holder = why.holders[0];
  const isHeld = judged?.state === "held" && holder;
  return html`<section class="card head">
    <p class="dim path"><b>${place.stream}</b>${info.config.table && ` · ${info.config.table}`}</p>
    <h1><${Pill} judged=${judged} />${" "}${isHeld && html`by <${Writer} name=${holder.writer}
      more=${why.holder_count - 1} />`}${judged?.since_ms != null
      && html`for <${Ago} ms=${judged.since_ms} />`}</h1>
    <p class="sentence">${why.sentence}</p>
    ${why.cure && html`<p class="sentence"><span class="cure">${why.cure}</span>${why.command
      && html` <${Command} text=${addressed(why.command)} />`}</p>`}
    <${Facts} rows=${facts({ info, seen, isDated, mark, holder })} /></section>`;
}

function facts({ info, seen, isDated, mark, holder }) {
  const { judged, explanation: why, watermark } = seen, { segments } = info.topology;
  const open = segments.filter((segment) => segment.sealed_length == null).length;
  return [
    isAged({ watermark, follows_clock: isDated }) ? ["behind the clock",
      html`<${Behind} ms=${watermark} />`, `complete up to ${eventTime(watermark)}`]
      : ["complete up to", eventTime(watermark, isDated)],
    mark?.marked_ms && ["last mark", html`<${Ago} ms=${mark.marked_ms} /> ago`,
      judged?.marks_per_s ? rate(judged.marks_per_s) : `at ${moment(mark.marked_ms)}`],
    holder?.behind_ms > 0 && ["spread of writers", distance(holder.behind_ms, isDated),
      html`<${Writer} name=${holder.writer} />is last`],
    ["writers", html`<${States} states=${why.states} judged=${judged} />`],
    ["segments", `${open} open`, segments.length > open && `${segments.length - open} sealed`],
    info.version != null && ["version of the table", info.version],
  ];
}

/** The longer a bar, the farther that writer is behind the first. */
function Bars({ list, seen, isDated }) {
  const { judged, explanation: { states, holders } } = seen;
  const holding = new Set(holders.map(({ writer }) => writer));
  const rows = (list?.writers || []).filter((row) => row.behind_ms != null || row.stand == null)
    .slice(0, BARS);
  const most = Math.max(1, ...rows.map((row) => Number(row.behind_ms || 0)));
  const live = states.joining + states.active + states.behind;
  return html`<section class="card" aria-label="The slowest writers">
    <h2>Slowest writers: how far behind the first</h2>
    ${!rows.length ? html`<p class="dim blank">No writer to compare.</p>`
      : html`<div class="bars">${rows.map((row) => html`<div class="bar" key=${row.writer}
        title="${row.writer} stands at ${eventTime(row.stand, isDated)}">
        <span class="who ${holding.has(row.writer) ? toneOf(row.state, judged) : ""}">${
          row.writer}</span>
        <span class="track"><i class=${colourOf(row.writer)} style=${{
          width: `${row.behind_ms == null ? 100 : (100 * Number(row.behind_ms)) / most}%` }}></i>
        </span><span class="dim">${row.stand == null ? "no time yet"
          : distance(row.behind_ms, isDated)}</span></div>`)}</div>`}
    ${rows.length > 0 && live > rows.length
      && html`<p class="dim">${short(live - rows.length)} more are nearer.</p>`}
  </section>`;
}

/** Who held it longest in the time that the chart shows. */
function Longest({ holds, length, to }) {
  return html`<section class="card" aria-label="Stood longest"><h2>Stood longest</h2>
    ${!holds ? html`<p class="dim">Loading …</p>`
      : !holds.length ? html`<p class="dim">Nobody held it for longer than usual.</p>`
      : html`<ol class="longest">${holds.toSorted((a, b) => b.length - a.length).slice(0, 5)
        .map((hold) => html`<li><a href=${to(around(hold))}>${span(hold.length)} from ${
          moment(hold.since_ms, { fine: false, date: length > DAY })}</a>${" "}
          <${Writer} name=${hold.writer} more=${hold.others} />${!hold.end && "until now"}</li>`)}
      </ol>`}</section>`;
}
const around = ({ since_ms: since, until_ms: until, length }) =>
  ({ since: Math.round(since - length / 2), until: Math.round(until + length / 2) });
