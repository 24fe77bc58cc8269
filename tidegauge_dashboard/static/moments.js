// Moments and spans as people read them. What is no date (logical time, the end of time) comes
// from Python as text: a JavaScript number cannot hold it.
import { html, useEffect, useRef } from "./vendor/preact-htm.js";

const tickers = new Set();
let skewMs = 0; // of this machine's clock, against the service's
let stoppedMs = null; // while there is no answer
export let isLocal = recall("zone") === "local";

setInterval(() => tickers.forEach((tick) => tick()), 1000);

export const setServiceClock = (nowMs) => { skewMs = nowMs - Date.now(); };
export const toServiceClock = (ms) => ms + skewMs;
export const clockNow = () => toServiceClock(Date.now());

/** Have ages and countdowns stand at a moment of the service's clock; null: let them run. */
export const stopAt = (ms) => { stoppedMs = ms; };
export const serviceNow = () => stoppedMs ?? clockNow();

export function chooseZone(local) {
  isLocal = local;
  remember("zone", local ? "local" : "utc");
}

// A browser may keep nothing for this page, and throws if it is asked to.
function recall(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

export function remember(name, value) {
  try { localStorage.setItem(name, value); } catch { /* it holds until the page is closed */ }
}

const pad = (number, width = 2) => String(number).padStart(width, "0");

function partsOf(ms) {
  const at = new Date(ms);
  const get = (what) => (isLocal ? at[`get${what}`]() : at[`getUTC${what}`]());
  return {
    date: `${get("FullYear")}-${pad(get("Month") + 1)}-${pad(get("Date"))}`,
    clock: `${pad(get("Hours"))}:${pad(get("Minutes"))}:${pad(get("Seconds"))}`,
    ms: pad(get("Milliseconds"), 3),
  };
}

/** A clock on the wall; with its date unless that is today's. */
export function showMoment(ms, { fine = true } = {}) {
  const { date, clock, ms: fraction } = partsOf(ms);
  const today = partsOf(serviceNow()).date;
  return (date === today ? "" : `${date} `) + clock + (fine ? `.${fraction}` : "");
}

export const showClock = (ms) => partsOf(ms).clock;

const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

/** A span in its two largest units, as `tidegauge why` writes them. */
export function showSpan(ms) {
  let left = Math.max(0, Math.floor(ms / 1000));
  const parts = [];
  for (const [unit, size] of UNITS) {
    if (left >= size && parts.length < 2) parts.push(`${Math.floor(left / size)}${unit}`);
    left %= size;
  }
  return parts.join(" ") || "0s";
}

/** A text that is reckoned anew every second, without drawing anything else again. */
export function Ticking({ show, ...rest }) {
  const node = useRef();
  const latest = useRef(show);
  latest.current = show;
  useEffect(() => {
    const tick = () => {
      const text = latest.current();
      // the text node stays Preact's own
      if (node.current && node.current.firstChild.data !== text) node.current.firstChild.data = text;
    };
    tickers.add(tick);
    return () => tickers.delete(tick);
  }, []);
  return html`<span ref=${node} ...${rest}>${show()}</span>`;
}

export const Since = ({ ms, ...rest }) =>
  html`<${Ticking} show=${() => showSpan(serviceNow() - ms)} ...${rest} />`;
export const Until = ({ ms, ...rest }) =>
  html`<${Ticking} show=${() => showSpan(ms - serviceNow())} ...${rest} />`;

/** A time as Python says it: {ms}, or {text, note}; null before the first mark. */
export function Time({ time }) {
  if (!time) return html`<span>no mark yet</span>`;
  if (time.text) return html`<span>${time.text}${time.note && html` <small class="dim">${time.note}</small>`}</span>`;
  return html`<time datetime=${new Date(time.ms).toISOString()}>${showMoment(time.ms)}</time>`;
}

/** Parts of a sentence, some of which tick: {text}, {since}, {until}, with a tone; names may be long. */
export const Words = ({ parts }) => (parts || []).map((part) => {
  const kind = part.tone ? `ink-${part.tone}` : null;
  if (part.since != null) return html`<${Since} ms=${part.since} class=${kind} />`;
  if (part.until != null) return html`<${Until} ms=${part.until} class=${kind} />`;
  if (part.name) return html`<span class="named ${kind || ""}" title=${part.text}>${part.text}</span>`;
  return html`<span class=${kind}>${part.text}</span>`;
});
