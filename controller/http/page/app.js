// The frame: the bar, what is wrong, the token, and the page that the address names.
import { html, render } from "./vendor/preact-htm.js";
import { learn, service, setToken, token, useService } from "./ask.js";
import { AllGroups, Group } from "./groups.js";
import { Help } from "./help.js";
import { Overview } from "./overview.js";
import { Stream } from "./stream.js";
import { go, moment, setting, useSeconds, zone } from "./words.js";

const ROOMS = [["", "Streams", Overview], ["groups", "Groups", AllGroups], ["help", "Help", Help]];
const LEARN_MS = 300_000;
const hrefOfRoom = (name) => (name ? `#show=${name}` : "#");
/** What the address names, unless that would lead to another call. */
const placeOf = () => Object.fromEntries([...new URLSearchParams(location.hash.slice(1))]
  .filter(([, value]) => !/(^|\/)\.+(\/|$)/.test(value)));

function App() {
  const place = placeOf(), { trouble } = useService(), one = place.stream || place.group;
  const [room, , Listing] = ROOMS.find(([name]) => name === place.show) || ROOMS[0];
  const Page = place.stream ? Stream : place.group ? Group : Listing;
  return html`<${Bar} room=${one ? null : room} one=${one} />
    ${trouble?.kind === "token" ? html`<${TokenBox} text=${trouble.text} />`
      : trouble && html`<${Outage} trouble=${trouble} />`}
    ${trouble?.kind !== "token" && html`<main class=${trouble ? "stale" : ""}>
      <${Page} key=${one || room} place=${place} /></main>`}`;
}

function Bar({ room, one }) {
  const turnZone = () => {
    zone.isLocal = !zone.isLocal;
    setting("zone", zone.isLocal ? "local" : "utc");
    draw();
  };
  return html`<header class="bar-top">
    <a class="home" href="#" aria-label="All streams"><img src="ui/icon.svg" alt="" /> Tidegauge</a>
    <nav aria-label="Pages">${ROOMS.map(([name, text]) => html`<a href=${hrefOfRoom(name)}
      aria-current=${name === room ? "page" : null}>${text}</a>`)}</nav>
    <b class="where" title=${one}>${one}</b>
    <small class="version" title="Version of the service">${service.about?.version}</small>
    <${Clock} />
    <button onClick=${turnZone} title="Show times in UTC, or in the zone of this machine">${
      zone.isLocal ? "local" : "UTC"}</button>
    <button onClick=${turnTheme} title="Light or dark" aria-label="Light or dark">◐</button>
  </header>`;
}

/** It goes on in an outage. */
function Clock() {
  useSeconds();
  return html`<span class="clock">${moment(Date.now() + service.skewMs, { fine: false }).slice(-8)}
  </span>`;
}

function Outage({ trouble: { kind, text, sinceMs, holder } }) {
  return html`<p class="outage" role="alert">${kind === "standby"
    ? html`${text[0].toUpperCase()}${text.slice(1)}. ${holder && html`<a
      href="${holder}/${location.hash}">Go to the one that holds it</a>, or, behind a proxy, `}
      <button onClick=${() => location.reload()}>load the page again</button>.`
    : html`No answer from ${location.host} since ${moment(sinceMs, { fine: false })}: ${text}. The
      page shows what was answered last, and tries again by itself.`}</p>`;
}

function TokenBox({ text }) {
  const take = (event) => {
    event.preventDefault();
    setToken(event.target.elements.token.value.trim());
    learn();
  };
  return html`<main><form class="card token" onSubmit=${take}>
    <h1>${token() ? "This token is not accepted" : "This service wants a token"}</h1>
    <p class="dim cure">${token() && `${text}. `}One with the role <code>observe</code> is enough.
      This tab keeps it until it is closed.</p>
    <p><input name="token" type="password" autocomplete="off" autofocus aria-label="Token" />
      ${" "}<button>Use it</button></p></form></main>`;
}

function turnTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme
    ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  setting("theme", root.dataset.theme);
  dispatchEvent(new Event("theme"));
}

function step(by) {
  const rows = [...document.querySelectorAll("[data-row]")];
  const at = rows.indexOf(document.activeElement), last = rows.length - 1;
  rows[at < 0 ? (by > 0 ? 0 : last) : Math.min(last, Math.max(0, at + by))]?.focus();
}
const search = () => document.querySelector("input[type=search]")?.focus();
const DEEDS = { "/": search, j: () => step(1), k: () => step(-1), o: () => go("#"),
  g: () => go("#show=groups"), "?": () => go("#show=help"), Escape: () => go("#") };
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches?.("input")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (!DEEDS[event.key]) return;
  event.preventDefault();
  DEEDS[event.key]();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
  dispatchEvent(new Event("theme")));
if (setting("theme")) document.documentElement.dataset.theme = setting("theme");
document.body.textContent = "";
const draw = () => render(html`<${App} />`, document.body);
addEventListener("hashchange", draw);
setInterval(() => document.hidden || learn(), LEARN_MS);
learn();
draw();
