// Event time over wall clock, or how old the watermark was, by uPlot; and who held it, below.
import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact-htm.js";
import { askAll, serverNow, usePolled } from "./ask.js";
import {
  END, colourOf, eventTime, go, isDate, moment, setting, span, zone,
} from "./words.js";

const HOUR = 3_600_000;
export const DAY = 24 * HOUR;
const SPANS = [["5 min", 300_000], ["1 h", HOUR], ["24 h", DAY]];
const ROUND = 10n ** 12n, POINTS = 600, LEAST_MS = 1_000, MOST_HOLDS = 1_000;
const COLUMNS = ["marked_ms", "lower", "upper", "age_ms"];

/** What of the past an address names: its length, and its ends unless it is the last while. */
function rangeOf(place) {
  const given = place.night ? nightBefore(place.night) : [place.since, place.until].map(Number);
  const length = given[1] - given[0];
  if (length >= LEAST_MS && length < 400 * DAY && given[1] < 8e15) return { ends: given, length };
  return { ends: null, length: (SPANS.find(([, ms]) => ms === Number(place.span)) || SPANS[0])[1] };
}
function nightBefore(day) {
  const before = new Date(Date.parse(day) - DAY).toISOString().slice(0, 10);
  return [`${before}T18:00`, `${day}T08:00`].map((t) => Date.parse(t + (zone.isLocal ? "" : "Z")));
}

/** The marks and the holds of the time that an address names. */
export function useHistory(place, path) {
  const { ends, length } = rangeOf(place), least = ends ? 100 : 1_000;
  const step = Math.max(least, Math.ceil(length / POINTS / least) * least);
  const begin = () => Math.round(ends ? ends[0] : serverNow() - length);
  const at = useMemo(begin, [path, `${ends}`, length]);
  const until = ends ? `&until=${ends[1]}` : "";
  const marksSince = (at) => `${path}/marks/history?step_ms=${step}${until}&since=${at}`;
  const holdsSince = (at) => `${path}/holds?limit=${MOST_HOLDS}${until}&since=${at}`;
  const rest = ends && ends[1] < serverNow() ? 60_000 : Math.min(60_000, Math.max(5_000, step));
  // The last step was not over; steps begin where they are asked for, and what is shown.
  const asked = useRef(at), stepOf = (ms) => at + Math.floor((ms - at) / step) * step;
  const [marks, refusal] = usePolled(marksSince(at), rest, ends ? {} : {
    merge: (former, news) => join(former, news, asked.current, begin()),
    next: ({ marked_ms: marked }) =>
      marksSince(asked.current = stepOf(Math.max(marked.at(-1) ?? at, begin()))),
  });
  const [held] = usePolled(holdsSince(at), Math.max(10_000, rest), {
    read: (path) => askAll(path, "holds"), next: ends ? null : () => holdsSince(begin()),
  });
  const range = () => ends || [serverNow() - length, serverNow()];
  return { ends, length, step, marks, refusal, holds: held && clipped(held.holds, range()), range };
}

/** Append what is new from the beginning of a step on; of the mark before, the age is not sent. */
export function join(former, news, step, begin) {
  const until = former.marked_ms.filter((ms) => ms < step).length;
  const from = Math.max(0, former.marked_ms.findLastIndex((ms) => ms < begin));
  const known = former.marked_ms[until - 1] ?? -Infinity;
  const skipped = news.marked_ms.filter((ms) => ms < step && ms <= known).length;
  const joined = (name) => [...former[name].slice(from, until), ...news[name].slice(skipped)];
  return { ...news, ...Object.fromEntries(COLUMNS.map((name) => [name, joined(name)])) };
}

/** Holds within a range, with how long they are in it. */
function clipped(holds, [first, last]) {
  return holds.map((hold) => {
    const since = Math.max(first, hold.since_ms);
    const until = Math.min(last, hold.end == null ? serverNow() : hold.until_ms);
    return { ...hold, since_ms: since, until_ms: until, length: until - since };
  }).filter((hold) => hold.length > 0);
}

