import { html, render, useEffect, useState } from "./vendor/preact-htm.js";
import { Connection } from "./connection.js";
import { followKeys, KeysDialog } from "./keys.js";
import { go, placeOf } from "./links.js";
import { chooseZone, clockNow, isLocal, remember, setServiceClock, showClock, showMoment, stopAt, Ticking, toServiceClock } from "./moments.js";
import { Overview } from "./overview.js";

const rooms = {
  groups: () => import("./groups.js"),
  help: () => import("./help.js"),
  stream: () => import("./stream.js"),
  group: () => import("./group.js"),
};

function viewOf(place, { rows }) {
  const { kind, stream, tab, state, prefix } = place;
  const table = { search: place.q || "", page: Math.min(Math.max(1, Math.floor(place.page) || 1), 1e6), sort: place.sort || "" };
  if (kind === "overview") return { kind, ...table, state: state || null, rows: rows || null };
  if (kind === "groups") return { kind, ...table };
  if (kind === "group") return { kind, group: place.group };
  if (kind === "help") return { kind };
  return { kind, stream, tab, span: Math.min(Math.max(0, Math.floor(place.span) || 300), 3600), prefix: prefix || "", sort: table.sort };
}

const NAMES = { overview: "Streams", groups: "Groups", help: "Help" };
const HREFS = { overview: "./", groups: "?show=groups", help: "?show=help" };

function App() {
  const [place, setPlace] = useState(placeOf(location.search));
  const [more, setMore] = useState({});
  const [parts, setParts] = useState({});
  const [lostAt, setLostAt] = useState(null);
  const [loaded, setLoaded] = useState({});
  const [, redraw] = useState(0);
  const [connection] = useState(() => new Connection({
    onLost: setLostAt,
    onParts: (message) => {
      if (message.now) setServiceClock(message.now);
      // What a former place showed is not mixed with what this one does.
      setParts((old) => (message.view === old.view ? { ...old, ...message } : message));
    },
  }));

  useEffect(() => {
    const follow = () => {
      setPlace(placeOf(location.search));
      setMore({});
    };
    addEventListener("popstate", follow);
    followKeys();
    return () => removeEventListener("popstate", follow);
  }, []);
  useEffect(() => connection.show(viewOf(place, more)));
  useEffect(() => {
    if (rooms[place.kind]) rooms[place.kind]().then((found) => setLoaded((old) => ({ ...old, [place.kind]: found.default })));
    scrollTo(0, 0);
  }, [place.kind, place.stream, place.group]);

  const subject = place.stream || place.group;
  useEffect(() => {
    const where = subject || (place.kind !== "overview" && NAMES[place.kind]);
    document.title = [parts.held ? `${parts.held} held` : "", where, "Tidegauge"].filter(Boolean).join(" · ");
  }, [parts.held, subject, place.kind]);

  const mine = parts.place === (subject || "") && parts.kind === place.kind;
  const outage = lostAt ? ownOutage(lostAt) : parts.outage && serviceOutage(parts.outage);
  const seen = mine && (parts.list || parts.head || parts.sections);
  stopAt(lostAt ? toServiceClock(lostAt) : parts.stopped ?? null);
  const Room = place.kind === "overview" ? Overview : loaded[place.kind];
  return html`
    <header class="bar">
      <a class="home" href="./" data-home><img src="static/icon.svg" alt="" /> Tidegauge</a>
      <nav class="rooms" aria-label="Pages of the dashboard">${Object.entries(NAMES).map(([kind, name]) => html`
        <a href=${HREFS[kind]} aria-current=${kind === place.kind ? "page" : null}>${name}</a>`)}<span class="version" title="The version of Tidegauge">${parts.version}</span></nav>
      <span class="where" title=${subject}>${place.group && html`<span class="wide-only">reader group </span>`}<b>${subject}</b></span>
      <span class="service" title=${parts.service}>${parts.service}</span>
      <${Ticking} class="clock" show=${() => showClock(clockNow())} />
      <button onClick=${() => { chooseZone(!isLocal); redraw((n) => n + 1); }}
        title="Show times in UTC or in the time zone of this machine">${isLocal ? "local" : "UTC"}</button>
      <button onClick=${toggleTheme} class="theme" title="Light or dark" aria-label="Light or dark">◐</button>
    </header>
    ${outage && html`<p class="outage" role="alert">${outage}${seen ? " The page shows the last answer." : ""}</p>`}
    <main class=${outage ? "stale" : ""}>
      ${mine && parts.missing ? html`<section class="card"><h1 class="sentence">Not found</h1><p class="dim">${parts.missing}</p><p class="cure"><a href="./">All streams</a></p></section>`
        : mine && Room ? html`<${Room} place=${place} parts=${parts} setMore=${setMore} />`
        : html`<p class="dim waiting">${outage ? "" : "Loading …"}</p>`}
    </main>
    <${KeysDialog} />`;
}

const serviceOutage = ({ url, since, reason }) =>
  since === null ? `No answer from ${url} yet: ${reason}. Is \`tidegauge serve\` running there?`
    : `No answer from ${url} since ${showMoment(since, { fine: false })}: ${reason}.`;
const ownOutage = (since) =>
  `The process of this page (tidegauge ui) has not answered since ${showMoment(since, { fine: false })}.`;

function toggleTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  remember("theme", root.dataset.theme);
  dispatchEvent(new Event("theme"));
}

// Real links, followed without loading the page anew.
addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const to = new URL(link.href);
  if (to.origin !== location.origin || to.pathname !== location.pathname) return;
  event.preventDefault();
  go(to.search || to.pathname);
});

render(html`<${App} />`, document.body);
