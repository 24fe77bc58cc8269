// The tide chart: event time over wall clock, by uPlot; and below it, on the same axis, who held.
import { html, useEffect, useRef, useState } from "./vendor/preact-htm.js";
import { isLocal, showMoment, showSpan } from "./moments.js";

let loading = null;
function loadPlot() {
  loading ??= new Promise((done, fail) => {
    const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: "static/vendor/uplot.css" });
    const script = Object.assign(document.createElement("script"), { src: "static/vendor/uplot.js", onload: () => done(window.uPlot), onerror: fail });
    document.head.append(style, script);
  });
  return loading;
}

const HEIGHT = 340;
const FONT = "12px system-ui, sans-serif";
const LETTER = 7.2; // px, of the widest digit in use
const probe = Object.assign(document.createElement("i"), { hidden: true });
/** A colour as the canvas reads it: it knows neither variables nor light-dark(). */
const ink = (name) => {
  document.body.append(probe);
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
};

export function TideChart({ chart, strip }) {
  const box = useRef();
  const plot = useRef(null);
  const [chosen, setChosen] = useState(null);
  const [inset, setInset] = useState({ left: 70, right: 12 });
  const [cursor, setCursor] = useState(null);
  const follows = chosen ?? chart.far;
  const key = JSON.stringify([chart.lines.map((line) => [line.name, line.tone]), chart.dated, chart.clock, chart.base > 0, isLocal]);
  const latest = useRef(chart);
  latest.current = { ...chart, follows };

  useEffect(() => {
    let dead = false;
    const make = async () => {
      const Plot = await loadPlot();
      if (dead) return;
      plot.current?.destroy();
      plot.current = new Plot(options(latest, box.current.clientWidth, setInset, setCursor), series(latest.current), box.current);
    };
    make();
    const size = () => plot.current?.setSize({ width: box.current.clientWidth, height: HEIGHT });
    addEventListener("resize", size);
    addEventListener("theme", make);
    return () => {
      dead = true;
      removeEventListener("resize", size);
      removeEventListener("theme", make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [key]);
  useEffect(() => { plot.current?.setData(series(latest.current)); }, [chart, follows]);

  return html`
    <div class="chart-box">
      <div class="chart" ref=${box} role="img" aria-label=${chart.text}></div>
      ${cursor && html`<${Tip} chart=${chart} strip=${strip} cursor=${cursor} inset=${inset} />`}
    </div>
    ${chart.empty && html`<p class="dim over-chart">No mark yet: nothing is complete.</p>`}
    <div class="held-by"><span class="dim">held by</span>
      <div class="strip" style=${{ left: `${inset.left}px`, right: `${inset.right}px` }}>
        ${strip.map((one) => html`<i key=${`${one.who}${one.x}`} class="${one.hue === null ? "unseen" : `hue-${one.hue}`} ${one.wide > 2 ? "apart" : ""}" title=${one.who}
          style=${{ left: `${one.x}%`, width: `${one.wide}%` }}>${one.wide > 8 && one.hue !== null ? one.who : ""}</i>`)}
      </div>
    </div>
    <p class="legend dim">
      <span><i class="key water"></i>complete</span><span><i class="key front"></i>noted by some writers</span>
      <span><i class="key slow"></i>slowest writers</span>${chart.holder && html`<span title=${chart.holder}><i class="key holder ${chart.tone}"></i>${chart.holder}</span>`}
      ${chart.clock && html`<span><i class="key now"></i>now</span>`}
      ${strip.some((one) => one.hue === null) && html`<span><i class="key unseen"></i>not watched</span>`}
      <label><input type="checkbox" checked=${follows} onChange=${(event) => setChosen(event.target.checked)} /> follow the watermark</label>
    </p>`;
}

/** What was at the cursor. */
function Tip({ chart, strip, cursor, inset }) {
  const last = chart.x.length - 1;
  const at = Math.min(cursor.column, last - 1); // the last column is the end of this moment
  const place = (100 * (chart.x[at] - chart.x[0])) / (chart.x[last] - chart.x[0]);
  const block = strip.findLast((one) => one.x <= place && place < one.x + one.wide);
  const side = cursor.left < cursor.wide / 2 ? { left: `${inset.left + cursor.left + 12}px` } : { right: `${inset.right + cursor.wide - cursor.left + 12}px` };
  const value = (line, none) => line[at] == null ? none : valueText(chart, line[at]);
  return html`<div class="tip" role="status" style=${side}><dl>
    <dt>time</dt><dd>${showMoment(chart.x[at] * 1000, { fine: false })}</dd>
    <dt>watermark</dt><dd>${value(chart.lower, "no mark yet")}</dd>
    <dt>noted up to</dt><dd>${value(chart.front, chart.unseen[at] === null ? "nothing yet" : "not watched")}</dd>
    <dt>held by</dt><dd>${block ? block.who : "nobody"}</dd>
  </dl></div>`;
}

/** An event time: a moment, or a number that may have more digits than JavaScript counts. */
function valueText({ base, dated }, offset, fine = true) {
  return dated ? showMoment(Number(base) + offset, { fine }) : (BigInt(base) + BigInt(Math.round(offset))).toLocaleString("en");
}

/** The columns that uPlot draws: wall clock, now, front, watermark, writers. */
function series({ x, base, lower, front, lines, clock }) {
  const now = x.map((at) => (clock ? at * 1000 - base : null));
  const last = x.length - 1;
  // the column of this moment is not over: what holds now is drawn up to its end
  return [x, now, front, lower, ...lines.map((line) => line.y)].map((column, at) => (at && column[last] === undefined ? [...column, null] : column));
}

function options(latest, width, setInset, setCursor) {
  const { lines, dated } = latest.current;
  const stepped = window.uPlot.paths.stepped({ align: 1 });
  const text = (offset, step) => {
    const moment = valueText(latest.current, offset, false);
    return dated && moment.includes(" ") ? moment.slice(5, step < 60000 ? 19 : 16) : moment; // of another day: month, day and minute
  };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    padding: [10, 26, 0, 0],
    scales: { x: { time: false, range: (_, low, high) => [low, high] }, y: { range: () => bounds(latest.current) } },
    axes: [
      { stroke: ink("dim"), grid: { show: false }, ticks: { stroke: ink("line") }, font: FONT, size: 32, gap: 4, incrs: [10, 30, 60, 120, 300, 600, 900], space: 76,
        values: (_, at) => at.map((second) => showMoment(second * 1000, { fine: false })) },
      { stroke: ink("dim"), grid: { stroke: ink("line"), width: 1 }, ticks: { show: false }, font: FONT, space: 34,
        size: (_plot, labels) => Math.max(74, 18 + LETTER * Math.max(0, ...(labels || []).map((one) => one.length))),
        splits: (_plot, _axis, low, high) => niceSplits(low, high, latest.current),
        values: (_, at) => at.map((offset) => text(offset, at[1] - at[0])) },
    ],
    series: [
      {},
      { stroke: ink("dim"), width: 1, dash: [4, 4], points: { show: false } },
      { stroke: ink("front"), width: 1, paths: stepped, points: { show: false } },
      { stroke: ink("water-line"), width: 3, fill: ink("water-fill"), paths: stepped, points: { show: false }, fillTo: (plot) => plot.scales.y.min },
      ...lines.map((line) => ({ stroke: ink(line.tone ? `hold-${line.tone}` : "slow"), width: line.tone ? 2 : 1, paths: line.tone ? stepped : undefined, points: { show: false } })),
    ],
    bands: [{ series: [2, 3], fill: ink("front-fill") }],
    hooks: {
      ready: [(plot) => measure(plot, setInset)], setSize: [(plot) => measure(plot, setInset)],
      setCursor: [({ cursor: { idx, left }, over }) => setCursor(left < 0 || idx == null ? null : { column: idx, left, wide: over.clientWidth })],
      draw: [(plot) => hatch(plot, latest.current), (plot) => pointToNow(plot, latest.current)],
    },
  };
}

/** Nobody saw how far writers had noted there: between the watermark and as far as was seen later. */
function hatch(plot, { x, lower, unseen }) {
  if (unseen.every((top) => top === null)) return;
  const { ctx } = plot;
  const at = (column) => plot.valToPos(column < x.length ? x[column] : x[x.length - 1], "x", true);
  ctx.save();
  ctx.beginPath();
  ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
  ctx.clip();
  ctx.fillStyle = hatching(ctx);
  unseen.forEach((top, column) => {
    if (top === null) return;
    const y = plot.valToPos(top, "y", true);
    ctx.fillRect(at(column), y, at(column + 1) - at(column), plot.valToPos(lower[column], "y", true) - y);
  });
  ctx.restore();
}

function hatching(ctx) {
  const side = 8 * (devicePixelRatio || 1);
  const tile = Object.assign(document.createElement("canvas"), { width: side, height: side });
  const stripes = tile.getContext("2d");
  stripes.strokeStyle = ink("hatch");
  stripes.lineWidth = side / 8;
  for (const shift of [-side, 0, side]) { // the corners belong to the next stripes
    stripes.moveTo(shift, side);
    stripes.lineTo(shift + side, 0);
  }
  stripes.stroke();
  return ctx.createPattern(tile, "repeat");
}

function measure(plot, setInset) {
  const { left, width } = plot.bbox;
  const ratio = devicePixelRatio || 1;
  setInset({ left: left / ratio, right: Math.max(0, plot.width - (left + width) / ratio) });
}

/** What is seen of event time: the water with its front and now; or the slowest writers too. */
function bounds(chart) {
  const { water, deep, follows, clock, dated } = chart;
  const now = clock ? nowOf(chart) : null;
  const [low, high] = (follows ? water : deep) || water || deep || (clock ? [now, now] : [0, 1]);
  const seen = clock && isNear(chart, low, high, now) ? Math.max(high, now) : high;
  const room = Math.max((seen - low) * 0.06, dated ? 3000 : 1);
  return [low - room, seen + room];
}

const nowOf = ({ x, base }) => x[x.length - 1] * 1000 - base;

/** Whether now can be drawn: of a watermark that moves far below it, it would flatten all. */
function isNear({ x, water, deep }, low, high, now) {
  const wide = (x[x.length - 1] - x[0]) * 1000;
  return (!water && !deep) || high === low || now - high <= Math.max(4 * (high - low), wide);
}

/** Say how far above the picture now is. */
function pointToNow(plot, chart) {
  if (!chart.clock || nowOf(chart) <= plot.scales.y.max) return;
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio || 1;
  ctx.save();
  ctx.fillStyle = ink("dim");
  ctx.font = `${12 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "right";
  ctx.textBaseline = "top";
  ctx.fillText(`↑ now, ${showSpan(nowOf(chart) - plot.scales.y.max)} above`, bbox.left + bbox.width - 6 * ratio, bbox.top + 4 * ratio);
  ctx.restore();
}

const STEPS = [1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000, 1200000, 1800000, 3600000, 7200000, 21600000, 43200000, 86400000];

/** Round moments, or round numbers, eight at most. */
function niceSplits(low, high, { base, dated }) {
  const wide = high - low;
  let step = dated ? STEPS.find((one) => wide / one <= 8) : undefined;
  step ??= 10 ** Math.ceil(Math.log10(Math.max(wide, 1) / 8));
  const origin = dated && isLocal ? new Date(Number(base)).getTimezoneOffset() * -60000 : 0;
  const rest = Number(BigInt(base) % BigInt(step)) + origin; // a base may have more digits than a number
  const first = Math.ceil((low + rest) / step) * step - rest;
  const found = [];
  for (let n = 0; n < 50 && first + n * step <= high; n++) found.push(first + n * step);
  return found;
}