export function Chart({ place, past, isDated, to }) {
  const { ends, length, marks, holds } = past;
  // Of a day, event time over wall clock is a straight line: its age shows what happened.
  const usual = ends || length >= DAY ? "age" : "time";
  const view = !isDated ? "time" : ["age", "time"].includes(place.view) ? place.view : usual;
  const other = view === "age" ? "time" : "age";
  const { night, since, until, span: wide } = place;
  const today = moment(serverNow(), { date: true }).slice(0, 10);
  return html`<section class="card chart-card" aria-label="The past">
    <header><h2>${view === "time" ? "Event time over wall clock"
      : "How old the watermark was"}</h2>
      <nav class="spans" aria-label="How much of the past">${SPANS.map(([text, ms]) => html`<a
        href=${to({ span: ms === SPANS[0][1] ? null : ms })}
        aria-current=${!ends && ms === length ? "true" : null}>${text}</a>`)}
      <a href=${to({ night: today })} aria-current=${night === today ? "true" : null}>last night</a>
      <label>night before <input type="date" value=${night} max=${today}
        title="From 18:00 to 08:00" aria-label="Show the night before a day, 18:00 to 08:00"
        onChange=${({ target }) => target.value && go(to({ night: target.value }))} /></label>
      ${isDated && html`<a class="button" href=${to({
        night, since, until, span: wide, view: other === usual ? null : other })}
        >show ${other === "age" ? "age" : "event time"}</a>`}</nav></header>
    ${ends && html`<p class="dim">${moment(ends[0], { fine: false, date: true })} to ${
      moment(ends[1], { fine: false, date: true })} · <a href=${to({})}>back to now</a></p>`}
    ${marks?.marked_ms.length ? html`<${Plot} past=${past} view=${view} isDated=${isDated}
        choose=${(a, b) => go(to({ since: a, until: b, view: place.view }))} />`
      : html`<p class="dim blank">${!marks ? past.refusal?.message ?? "Loading …"
        : marks.sealed_ms ? "It was sealed by then." : "No mark: nothing was complete."}</p>`}
    ${holds && html`<${HeldBy} holds=${holds} range=${past.range()} to=${to} />`}
    <p class="legend dim">${view === "time" && html`<span><i class="water"></i>complete below</span>
      <span><i class="front"></i>noted by writers, at each mark</span>
      ${isDated && html`<span><i class="now"></i>the clock</span>`}`}
      <span>drag to look closer</span></p></section>`;
}

/** Who held it, below the chart and on its axis. */
function HeldBy({ holds, range: [first, last], to }) {
  const share = (ms) => (100 * ms) / (last - first);
  return html`<div class="held-by"><span class="dim">held by</span><span class="strip">
    ${holds.map((hold) => html`<a key=${hold.since_ms} class=${colourOf(hold.writer)} tabindex="-1"
      href=${to({ since: Math.round(hold.since_ms), until: Math.round(hold.until_ms) })}
      title="${hold.writer}, ${span(hold.length)} from ${moment(hold.since_ms, { fine: false })}"
      style=${{ left: `${share(hold.since_ms - first)}%`, width: `${share(hold.length)}%` }}
      >${share(hold.length) > 6 && hold.writer}</a>`)}</span></div>`;
}

const sizeOf = ({ clientWidth: width, clientHeight: height }) => ({ width, height });

