// Moments, spans, colours, addresses, and small parts that all pages share.
import { html, useState } from "./vendor/preact-htm.js";
import { keep, serverNow, service, useDrawnBy } from "./ask.js";

export const END = 9.2e18; // beyond any moment: the stream is sealed
/** Whether an event time looks like a date; the service has the same bounds. */
export const isDate = (ms) => ms >= 1e11 && ms < 253_402_300_800_000;
const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["m", 60_000], ["s", 1_000]];

export const setting = (...named) => keep("localStorage", ...named);
export const zone = { isLocal: setting("zone") === "local" };

/** A span in its two largest units, as the command line writes it. */
export function span(ms) {
  let left = Math.max(0, Number(ms));
  if (left < 1_000) return left ? `${Math.round(left)}ms` : "0s";
  const parts = [];
  for (const [unit, size] of UNITS) {
    if (left >= size && parts.length < 2) parts.push(`${Math.floor(left / size)}${unit}`);
    left %= size;
  }
  return parts.join(" ");
}
/** Event time from one to another; that of a logical clock has no unit. */
export const distance = (ms, isDated) => ms == null ? "" : isDated ? span(ms) : number(ms);

const shifted = (ms) =>
  new Date(ms - (zone.isLocal ? new Date(ms).getTimezoneOffset() * 60_000 : 0)).toISOString();
export function moment(ms, { fine = true, date = null } = {}) {
  const text = shifted(Number(ms)), day = text.slice(0, 10);
  const isShown = date ?? day !== shifted(serverNow()).slice(0, 10);
  return (isShown ? `${day} ` : "") + text.slice(11, fine ? 23 : 19);
}
const number = (value) => value.toLocaleString("en");
export function eventTime(ms, isDated = true) {
  if (ms == null) return "no mark yet";
  if (ms >= END) return "the end of time";
  return isDated && isDate(ms) ? moment(ms) : number(ms);
}
const COMPACT = Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
export const short = (count) =>
  count == null ? "" : count < 10_000 ? number(count) : COMPACT.format(count);
export const rate = (perS) => `${perS.toFixed(perS < 10 ? 1 : 0)}/s`;

const ticking = new Set();
setInterval(() => document.hidden || ticking.forEach((draw) => draw()), 1_000);
/** Draw again every second, so that ages go on. */
export function useSeconds() {
  useDrawnBy(ticking);
  return serverNow();
}
export const Ago = ({ ms }) => html`<span class="nowrap">${span(useSeconds() - Number(ms))}</span>`;
export const Until = ({ ms }) => html`<span class="nowrap">${span(ms - useSeconds())}</span>`;

/** The address of a place; all of it is behind the #, so that the service sends one page only. */
export function hrefOf(place) {
  const parts = Object.entries(place).filter(([, value]) => value != null && value !== "");
  return `#${new URLSearchParams(parts)}`.replaceAll("%2F", "/");
}
export function go(href, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", href);
  dispatchEvent(new Event("hashchange"));
}

const COLOURS = 12, taken = new Map();
/** The colour of a writer: by its name, or the next one that no other writer of the stream has. */
export function colourOf(writer) {
  if (!taken.has(writer)) {
    let at = [...writer].reduce((sum, letter) => (31 * sum + letter.codePointAt(0)) % 9_973, 0);
    const used = new Set(taken.values());
    for (let n = 0; used.has(at % COLOURS) && n < COLOURS; n++) at++;
    taken.set(writer, at % COLOURS);
  }
  return `own-${taken.get(writer)}`;
}
export const forgetColours = () => taken.clear();
export const others = (count) => (count > 0 ? `and ${count} more ` : "");
export const Writer = ({ name, more = 0 }) => html`<span class="writer" title=${name}><i
  class="dot ${colourOf(name)}"></i>${name}</span> ${others(more)}`;

export const meaningOf = (state) => service.about?.states.find((one) => one.state === state);
/** Only the writers that cause trouble have its tone. */
export function toneOf(writerState, judged) {
  const isToBlame = meaningOf(judged?.state)?.to_blame.includes(writerState);
  return isToBlame ? judged.tone : writerState === "active" ? "green" : "grey";
}
export const Pill = ({ judged }) => judged && html`<span class="pill ${judged.tone}"
  title=${meaningOf(judged.state)?.meaning}>${judged.label}</span>`;
export const States = ({ states, judged }) => Object.entries(states || {})
  .filter(([, count]) => count)
  .map(([state, count]) => html`<span class="count ${toneOf(state, judged)}">${short(count)} ${
    state}</span> `);

export const Search = ({ place, hint }) => html`<input type="search" value=${place.q || ""}
  placeholder=${hint} aria-label=${hint} title="Press / to search"
  onInput=${(event) => go(hrefOf({ ...place, q: event.target.value }), { replace: true })} />`;

const DEFAULT_URL = "http://127.0.0.1:8470";
/** The address of this service, as the command line takes it: that of the page. */
const here = () => (location.origin + location.pathname).replace(/\/$/, "");
export const addressed = (command) =>
  here() === DEFAULT_URL ? command : `${command} --url ${here()}`;
/** Commands that name the service as it sees itself; behind a proxy it is elsewhere. */
export const firstSteps = () => (service.about?.first_steps || [])
  .map((step) => step.replace(/--url [^\s;]+/, `--url ${here()}`));

export function Command({ text }) {
  const [label, setLabel] = useState("copy");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setLabel("copied");
      setTimeout(() => setLabel("copy"), 1_500);
    } catch {
      setLabel("select it"); // a browser copies nothing from a page without TLS
    }
  };
  return html`<span class="typed"><code class="command" tabindex="0">${text}</code><button
    onClick=${copy} title="Copy the command">${label}</button></span>`;
}

const MOST_ROWS = 500;
export function Table({ heads, rows, none }) {
  if (!rows.length) return html`<p class="card dim">${none}</p>`;
  return html`<div class="card wide"><table>
    <thead><tr>${heads.map((head) => html`<th>${head}</th>`)}</tr></thead>
    <tbody>${rows.slice(0, MOST_ROWS).map((cells) => html`<tr>${cells.map((cell) =>
      html`<td>${cell}</td>`)}</tr>`)}</tbody></table>
    ${rows.length > MOST_ROWS
      && html`<p class="dim more">${MOST_ROWS} of ${rows.length}</p>`}</div>`;
}
/** Figures with their names, and what is to say of each. */
export const Facts = ({ rows }) => html`<dl class="facts">${rows.filter(Boolean).map(
  ([name, value, more]) => html`<div><dt>${name}</dt><dd>${value}</dd>${more
    && html`<small>${more}</small>`}</div>`)}</dl>`;

const REFUSED = {
  missing: "It is not there",
  forbidden: "Your token does not suffice",
  refused: "The service refuses this",
};
export const Refused = ({ error }) => error && html`<p class="card amber" role="status">
  ${REFUSED[error.kind]}: ${error.message}</p>`;
/** What stands in the place of an answer that is not there yet. */
export const Waiting = ({ error }) => html`<${Refused} error=${error} />${!error
  && !service.trouble && html`<p class="dim blank">Loading …</p>`}`;