function Plot({ past, view, isDated, choose }) {
  const box = useRef(), plot = useRef(null), latest = useRef(), [tip, setTip] = useState(null);
  latest.current = { past, view, isDated, choose, drawn: drawn(past, view, isDated) };
  useEffect(() => {
    const make = () => {
      plot.current?.destroy();
      const made = { ...options(latest, setTip), ...sizeOf(box.current) };
      plot.current = new window.uPlot(made, latest.current.drawn.data, box.current);
    };
    make();
    const watching = new ResizeObserver(() => plot.current?.setSize(sizeOf(box.current)));
    watching.observe(box.current);
    addEventListener("theme", make);
    return () => {
      watching.disconnect();
      removeEventListener("theme", make);
      plot.current?.destroy();
    };
  }, [view, isDated, zone.isLocal]);
  useEffect(() => { plot.current?.setData(latest.current.drawn.data); }, [past.marks, past.length]);
  const { marked_ms: at, lower } = past.marks;
  const text = `${at.length} marks, the last at ${moment(at.at(-1))}:`
    + ` complete up to ${eventTime(lower.at(-1), isDated)}`;
  return html`<div class="chart-box"><div class="chart" ref=${box} role="img" aria-label=${text}>
    </div>${tip && html`<dl class="tip" role="status">${tip.map(([name, value]) =>
      html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`}</div>`;
}

/**
 * What uPlot draws, over seconds of wall clock: the clock, what was noted, and what was complete;
 * or the age. Event time is from a `base` on, since a double would round that of a logical clock.
 * `points` are the exact values at the same places.
 */
function drawn({ marks, range, step }, view, isDated) {
  const last = Math.min(range()[1], marks.sealed_ms ?? serverNow());
  const open = marks.marked_ms.map((at, n) => {
    const lower = marks.lower[n];
    return { at, lower, upper: marks.upper[n], age: marks.age_ms[n] ?? at - Number(lower) };
  }).filter(({ lower }) => lower < END);
  if (!open.length) return { data: [[], [], [], []], points: [], base: 0n };
  const end = open.at(-1);
  if (last > end.at) open.push({ ...end, at: last, age: last - Number(end.lower) });
  const points = view === "age" ? aged(open, step) : open, base = baseOf(points[0].lower, isDated);
  const from = (value) => Number(BigInt(value) - base);
  const columns = view === "age"
    ? [() => null, () => null, ({ age }) => age]
    : [({ at }) => at - Number(base), ({ upper }) => from(upper), ({ lower }) => from(lower)];
  const data = [({ at }) => at / 1_000, ...columns].map((of) => points.map(of));
  return { data, points, base };
}

/** A round time at or below one: multiples of a step from it on are round, too. */
function baseOf(lower, isDated) {
  if (!isDated || !isDate(lower)) return BigInt(lower) - (BigInt(lower) % ROUND);
  return BigInt(zone.isLocal ? new Date(lower).setHours(0, 0, 0, 0) : lower - (lower % DAY));
}

/** Ages rise until a mark, and fall there. */
function aged(open, step) {
  return open.flatMap((point, n) => {
    const before = open[n - 1] ?? point, after = point.at - Number(point.lower);
    if (point.at - before.at <= 2 * step) return [point];
    const start = { ...before, age: before.at - Number(before.lower) };
    return [start, point, ...(n < open.length - 1 ? [{ ...point, age: after }] : [])];
  });
}

const STEPS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200,
  86400, 172800, 604800, 2592000, 31536000];
const NUMBERS = Array.from({ length: 54 }, (_, n) => [1, 2, 5][n % 3] * 10 ** Math.floor(n / 3));
const probe = Object.assign(document.createElement("i"), { hidden: true });
/** A colour as the canvas reads it: it knows neither variables nor light-dark(). */
function ink(name) {
  document.body.append(probe);
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}
const line = (name, more) => ({ stroke: ink(name), width: 1, points: { show: false }, ...more });

function options(latest, setTip) {
  const { view, isDated } = latest.current, isAge = view === "age";
  const stepped = isAge ? undefined : window.uPlot.paths.stepped({ align: 1 });
  const clock = (ms, gap) => moment(ms, { fine: false, date: true })
    .slice(gap >= DAY ? 5 : 11, gap >= DAY ? 10 : gap >= 60_000 ? 16 : undefined);
  const bounds = () => {
    const [, now, upper, lower] = latest.current.drawn.data;
    if (!lower.length) return [0, 1];
    const low = isAge ? 0 : Math.min(...lower), high = Math.max(...(isAge ? lower : upper));
    const isNear = !isAge && isDated && now.at(-1) - high < 4 * (high - low) + 60_000;
    const top = isNear ? Math.max(high, now.at(-1)) : high;
    const room = Math.max(isDated ? 2_000 : 1, (top - low) * 0.06);
    return [isAge ? 0 : low - room, top + room];
  };
  const named = (at, gap) => {
    const time = latest.current.drawn.base + BigInt(Math.round(at));
    if (isAge || (isDated && isDate(time))) return isAge ? span(at) : clock(time, gap);
    return eventTime(time, false).replace(/^.{3,}(?=.{9}$)/, "…"); // there is room for so much
  };
  const tipOf = ({ cursor: { idx, left } }) => {
    const { drawn: { points }, past, isDated: dated } = latest.current, point = points[idx];
    if (left < 0 || !point) return null;
    const holds = (past.holds || [])
      .filter((hold) => hold.since_ms <= point.at
        && (hold.end == null || point.at <= hold.until_ms));
    return [["at", moment(point.at, { fine: false })],
      isAge ? ["age", span(point.age)] : ["complete up to", eventTime(point.lower, dated)],
      !isAge && ["noted up to", eventTime(point.upper, dated)],
      ["held by", holds.map(({ writer }) => writer).join(", ") || "nobody"]].filter(Boolean);
  };
  const select = (plot) => {
    const { left, width: wide } = plot.select;
    if (wide <= 5) return;
    const ends = [left, left + wide].map((at) => Math.round(plot.posToVal(at, "x") * 1_000));
    latest.current.choose(...ends);
  };
  return {
    legend: { show: false }, padding: [10, 16, 0, 0],
    cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
    scales: { x: { time: false, range: () => latest.current.past.range().map((ms) => ms / 1_000) },
      y: { range: bounds } },
    axes: [
      { stroke: ink("dim"), grid: { show: false }, ticks: { stroke: ink("line") }, incrs: STEPS,
        space: 80, values: (_, at) => at.map((s) => clock(s * 1_000, (at[1] - at[0]) * 1_000)) },
      { stroke: ink("dim"), grid: { stroke: ink("line"), width: 1 }, ticks: { show: false },
        size: 84, space: 40, incrs: isDated ? STEPS.map((s) => s * 1_000) : NUMBERS,
        values: (_, at) => at.map((one) => named(one, at[1] - at[0])) },
    ],
    series: [{}, line(isDated ? "dim" : "none", { dash: [4, 4] }),
      line("front", { paths: stepped }), line("water", { width: 2, fill: ink("water-soft"),
        paths: stepped, fillTo: (plot) => plot.scales.y.min })],
    hooks: { setSelect: [select], setCursor: [(plot) => setTip(tipOf(plot))] },
  };
}
